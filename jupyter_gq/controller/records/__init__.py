"""The service's memory of workloads: the store, and every live record in memory."""
