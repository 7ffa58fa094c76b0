"""An order ends exactly the process that it names, and no other process of the node."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gq.agent.processes import Processes, find_pod_by_environment
from jupyter_gq.agent.signals import ELSEWHERE, GONE, MAIN, OFF, PodSignals
from jupyter_gq.client.agents import AgentCommand, AgentProcess
from jupyter_gq.devices.linux.processes import read_process

from .proc import OTHER, UID, FakeProc

#: A main process that starts a program, tells its id, and ends when its input does.
MAIN_CODE = """
import subprocess, sys
code = "print(1, flush=True); input()"
child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
input()
child.kill()
child.wait()
"""


class Pod:
    """The processes of a pod: the main process, and a program that it has started."""

    def __init__(self, proc):
        self.main = subprocess.Popen(
            [sys.executable, "-c", MAIN_CODE],
            env={**os.environ, "JUPYTER_GQ_POD_UID": UID},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.program = int(self.main.stdout.readline())
        self.processes = Processes(proc, find_pod_by_environment)

    def signals(self, *, allowed=True):
        return PodSignals(self.processes, allowed=allowed, host_ids=lambda: True)

    def close(self):
        if self.main.poll() is None:
            self.main.communicate(b"\n")


@pytest.fixture
def pod():
    made = Pod(Path("/proc"))
    yield made
    made.close()


def order(pid, *, kind="kill", later=0, uid=UID):
    """An order about the process with this id, or about one that started later or earlier."""
    process = AgentProcess(pid=pid, ticks=read_process(pid).ticks + later)
    return AgentCommand(id="c1", kind=kind, pod_uid=uid, process=process, valid_for=15)


def runs(pid):
    found = read_process(pid)
    return found is not None and not found.dead


@pytest.mark.parametrize(
    ("kind", "number"), [("interrupt", signal.SIGINT), ("terminate", signal.SIGTERM), ("kill", signal.SIGKILL)]
)
def test_program_gets_the_signal_of_the_order(tmp_path, kind, number):
    # A signal ends the program by itself: a handler in Python does not run if the signal comes right before a read.
    code = (
        "import signal\n"
        "for each in (signal.SIGINT, signal.SIGTERM):\n"
        "    signal.signal(each, signal.SIG_DFL)\n"
        "print(1, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ
    ) as program:
        program.stdout.readline()
        proc = FakeProc(tmp_path)
        proc.add(1000, pod=UID)
        proc.add(program.pid, pod=UID, parent=1000)
        seen = PodSignals(Processes(tmp_path, find_pod_by_environment), allowed=True, host_ids=lambda: True)
        assert seen.send(order(program.pid, kind=kind)) == ""
        assert program.wait() == -number


def test_program_of_the_pod_is_killed_and_the_rest_of_the_pod_lives(pod):
    assert pod.signals().send(order(pod.program)) == ""
    assert runs(pod.main.pid)


@pytest.mark.parametrize("later", [-1, 1])
def test_process_with_the_same_id_and_another_start_gets_no_signal(pod, later):
    assert pod.signals().send(order(pod.program, later=later)) == GONE
    assert runs(pod.program)


def test_process_of_another_pod_or_of_none_gets_no_signal(pod):
    assert pod.signals().send(order(pod.program, uid=OTHER)) == ELSEWHERE
    assert pod.signals().send(order(os.getpid())) == ELSEWHERE
    assert runs(pod.program)


def test_main_process_of_a_container_gets_no_signal(pod):
    assert pod.signals().send(order(pod.main.pid)) == MAIN
    assert runs(pod.main.pid)


def test_agent_that_is_not_allowed_to_sends_nothing(pod):
    assert pod.signals(allowed=False).send(order(pod.program)) == OFF
    assert runs(pod.program)


def test_order_about_a_process_that_has_ended_says_so(pod):
    command = order(pod.program)
    os.kill(pod.program, signal.SIGKILL)
    pod.close()
    assert pod.signals().send(command) == GONE


def test_command_without_a_process_is_refused(pod):
    command = AgentCommand(id="c1", kind="kill", pod_uid=UID)
    assert "names no process" in pod.signals().send(command)


def test_main_process_is_what_the_container_was_started_with_or_what_its_init_started_first(tmp_path):
    proc = FakeProc(tmp_path)
    proc.add(10, pod=UID, name="tini", ticks=1)
    proc.add(11, pod=UID, parent=10, name="start.sh", ticks=2)
    proc.add(12, pod=UID, parent=11, name="jupyter-labhub", ticks=3)
    proc.add(13, pod=UID, parent=12, name="python", ticks=4)
    proc.add(14, pod=UID, parent=10, name="orphan of a kernel", ticks=5)
    proc.add(20, pod=UID, parent=1, name="sidecar", ticks=1)
    proc.add(21, pod=UID, parent=20, name="its child", ticks=1)
    proc.add(30, pod=OTHER, name="other")
    assert Processes(tmp_path, find_pod_by_environment).find_main_processes(UID) == {10, 11, 12, 20}
