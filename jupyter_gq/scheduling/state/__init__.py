"""The index of the cluster that lives between cycles, and the state of the cycle that runs."""
