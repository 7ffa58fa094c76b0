"""The handlers of this server's routes, and the socket of its kernels."""
