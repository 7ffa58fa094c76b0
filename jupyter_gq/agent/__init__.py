"""The agent of one node: it observes the GPUs and reports to the service, listens on no port and has no rights."""
