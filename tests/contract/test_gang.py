"""Tasks of a gang, and processes of launchers in them, meet with the variables of the local backend."""

import importlib.util
import os
import subprocess
import sys

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
print("rank", group.get_rank(), "of", group.get_world_size(), "adds up", int(total.item()), flush=True)
group.destroy_process_group()
"""
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def run_tasks(command: list[str], *, tasks: int, devices: int = 1) -> list[str]:
    """Run the command once for each task of a gang, and return the sorted lines that they print."""
    rendezvous = Rendezvous(tasks=tasks, address=LOOPBACK, port=find_free_port(()))
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


def test_tasks_of_an_elastic_job_meet_again_when_one_joins_and_when_one_leaves():
    """A stand-in reads the variables that torchrun reads; torchrun itself is not part of this test."""
    meeting = Rendezvous(tasks=4, address=LOOPBACK, port=find_free_port(()), least=2, name="job-1-1")
    processes = {}

    def start(task):
        command, told = [sys.executable, "-c", MEETS_AGAIN], gang_environment(task, 1, meeting)
        processes[task] = subprocess.Popen(command, env={**os.environ, **told}, stdout=subprocess.PIPE, text=True)

    def end(task):
        process = processes.pop(task)
        process.kill()
        process.communicate()

    def said(*tasks):
        return [processes[task].stdout.readline().strip() for task in tasks]

    try:
        start(1)  # comes first, and must not host the meeting
        start(0)
        assert said(0, 1) == ["group of 2"] * 2
        start(3)
        assert said(0, 1, 3) == ["group of 3"] * 3
        end(1)
        assert said(0, 3) == ["group of 2"] * 2
        start(1)
        assert said(0, 3, 1) == ["group of 3"] * 3
    finally:
        for task in list(processes):
            end(task)


@needs_torch
def test_cells_join_a_group_of_torch_without_arguments():
    assert run_tasks(["-c", ADDS], tasks=2) == ["rank 0 of 2 adds up 2", "rank 1 of 2 adds up 2"]


@needs_torch
def test_torchrun_without_arguments_starts_one_process_for_each_gpu_of_each_task(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(ADDS)
    lines = run_tasks(["-m", "torch.distributed.run", str(script)], tasks=2, devices=2)
    assert lines == [f"rank {rank} of 4 adds up 4" for rank in range(4)]
