"""Observes the GPUs of one node and tells the service, which it dials; it listens nowhere and has no rights."""
