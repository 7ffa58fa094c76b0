"""The cells that the jobs of a soak run execute. Each run of a cell writes a file of its own and numbered lines.

A file `run-N-PID-TIME` in the job's folder is one execution of the cell in run N: its lines are the numbers that were
printed, each written before it is printed, and "end" if the cell came to its end. A file `doubled-...` says that two
executions were alive at one time.
"""

import random
from dataclasses import dataclass
from pathlib import Path

_PROLOGUE = """
import fcntl, os, pathlib, subprocess, sys, time
place = pathlib.Path({place!r})
place.mkdir(parents=True, exist_ok=True)
# The folder of the run: runs/RUN/TASK.
own = f"{{pathlib.Path(os.environ['GQ_RUN_DIR']).parent.name}}-{{os.getpid()}}-{{time.time_ns()}}"
alone = open(place / "lock", "a")
try:
    fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    (place / f"doubled-{{own}}").touch()
    raise
written = open(place / f"run-{{own}}", "a")
def note(line):
    print(line, file=written, flush=True)
def say(number):
    note(number)
    print("n", number, flush=True)
"""
_EPILOGUE = """
note("end")
"""
_COUNTS = "for number in range({steps}):\n    say(number)\n    time.sleep({pause})\n"
_BODIES = {
    "short": _COUNTS,
    "prints": "for number in range({steps} * 100):\n    say(number)\n",
    "fails": _COUNTS + 'raise ValueError("as the script says")\n',
    # The process has neither the mark of its run nor its session nor its parent.
    "daemon": 'subprocess.run(["env", "-i", "setsid", "sh", "-c", "sleep 3600 &"], check=True)\n' + _COUNTS,
    # What was paused goes on from its checkpoint; a full disk costs the progress, not the job.
    "long": """
import jupyter_gq
at = jupyter_gq.checkpoint_dir() / "epoch"
def read():
    try:
        return int(at.read_text())
    except (OSError, ValueError):
        return 0
def keep(number):
    new = at.with_name("epoch.new")
    try:
        new.write_text(str(number))
        new.replace(at)
    except OSError:
        pass
for number in range(read(), {steps} * 10):
    say(number)
    keep(number + 1)
    if jupyter_gq.should_stop():
        break
    time.sleep({pause})
""",
}
#: How often each kind is drawn, out of 20.
_WEIGHTS = {"short": 9, "long": 5, "prints": 2, "fails": 2, "daemon": 2}


@dataclass(frozen=True, slots=True)
class Cell:
    """The script of one job."""

    kind: str
    source: str


def draw_cell(rng: random.Random, place: Path) -> Cell:
    """Return a cell of a random kind that writes its marks to the folder `place`."""
    (kind,) = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
    body = _BODIES[kind].format(steps=rng.randint(2, 6), pause=round(rng.uniform(0.05, 0.5), 2))
    return Cell(kind, _PROLOGUE.format(place=str(place)) + body + _EPILOGUE)


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a cell, as its file tells."""

    run: int
    numbers: tuple[int, ...]
    ended: bool


def read_executions(place: Path) -> list[Execution]:
    """Return the executions of a job's cell, by run."""
    found = []
    for file in place.glob("run-*"):
        lines = file.read_text().split()
        numbers = tuple(int(line) for line in lines if line != "end")
        found.append(Execution(int(file.name.split("-")[1]), numbers, "end" in lines))
    return sorted(found, key=lambda each: each.run)


def count_doubled(place: Path) -> int:
    """Return how many executions found another one alive."""
    return len(list(place.glob("doubled-*")))
