"""Outputs of cells: folding, recording, and writing them into the executed notebook."""
