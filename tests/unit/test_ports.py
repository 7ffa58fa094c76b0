"""Ports for the programs of tests are given out once, also before the programs listen."""

import contextlib
import socket
import subprocess
import sys

import pytest

from jupyter_gq.demo import processes
from jupyter_gq.demo.processes import DemoError, free_port
from tests.patience import scaled
from tests.ports import claim_port


@pytest.fixture
def few(monkeypatch):
    """Let there be three ports to choose from, none of which is in use."""
    threes = (range(first, first + 3) for first in range(31_000, 20_000, -3))
    three = next(ports for ports in threes if all(map(is_free, ports)))
    monkeypatch.setattr(processes, "_PORTS", three)
    return set(three)


def is_free(port):
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


def test_no_port_is_claimed_twice(few):
    assert {claim_port() for _ in range(3)} == few
    with pytest.raises(DemoError):
        claim_port()


def test_ports_that_the_caller_has_chosen_before_are_not_returned(few):
    first = free_port()
    second = free_port({first})
    assert {first, second, free_port({first, second})} == few


def test_another_process_does_not_get_a_claimed_port_and_a_server_may_listen_there():
    port = claim_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    with socket.socket() as asks, pytest.raises(ConnectionRefusedError):
        asks.connect(("127.0.0.1", port))
    code = "import socket, sys; socket.create_server(('127.0.0.1', int(sys.argv[1]))); print('listens')"
    done = subprocess.run(
        [sys.executable, "-c", code, str(port)], capture_output=True, text=True, timeout=scaled(60), check=True
    )
    assert done.stdout == "listens\n"
