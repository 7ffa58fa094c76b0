"""The demo ends what its Hub has started, and nothing else of its process; a port that cannot be used is refused."""

import contextlib
import os
import signal
import socket
import subprocess
import sys

import psutil
import pytest

from jupyter_gq.demo.processes import DemoError, _set_subreaper, check_port, end_descendants, reap_orphans
from tests.patience import until

#: Prints the id of a child of its own, and waits.
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
input()
"""


@pytest.fixture
def families():
    """Start two programs with a child each; nothing of them is left afterwards."""
    command = [sys.executable, "-c", PARENT]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    pairs = [(process, int(process.stdout.readline())) for process in started]
    yield pairs
    for process, child in pairs:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        process.kill()
        process.communicate()


def runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] != "Z"


def test_what_ran_before_is_left_alone_with_its_children(families):
    (ours, our_child), (other, other_child) = families
    end_descendants(frozenset(process.pid for process in psutil.Process().children()) - {ours.pid})
    assert ours.poll() is not None
    assert not runs(our_child)
    assert other.poll() is None
    assert runs(other_child)


#: Starts another program when it is told to end, as a Hub starts its proxy anew.
STARTS_ANOTHER = """
import signal, subprocess, sys, time
def end(*_):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    print(child.pid, flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True:
    time.sleep(0.05)  # one long wait would miss a signal that comes right before it
"""


@pytest.fixture
def subreaper():
    _set_subreaper(enabled=True)
    yield
    _set_subreaper(enabled=False)


@pytest.mark.usefixtures("subreaper")
def test_what_was_started_while_the_others_ended_is_ended_too():
    others = frozenset(process.pid for process in psutil.Process().children())
    command = [sys.executable, "-c", STARTS_ANOTHER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "ready\n"
        end_descendants(others)
        late = int(program.stdout.readline())
    assert not runs(late)


def state(pid):
    try:
        return psutil.Process(pid).status()
    except psutil.NoSuchProcess:
        return "gone"


def test_ended_children_are_reaped_except_those_for_which_others_wait():
    ours, other = (subprocess.Popen([sys.executable, "-c", ""]) for _ in range(2))
    until(lambda: {state(ours.pid), state(other.pid)} == {psutil.STATUS_ZOMBIE}, "their ends")
    before = frozenset(process.pid for process in psutil.Process().children())
    reap_orphans(before - {ours.pid})
    assert (state(ours.pid), state(other.pid)) == ("gone", psutil.STATUS_ZOMBIE)
    assert other.wait() == 0
    ours.returncode = 0  # reaped already


@pytest.mark.parametrize("port", [-1, 0, 65536, 99999])
def test_a_number_that_is_no_port_is_refused(port):
    with pytest.raises(DemoError, match=f"{port} is no TCP port"):
        check_port(port)


def test_another_port_is_proposed_for_a_used_one():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(DemoError, match=f"Port {port} is in use by another program"):
            check_port(port)
    check_port(port)
