"""`python -m tests.api.crowded_process FILES HELD`: a service that may open few files, for the tests of storms.

The process prints its port. With HELD = "held", all free descriptors are in use until a line comes on standard input,
and until accepting has paused three times.
"""

import asyncio
import contextlib
import logging
import os
import resource
import sys

from tornado.netutil import bind_sockets

from jupyter_gq.api.app import make_server
from jupyter_gq.api.connection_settings import ServiceConnections
from jupyter_gq.api.standby import Standby
from tests.serving import application_of

PREFIX = "/services/jupyter-gq/"


def take_all() -> list[int]:
    """Open files until no descriptor is left; return the descriptors."""
    taken = []
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    return taken


async def main() -> None:
    """Serve until standard input ends."""
    files, held = int(sys.argv[1]), sys.argv[2] == "held"
    resource.setrlimit(resource.RLIMIT_NOFILE, (files // 2, files))
    logging.basicConfig(level=logging.INFO)
    connections = ServiceConnections().make_registry()
    status = Standby("1.0", lambda: "")
    server = make_server(application_of(status, None, PREFIX, connections=connections))
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    taken = take_all() if held else []
    print(sockets[0].getsockname()[1], connections.limits.connections, flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        while taken and connections.counts().pauses < 3:
            await asyncio.sleep(0.01)
        for descriptor in taken:
            os.close(descriptor)
        taken.clear()
    counts = connections.counts()
    print(counts.pauses, counts.evicted, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
