"""The GPUs of this machine: the probes (NVML or simulated), the use of shares, their limits, and their suspension.

See docs/decisions/0494-split-the-room-devices-into-layered-folders.md.
"""
