"""Processes are identified, grouped and signalled by a table of all processes."""

import errno
import os
import signal
import subprocess
import sys

import psutil
import pytest

from jupyter_gq.backends.processes import ProcessTable, ProcessTableCache, environment_of, user_of
from jupyter_gq.devices.linux.processes import Process, read_process
from jupyter_gq.devices.linux.signals import send_signal


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


def test_tree_has_descendants_and_processes_left_in_the_session():
    assert TABLE.tree(10) == {10, 11, 12, 14, 15, 16}
    assert TABLE.tree(20) == {20}
    assert TABLE.tree(999) == set()


def test_process_is_identified_by_its_id_and_start_time():
    assert TABLE.alive(10, 100)
    assert not TABLE.alive(10, 101), "the id was used again"
    assert not TABLE.alive(13, 100), "a zombie holds nothing"
    assert not TABLE.alive(999, 100)


@pytest.mark.parametrize("name", ["sleep", "a b) S 1 (", "ü((", "a\vUid:\t4242", "a\rUid:\t4242", "a\x85Uid:\t4242"])
def test_process_whose_name_looks_like_other_fields_is_read(tmp_path, name):
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


def test_missing_process_has_no_data_and_is_not_signalled():
    missing = 2**22 + 1
    assert read_process(missing) is None
    assert environment_of(missing) is None
    assert user_of(missing) is None
    send_signal(missing, 0, 9)


def test_process_whose_id_was_used_again_is_not_signalled():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found = read_process(child.pid)
    send_signal(child.pid, found.ticks - 1, 9)
    child.communicate(b"\n")
    assert child.returncode == 0


def test_marked_processes_are_found_by_their_environment():
    here = f"here-{os.getpid()}"  # another run of the tests may be on this machine
    environment = {**os.environ, "GQ_TEST_MARK": here}
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=environment)
    table = ProcessTable.read()
    assert table.find_marked("GQ_TEST_MARK", here) == {child.pid}
    assert table.find_marked("GQ_TEST_MARK", here, uid=os.getuid()) == {child.pid}
    assert table.find_marked("GQ_TEST_MARK", here, uid=os.getuid() + 1) == set()
    assert table.find_marked("GQ_TEST_MARK", "elsewhere") == set()
    child.communicate(b"\n")


def test_table_is_read_again_if_a_leader_is_new_or_dead_or_the_table_is_old():
    at = [0.0]
    cache = ProcessTableCache(lambda: at[0])
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    leader = (child.pid, read_process(child.pid).ticks)
    first = cache.read([leader])
    assert first.alive(*leader), "the old table did not have this leader"
    assert cache.read([leader]) is first
    at[0] += 3.5
    second = cache.read([leader])
    assert second is not first
    child.communicate(b"\n")
    assert not cache.read([leader]).alive(*leader)


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
def test_process_is_signalled_even_if_the_kernel_has_no_pidfd(monkeypatch, error):
    def refuses(_pid):
        raise OSError(error, "")

    monkeypatch.setattr(os, "pidfd_open", refuses)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    send_signal(child.pid, read_process(child.pid).ticks, signal.SIGKILL)
    child.communicate()
    assert child.returncode == -signal.SIGKILL
