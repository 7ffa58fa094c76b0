"""All processes of a run stop and go on, whatever they start meanwhile; no other process is touched."""

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from jupyter_gq.devices.freezing import freeze, thaw
from jupyter_gq.devices.processes import ProcessId, identify, read_process

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


def test_all_processes_of_a_tree_stop_and_go_on(tree):
    freeze(lambda: members(tree), lambda _: None)
    assert are_stopped(members(tree)) == [True, True]
    thaw(members(tree))
    assert are_stopped(members(tree)) == [False, False]


def test_a_process_that_appears_meanwhile_stops_too(tree):
    looks = []

    def find():
        looks.append(None)
        return members(tree)[: len(looks)]

    freeze(find, lambda _: None)
    assert are_stopped(members(tree)) == [True, True]


def test_a_later_process_with_the_same_id_is_not_touched(tree):
    (parent, child) = members(tree)
    other = ProcessId(parent.pid, parent.ticks + 1)
    freeze(lambda: [other, child], lambda _: None)
    assert are_stopped([parent, child]) == [False, True]
