"""The kernels of this server: their history, their activity, their share of a GPU."""
