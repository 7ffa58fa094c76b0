"""The index of the cluster, which lives between cycles, and the parts of the state of one cycle."""
