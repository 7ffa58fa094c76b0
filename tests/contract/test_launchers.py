"""Launchers in the cells of a job of several tasks, with PyTorch itself and `gloo`: `make test-torch`.

See docs/decisions/0365-test-pytorch-in-an-environment-of-its-own.md.
"""

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from jupyter_gq.backends.protocol import Outcome

from .test_gang import ADDS
from .test_local_backend import placed
from .test_with_runner import bundle, real

__all__ = ["real"]
PAGE = Path(__file__).parents[2] / "docs/how-to/train-on-many-gpus.md"
#: Adds 1 for each process of the group, as code for accelerate does it.
ACCELERATE = """
import torch
from accelerate import Accelerator
here = Accelerator(cpu=True)
total = here.reduce(torch.ones(1), "sum")
line = f"rank {here.process_index} of {here.num_processes} adds up {int(total.item())}\\n"
print(line, end="", flush=True)  # in one piece: the processes of a task share a terminal
here.end_training()
"""
pytestmark = [
    pytest.mark.asyncio,
    *(
        pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed: make test-torch")
        for name in ("torch", "accelerate")
    ),
]


def read_command() -> str:
    """Return the cell of the page that starts accelerate for several tasks with several GPUs each."""
    (found,) = re.findall(r"^!accelerate launch --multi_gpu(?:.*\\\n)*.*train\.py$", PAGE.read_text(), re.MULTILINE)
    return found


async def run_cell(real, cell: str, script: str, *, tasks: int, devices: int) -> list[list[str]]:
    """Run a cell in a job of so many tasks, each with so many devices; return the script's lines by task."""
    workload = real.workload(tasks=tasks, gpus=devices)
    names = iter(range(tasks * devices))
    workload = placed(workload, *(tuple(f"GPU-sim-{next(names)}" for _ in range(devices)) for _ in range(tasks)))
    work = real.folder / "work"
    work.mkdir()
    (work / "train.py").write_text(script)
    real.bundles.write(workload.id, "ann", bundle(work, cell), 10**6)
    await real.request(workload)
    end = await real.end(workload)
    logs = [real.bundles.log(workload.id, "ann", 10**5, run=1, tasks=[task]) for task in range(tasks)]
    assert end.outcome is Outcome.SUCCEEDED, (end, logs)
    return [sorted(re.findall(r"rank \d+ of \d+ adds up \d+", log)) for log in logs]


@pytest.fixture(autouse=True)
def _programs(monkeypatch):
    """Cells find the launchers of this environment, as in a terminal where it is active."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("cell", "script"),
    [("!torchrun train.py", ADDS), ("!accelerate launch train.py", ACCELERATE), ("!torchrun train.py", ACCELERATE)],
)
async def test_a_launcher_without_arguments_joins_tasks_of_one_gpu(real, cell, script):
    assert await run_cell(real, cell, script, tasks=2, devices=1) == [
        ["rank 0 of 2 adds up 2"],
        ["rank 1 of 2 adds up 2"],
    ]


@pytest.mark.parametrize("script", [ADDS, ACCELERATE])
async def test_torchrun_without_arguments_starts_a_process_for_each_gpu(real, script):
    assert await run_cell(real, "!torchrun train.py", script, tasks=2, devices=2) == [
        ["rank 0 of 4 adds up 4", "rank 1 of 4 adds up 4"],
        ["rank 2 of 4 adds up 4", "rank 3 of 4 adds up 4"],
    ]


async def test_the_command_of_the_page_starts_a_process_for_each_gpu_by_accelerate(real):
    assert await run_cell(real, read_command(), ACCELERATE, tasks=2, devices=2) == [
        ["rank 0 of 4 adds up 4", "rank 1 of 4 adds up 4"],
        ["rank 2 of 4 adds up 4", "rank 3 of 4 adds up 4"],
    ]
