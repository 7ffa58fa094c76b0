import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def socket():
    """Return the path of a kubelet's socket, in a folder with a short path as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="gq-") as folder:
        yield Path(folder) / "kubelet.sock"


@pytest.fixture
def kubelet(socket):
    """Return a function that starts a fake kubelet of the given class at the socket; stop them after the test."""
    started = []

    def start(kind, *pods, **more):
        started.append(kind(socket, pods, **more))
        return started[-1]

    yield start
    for server in started:
        server.stop()
