"""The agent of one node: it observes the GPUs and reports to the service. It listens on no port and has no rights."""
