"""Checks and forecasts of a workload that has not been queued yet."""
