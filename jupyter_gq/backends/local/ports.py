"""The ports on which the tasks of a run meet.

The first task listens only when its kernel has started, some seconds after the port was chosen. Until then nothing else
may take the port. So it is below the range from which the operating system gives ports to connections, and the ledger
says which ports other runs have. Neither knows the port that another service of this machine has chosen, or that the
`torchrun` of a user will take. So each run begins its search at a place of its own.
"""

import socket
import zlib
from collections.abc import Container
from itertools import chain
from typing import Final

from jupyter_gq.domain.errors import BackendError

LOOPBACK: Final = "127.0.0.1"
#: The ports that are tried. PyTorch's launchers take 29500 by default; Linux gives ports from 32768 on to connections.
_PORTS: Final = range(29_501, 32_768)


def find_free_port(run: str, taken: Container[int] = ()) -> int:
    """Return a TCP port of the loopback interface on which nothing listens now, and which is not `taken`.

    The name of the `run` says where the search begins. Raises `BackendError` if there is no such port.
    """
    begin = zlib.crc32(run.encode()) % len(_PORTS)
    for port in chain(_PORTS[begin:], _PORTS[:begin]):
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
