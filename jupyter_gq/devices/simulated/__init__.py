"""Simulated devices, with the memory and the checkpoints of the processes on them."""
