"""Outputs of cells: how they are folded, recorded and written into the executed notebook."""
