"""The code of cells, read without running it: syntax trees, magics, calls, names."""
