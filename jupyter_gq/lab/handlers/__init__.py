"""The routes of this server, and the socket of its kernels."""
