"""All processes of a run stop and go on, whatever they start meanwhile; no other process is touched."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from jupyter_gq.devices.linux.freezing import Freezer
from jupyter_gq.devices.linux.processes import ProcessId, identify, read_process
from tests.patience import until

TREE = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "print('ready', flush=True); import time; time.sleep(3600)"])
child.wait()
"""


@pytest.fixture
def tree() -> Iterator[psutil.Process]:
    parent = subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE)
    assert parent.stdout.readline() == b"ready\n"
    found = psutil.Process(parent.pid)
    processes = [found, *found.children(recursive=True)]
    yield found
    for process in processes:
        process.kill()
    parent.communicate()


def members(tree: psutil.Process) -> list[ProcessId]:
    return [identify(each.pid) for each in (tree, *tree.children(recursive=True))]


def are_stopped(processes) -> list[bool]:
    return [read_process(process.pid).stopped for process in processes]


def a_freezer(find, groups=None) -> Freezer:
    return Freezer(find_processes=find, freeze_group=[].append if groups is None else groups.append)


def test_all_processes_of_a_tree_stop_and_go_on(tree):
    groups = []
    freezer = a_freezer(lambda: members(tree), groups)
    freezer.freeze(time.sleep)
    assert are_stopped(members(tree)) == [True, True]
    assert freezer.stopped == set(members(tree))
    freezer.thaw()
    assert are_stopped(members(tree)) == [False, False]
    assert freezer.stopped == set()
    assert groups == [True, False]


def test_a_process_that_appears_meanwhile_stops_too(tree):
    looks = []

    def find():
        looks.append(None)
        return members(tree)[: len(looks)]

    freezer = a_freezer(find)
    freezer.freeze(time.sleep)
    assert are_stopped(members(tree)) == [True, True]
    assert freezer.stopped == set(members(tree))


def test_processes_that_somebody_lets_go_on_are_stopped_again_also_new_ones(tree):
    (parent, child), groups = members(tree), []
    freezer = a_freezer(lambda: [parent], groups)
    freezer.freeze(time.sleep)
    tree.send_signal(signal.SIGCONT)
    until(lambda: are_stopped([parent, child]) == [False, False])
    freezer.freeze_again([parent, child])
    until(lambda: are_stopped([parent, child]) == [True, True])
    assert groups == [True, True]


def test_a_later_process_with_the_same_id_is_not_touched(tree):
    (parent, child) = members(tree)
    other = ProcessId(parent.pid, parent.ticks + 1)
    freezer = a_freezer(lambda: [other, child])
    freezer.freeze(time.sleep)
    freezer.freeze_again([other])
    assert are_stopped([parent, child]) == [False, True]
    assert freezer.stopped == {child}
