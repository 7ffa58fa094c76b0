"""Runs of workloads: what an observed run means, and what follows from it."""
