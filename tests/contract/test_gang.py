"""Tasks of a gang, and processes of launchers in them, meet with the variables of the local backend."""

import importlib.util
import os
import subprocess
import sys

import psutil
import pytest

from jupyter_gq.backends.gang import Rendezvous, gang_environment
from jupyter_gq.backends.local.ports import LOOPBACK, find_free_port
from tests.cells import MEETS, MEETS_AGAIN
from tests.patience import scaled

#: Seconds in which the processes meet; importing torch takes most of it.
DEADLINE = 120
#: Adds 1 for each process of the group.
ADDS = """
import torch, torch.distributed as group
group.init_process_group("gloo")
total = torch.ones(1)
group.all_reduce(total)
line = f"rank {group.get_rank()} of {group.get_world_size()} adds up {int(total.item())}\\n"
print(line, end="", flush=True)  # in one piece: the processes of a task share a terminal
group.destroy_process_group()
"""
#: Trains until a task leaves the group, and begins with the step that is saved in the file of its argument.
TRAINS = """
import pathlib, sys, time
import torch, torch.distributed as group
saved = pathlib.Path(sys.argv[1])
group.init_process_group("gloo")
print("group of", group.get_world_size(), "goes on" if saved.exists() else "begins", flush=True)
while True:
    group.all_reduce(torch.ones(1))
    if group.get_rank() == 0:
        saved.touch()
    time.sleep(0.05)
"""
#: Without it, torchrun waits half a minute for further tasks, and 15 seconds for one that is gone.
NO_LONG_WAITS = ",last_call_timeout=1,keep_alive_interval=1"
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed: make test-torch"
)


def run_tasks(command: list[str], *, tasks: int, devices: int = 1) -> list[str]:
    """Run the command once for each task of a gang, and return the sorted lines that they print."""
    rendezvous = Rendezvous(tasks=tasks, address=LOOPBACK, port=find_free_port(f"tasks of {os.getpid()}"))
    processes = [
        subprocess.Popen(
            [sys.executable, *command],
            env={**os.environ, **gang_environment(task, devices, rendezvous)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for task in range(tasks)
    ]
    try:
        printed = [process.communicate(timeout=scaled(DEADLINE))[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * tasks
    return sorted(line for text in printed for line in text.splitlines())


def test_the_first_task_listens_where_the_other_one_looks_for_it():
    assert run_tasks(["-c", MEETS], tasks=2) == ["met rank 1 of 2"]


class ElasticTasks:
    """Tasks of an elastic job that come and go; each ends with all of its processes."""

    def __init__(self, command: list[str], *, least: int, most: int, settings: str = "") -> None:
        """`settings` are added to those of the rendezvous, each after a comma."""
        self._command, self._settings = [sys.executable, *command], settings
        port = find_free_port(f"elastic tasks of {os.getpid()}")
        self._meeting = Rendezvous(tasks=most, address=LOOPBACK, port=port, least=least, name="job-1-1")
        self._processes: dict[int, subprocess.Popen[str]] = {}

    def start(self, task: int) -> None:
        told = {**os.environ, **gang_environment(task, 1, self._meeting)}
        told["PET_RDZV_CONF"] += self._settings
        self._processes[task] = subprocess.Popen(self._command, env=told, stdout=subprocess.PIPE, text=True)

    def end(self, task: int) -> None:
        process = self._processes.pop(task)
        for each in [*psutil.Process(process.pid).children(recursive=True), process]:
            each.kill()
        process.communicate()

    def end_all(self) -> None:
        for task in list(self._processes):
            self.end(task)

    def said(self, *tasks: int) -> list[str]:
        """Return the next line of each of the tasks."""
        return [self._processes[task].stdout.readline().strip() for task in tasks]


def test_tasks_of_an_elastic_job_meet_again_when_one_joins_and_when_one_leaves():
    """A stand-in reads the variables that torchrun reads."""
    tasks = ElasticTasks(["-c", MEETS_AGAIN], least=2, most=4)
    try:
        tasks.start(1)  # comes first, and must not host the meeting
        tasks.start(0)
        assert tasks.said(0, 1) == ["group of 2"] * 2
        tasks.start(3)
        assert tasks.said(0, 1, 3) == ["group of 3"] * 3
        tasks.end(1)
        assert tasks.said(0, 3) == ["group of 2"] * 2
        tasks.start(1)
        assert tasks.said(0, 3, 1) == ["group of 3"] * 3
    finally:
        tasks.end_all()


@needs_torch
def test_torchrun_of_an_elastic_job_meets_again_and_its_script_goes_on_from_its_checkpoint(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    command = ["-m", "torch.distributed.run", str(script), str(tmp_path / "step")]
    tasks = ElasticTasks(command, least=1, most=2, settings=NO_LONG_WAITS)
    try:
        tasks.start(0)
        assert tasks.said(0) == ["group of 1 begins"]
        tasks.start(1)
        assert tasks.said(0, 1) == ["group of 2 goes on"] * 2
        tasks.end(1)
        assert tasks.said(0) == ["group of 1 goes on"]
        tasks.start(1)
        assert tasks.said(0, 1) == ["group of 2 goes on"] * 2
    finally:
        tasks.end_all()


@needs_torch
def test_cells_join_a_group_of_torch_without_arguments():
    assert run_tasks(["-c", ADDS], tasks=2) == ["rank 0 of 2 adds up 2", "rank 1 of 2 adds up 2"]
