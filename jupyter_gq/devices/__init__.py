"""The GPUs of this machine: the probe (NVML or simulated), and the limits of a share."""
