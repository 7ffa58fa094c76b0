"""TCP ports for programs that listen only some time after their port was chosen."""

import socket

from jupyter_gq.demo.processes import free_port


def claim_port() -> int:
    """Return a port of the loopback interface on which nothing listens, and keep it for the caller.

    Nobody else who looks for a port gets this one as long as this process runs, neither here nor in other processes. It
    is bound, but nothing listens there: connections are refused. A program may listen there if it sets SO_REUSEADDR, as
    servers do, or SO_REUSEPORT, as the early answer of the service does.
    """
    port = free_port()
    held = socket.socket()
    for shared in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        held.setsockopt(socket.SOL_SOCKET, shared, 1)
    held.bind(("127.0.0.1", port))
    held.detach()  # it stays open until the end of the process
    return port
