"""TCP ports for programs that listen only some time after their port was chosen."""

import socket

from jupyter_gq.demo.processes import free_port


def claim_port() -> int:
    """Return a port of the loopback interface on which nothing listens, and keep it for the caller.

    Nobody else who looks for a port gets this one as long as this process runs, neither here nor in other processes. It
    is bound, but nothing listens there: connections are refused, and a server may listen, since servers set
    SO_REUSEADDR.
    """
    port = free_port()
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    held.detach()  # it stays open until the end of the process
    return port
