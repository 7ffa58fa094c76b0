"""The ports on which the tasks of a run meet.

The first task listens only when its kernel has started, some seconds after the port was chosen. Until then nothing else
may take the port. So it is below the range from which the operating system gives ports to connections, and the ledger
says which ports other runs have.
"""

import socket
from collections.abc import Container
from typing import Final

from jupyter_gq.domain.errors import BackendError

LOOPBACK: Final = "127.0.0.1"
#: The ports that are tried, in this order; Linux gives ports from 32768 on to connections.
_PORTS: Final = range(29_500, 32_768)


def find_free_port(taken: Container[int]) -> int:
    """Return a TCP port of the loopback interface on which nothing listens now, and which is not `taken`.

    Raises `BackendError` if there is none.
    """
    for port in _PORTS:
        if port not in taken and _is_free(port):
            return port
    raise BackendError(f"The tasks cannot meet: all ports from {_PORTS[0]} to {_PORTS[-1]} are in use.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as the first task does: old connections do not count
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
