"""Code inside the user's kernel: the functions for cells (should_stop, ...), and the memory caps of the share."""
