"""A run whose process was killed for want of memory says how much it had, and what its owner can do."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gq.client.bundle import CellToRun
from jupyter_gq.devices.linux.control_group import MemoryWatch
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.memory_kill import MemoryKill
from jupyter_gq.runner.cells.kernel import KernelProcess
from jupyter_gq.runner.result import describe_exception, describe_failed_command, describe_kernel_exit

CELL = CellToRun(id="c1", index=0, role="target", source="train()")
BEYOND = MemoryKill(limit=MiB(16 * 1024))
WHY = "the job used more than its memory of 16 GiB"
REMEDY = "Use less memory, or ask for more."


def count(group: Path, *, oom: int, killed: int) -> None:
    (group / "memory.events").write_text(f"oom {oom}\noom_kill {killed}\n")


def a_killed_kernel(group: Path | None) -> KernelProcess:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    kernel = KernelProcess(process=process, connection={}, folder=Path(), memory=MemoryWatch(group))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return kernel


@pytest.mark.parametrize(
    ("oom", "how"),
    [(1, f"was killed because {WHY}"), (0, "was killed because the machine had no memory left for the job")],
)
def test_a_kernel_that_was_killed_for_memory(tmp_path: Path, oom: int, how: str) -> None:
    (tmp_path / "memory.max").write_text(f"{16 * 2**30}\n")
    count(tmp_path, oom=0, killed=0)
    kernel = a_killed_kernel(tmp_path)
    assert kernel.describe_exit() == "was killed (SIGKILL), and not by Linux for want of memory"
    count(tmp_path, oom=oom, killed=1)
    assert kernel.describe_exit() == how


def test_a_kernel_that_was_killed_where_nothing_is_counted() -> None:
    assert a_killed_kernel(None).describe_exit().startswith("was killed, most often because")


def test_the_sentences_for_the_owner() -> None:
    said = describe_kernel_exit((CELL,), CELL, f"was killed because {WHY}", REMEDY).sentence
    assert said == f"The kernel was killed because {WHY}; it was running the cell. {REMEDY}"
    meanwhile = f"Meanwhile, Linux killed a process of the job, because {WHY}. {REMEDY}"
    said = describe_exception((CELL,), CELL, "KeyboardInterrupt", "", BEYOND).sentence
    assert said == f"The cell raised KeyboardInterrupt. {meanwhile}"
    said = describe_failed_command((CELL,), CELL, "!python train.py", -9, BEYOND).sentence
    assert said == f"The cell ran, but its last command `!python train.py` ended with exit status -9. {meanwhile}"
