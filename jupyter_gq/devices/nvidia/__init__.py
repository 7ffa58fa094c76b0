"""NVIDIA's software on this machine: devices by NVML, limits of the driver, MPS, and checkpoints of processes."""
