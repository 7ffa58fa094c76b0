"""The kernel's process, the connection to it, and the cells that it runs."""
