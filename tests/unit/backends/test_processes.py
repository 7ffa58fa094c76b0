"""Which processes belong together, from a table of them."""

import errno
import os
import signal
import subprocess
import sys

import psutil
import pytest

from jupyter_gq.backends.processes import (
    Lookout,
    Process,
    ProcessTable,
    environment_of,
    read_process,
    send_signal,
    user_of,
)


def a_process(pid, parent=1, session=None, dead=False, ticks=100):
    return Process(pid=pid, ticks=ticks, parent=parent, session=session or pid, dead=dead)


TABLE = ProcessTable(
    [
        a_process(1),
        a_process(10, session=10),
        a_process(11, parent=10, session=10),
        a_process(12, parent=11, session=12),  # a kernel: a session of its own
        a_process(13, parent=12, session=12, dead=True),
        a_process(14, parent=13, session=12),
        a_process(15, parent=1, session=10),  # adopted by init, still in the session
        a_process(16, parent=15, session=16),
        a_process(20, session=20),
    ]
)


def test_a_tree_is_the_descendants_and_what_is_left_in_the_session():
    assert TABLE.tree(10) == {10, 11, 12, 14, 15, 16}
    assert TABLE.tree(20) == {20}
    assert TABLE.tree(999) == set()


def test_a_process_is_its_pid_and_its_start():
    assert TABLE.alive(10, 100)
    assert not TABLE.alive(10, 101), "the pid was used again"
    assert not TABLE.alive(13, 100), "a zombie holds nothing"
    assert not TABLE.alive(999, 100)


@pytest.mark.parametrize("name", ["sleep", "a b) S 1 (", "ü(("])
def test_a_name_with_spaces_and_parentheses_is_read(tmp_path, name):
    program = tmp_path / name
    program.symlink_to(sys.executable)
    child = subprocess.Popen([str(program), "-c", "input()"], stdin=subprocess.PIPE)
    try:
        found = read_process(child.pid)
        assert (found.pid, found.parent, found.dead) == (child.pid, os.getpid(), False)
        assert abs(found.started - psutil.Process(child.pid).create_time()) < 2
        assert user_of(child.pid) == os.getuid()
    finally:
        child.communicate(b"\n")


def test_what_is_not_there_is_none():
    missing = 2**22 + 1
    assert read_process(missing) is None
    assert environment_of(missing) is None
    assert user_of(missing) is None
    send_signal(missing, 0, 9)


def test_a_pid_that_was_used_again_is_not_signalled():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found = read_process(child.pid)
    send_signal(child.pid, found.ticks - 1, 9)
    child.communicate(b"\n")
    assert child.returncode == 0


def test_marked_processes_are_found_by_their_environment():
    environment = {**os.environ, "GQ_TEST_MARK": "here"}
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=environment)
    table = ProcessTable.read()
    assert table.marked("GQ_TEST_MARK", "here") == {child.pid}
    assert table.marked("GQ_TEST_MARK", "here", uid=os.getuid()) == {child.pid}
    assert table.marked("GQ_TEST_MARK", "here", uid=os.getuid() + 1) == set()
    assert table.marked("GQ_TEST_MARK", "elsewhere") == set()
    child.communicate(b"\n")


def test_a_lookout_looks_again_when_a_leader_is_new_or_gone_or_time_has_passed():
    at = [0.0]
    lookout = Lookout(lambda: at[0])
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    leader = (child.pid, read_process(child.pid).ticks)
    first = lookout.table([leader])
    assert first.alive(*leader), "a leader that the old table did not have"
    assert lookout.table([leader]) is first
    at[0] += 3.5
    second = lookout.table([leader])
    assert second is not first
    child.communicate(b"\n")
    assert not lookout.table([leader]).alive(*leader)


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
def test_a_kernel_without_handles_on_processes_is_no_obstacle(monkeypatch, error):
    def refuses(_pid):
        raise OSError(error, "")

    monkeypatch.setattr(os, "pidfd_open", refuses)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    send_signal(child.pid, read_process(child.pid).ticks, signal.SIGKILL)
    child.communicate()
    assert child.returncode == -signal.SIGKILL
