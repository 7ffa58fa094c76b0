"""Nodes and their devices: models, agents' reports, foreign pods, nodes that the cluster may add."""
