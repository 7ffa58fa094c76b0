import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def socket():
    """Where a kubelet listens: the path of a socket must be short."""
    with tempfile.TemporaryDirectory(prefix="gq-") as folder:
        yield Path(folder) / "kubelet.sock"


@pytest.fixture
def kubelet(socket):
    """Starts kubelets of a kind at that socket; stops them."""
    started = []

    def start(kind, *pods, **more):
        started.append(kind(socket, pods, **more))
        return started[-1]

    yield start
    for server in started:
        server.stop()
