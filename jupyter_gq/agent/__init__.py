"""The agent of one node, which observes the GPUs and reports to the service; it listens on no port and has no rights."""
