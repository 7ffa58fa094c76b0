"""The GPUs of this machine: the probes (NVML or simulated), the use of shares, and their limits."""
