"""How long our cycle takes on one case: the decision alone, without reading and translating."""

import json
from pathlib import Path
from statistics import median
from time import perf_counter

from jupyter_gq.scheduling.cycle import run_cycle

from .play import policy_of
from .translate import NOW, snapshot_of, world_of
from .verdict import Case, Untranslatable


def one_case(path: Path) -> Case:
    """The case of a file: the file is the case, or has a list of one. Raises `Untranslatable`."""
    data = json.loads(path.read_text(encoding="utf-8"))
    cases = data.get("cases", [data])
    if len(cases) != 1 or "jobs" not in cases[0]:
        raise Untranslatable(f"{path} should have one case with nodes, queues and jobs; it has {len(cases)}")
    return cases[0]


def time_cycle(case: Case, repeat: int) -> str:
    """One line: least and median seconds of `repeat` cycles on the same snapshot."""
    world = world_of(case)
    snapshot, policy = snapshot_of(world), policy_of(world)
    seconds = []
    for _ in range(max(1, repeat)):
        start = perf_counter()
        run_cycle(snapshot, policy, NOW)
        seconds.append(perf_counter() - start)
    return f"cycle: least {min(seconds):.6f} s, median {median(seconds):.6f} s, {len(seconds)} times"
