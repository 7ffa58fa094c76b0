"""How long a scheduling cycle takes, and how that grows: each case checks the decision first, then times it.

A cascade is the eviction of a job for another one that was evicted itself, with no event between. The goal is none.

Every case runs in a process of its own. The snapshot is built apart; the time is that of deciding alone (processor
time of the one thread), best and median of the repeats. Peak memory is the largest resident set of that process, with
Python, the snapshot and the decision in it.

The peer is KAI-Scheduler. "best" and "median" stand beside what its own in-process benchmarks took on a machine of this
kind (commit of March 2026, Go 1.26; about 0.1 s of each is its fixture); "vs published" beside what it published. Its
memory is what one cycle allocated, which is more than it held at a time. Its figure for one event is a whole cycle on
a snapshot of 4,000 nodes: it has no smaller step.

Cases with suspended notebooks have another peer, which this scheduler decides in the same process, in turns: for
notebooks that come back, as many jobs of a queue with a quota that take the same devices back; for jobs that wait
beside lent shares, the same notebooks while they run.
"""

import argparse
import gc
import math
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import process_time
from typing import NamedTuple

from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Admit, Decision, Evict
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.policy import Policy

from . import clusters, table
from .living_cluster import LivingCluster

#: Jobs of the consolidation case that need a whole node each, while every node is partly used.
_WHOLE = 10


class Figure(NamedTuple):
    """One figure of a case."""

    name: str
    unit: str
    value: float
    #: The value of a peer that was measured with it, if there is one.
    peer: float | None = None


#: Runs one size of a case so many times; gives the figures.
Measure = Callable[[int, int], list[Figure]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One line of the table, for each of its sizes."""

    name: str
    #: What is shown, with {n} for the size.
    title: str
    measure: Measure
    #: Nodes, with the goal for the time in seconds.
    goals: dict[int, float]
    #: Seconds that the peer takes when it is run here.
    peer: dict[int, float] = field(default_factory=dict)
    #: Seconds that it takes as published.
    published: dict[int, float] = field(default_factory=dict)
    #: MB that it allocates in one cycle.
    peer_memory: dict[int, float] = field(default_factory=dict)
    repeats: int = 5
    #: The sizes that the growth exponent is taken from.
    growth: tuple[int, ...] = ()
    #: Peak memory in MB that must not be passed, by size.
    memory: dict[int, float] = field(default_factory=dict)


def _timed(snapshot: Snapshot, repeats: int, check: Callable[[Decision], None]) -> list[Figure]:
    """Decide once to check and once more for each repeat."""
    policy = Policy()
    check(run_cycle(snapshot, policy, clusters.NOW))
    times = []
    for _ in range(repeats):
        gc.collect()
        began = process_time()
        run_cycle(snapshot, policy, clusters.NOW)
        times.append(process_time() - began)
    return _figures(times)


def _in_turns(ours: Snapshot, peer: Snapshot, repeats: int, check: Callable[[Decision], None]) -> list[Figure]:
    """Decide about two snapshots in turns; the same must be true of both decisions."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for snapshot, taken in zip((ours, peer), times, strict=True):
            scheduler = Scheduler(snapshot, Policy())
            gc.collect()
            began = process_time()
            decision = scheduler.decide(clusters.NOW)
            taken.append(process_time() - began)
            check(decision)
    return [
        Figure("best", "s", min(times[0]), min(times[1])),
        Figure("median", "s", median(times[0]), median(times[1])),
        Figure("peak memory", "MB", _peak_memory()),
    ]


def _figures(times: Sequence[float]) -> list[Figure]:
    return [
        Figure("best", "s", min(times)),
        Figure("median", "s", median(times)),
        Figure("peak memory", "MB", _peak_memory()),
    ]


def _peak_memory() -> float:
    """Largest resident set of this process since it began, in MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6


def _expect(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise SystemExit(f"The decision is wrong: {found} {what}, expected {expected}.")


def _count(decision: Decision, kind: type) -> int:
    return sum(isinstance(instruction, kind) for instruction in decision.instructions)


# --- the cases


def _full_cycle(size: int, repeats: int) -> list[Figure]:
    def check(decision: Decision) -> None:
        _expect("evictions", _count(decision, Evict), clusters.GPUS * size)
        _expect("jobs that wait for them", len(decision.pending), clusters.GPUS * size)

    return _timed(clusters.full_cycle(size), repeats, check)


def _reclaim(size: int, repeats: int) -> list[Figure]:
    def check(decision: Decision) -> None:
        _expect("evictions", _count(decision, Evict), clusters.GPUS * (size // 10))

    return _timed(clusters.one_gang(size), repeats, check)


def _allocate(size: int, repeats: int) -> list[Figure]:
    return _timed(clusters.allocation(size, 500), repeats, lambda d: _expect("starts", _count(d, Admit), 500))


def _consolidate(size: int, repeats: int) -> list[Figure]:
    def check(decision: Decision) -> None:
        moved = [i for i in decision.instructions if isinstance(i, Evict)]
        _expect("evictions that move nothing", sum(i.reason is not EvictReason.CONSOLIDATED for i in moved), 0)
        kept = [entry for entry in decision.pending if entry.why.reason is PendingReason.WAITS_FOR_EVICTION]
        _expect("jobs whose room is kept", len(kept), _WHOLE)
        if len(moved) < _WHOLE:
            raise SystemExit(f"The decision is wrong: {len(moved)} moves for {_WHOLE} whole nodes.")

    return _timed(clusters.fragmented(size, 200, _WHOLE), repeats, check)


def _events(living: LivingCluster, repeats: int) -> list[Figure]:
    """One event at a time: a job ends and others take its place, or one more is submitted."""
    living.settle()
    held, template = living.held(), next(w for w in living.workloads.values() if w.state is State.PENDING)
    running = [w.id for w in living.workloads.values() if w.state is State.RUNNING]
    ends, submissions = [], []
    for number in range(repeats):
        living.event()
        gc.collect()
        began = process_time()
        living.end(running[number * 7919 % len(running)])
        decision = living.decide()
        ends.append(process_time() - began)
        if not _count(decision, Admit):
            raise SystemExit("The decision is wrong: a job ended and nobody starts.")
        living.carry_out(decision)
        living.settle()
        began = process_time()
        living.put(replace(template, id=f"new{number}", submitted_at=living.now))
        decision = living.decide()
        submissions.append(process_time() - began)
        _expect("instructions for one more who waits", len(decision.instructions), 0)
    _expect("milli-GPU in use at the end", living.held(), held)
    found: list[Figure] = []
    for name, times in (("end", ends), ("arrival", submissions)):
        found += [Figure(f"{name} best", "s", min(times)), Figure(f"{name} median", "s", median(times))]
    return [*found, Figure("cascades", "", living.cascades), Figure("peak memory", "MB", _peak_memory())]


def _guarantees(size: int, repeats: int) -> list[Figure]:
    """One queue after the other wants its whole quota back, in jobs of mixed sizes, from queues that borrow.

    A job of a whole node waits if each node runs work of a queue within its quota.
    """
    leaves = 20
    living = LivingCluster(clusters.lent(size, leaves))
    living.settle()
    times, waiting = [], 0
    for number in range(leaves // 2, leaves):
        living.event()
        jobs = clusters.owed(size, leaves, number)
        for job in jobs:
            living.put(job)
        gc.collect()
        began = process_time()
        living.decide()
        times.append(process_time() - began)
        living.settle()
        waiting += sum(living.workloads[job.id].state is State.PENDING for job in jobs)
        if len(times) == repeats:
            break
    return [
        Figure("best", "s", min(times)),
        Figure("median", "s", median(times)),
        Figure("entitled jobs that wait", "", waiting),
        Figure("evictions", "", living.evictions),
        Figure("cascades", "", living.cascades),
    ]


def _steady(size: int, repeats: int) -> list[Figure]:
    return _events(LivingCluster(clusters.mixed(size, clusters.GPUS * size, 100, full=True)), repeats)


def _preview(size: int, repeats: int) -> list[Figure]:
    """Somebody asks what would become of a job that has not been sent yet."""
    living = LivingCluster(clusters.mixed(size, clusters.GPUS * size, 100, full=True))
    living.settle()
    template = next(w for w in living.workloads.values() if w.state is State.PENDING)
    before, times = living.decide(), []
    for number in range(repeats):
        new = replace(template, id=f"new{number}", queue=clusters.leaf(number, 100), submitted_at=living.now)
        gc.collect()
        began = process_time()
        decision = living.scheduler.decide_with(new, living.now)
        times.append(process_time() - began)
        _expect("more who wait", len(decision.pending) - len(before.pending), 1)
    if living.decide() != before:
        raise SystemExit("The decision is wrong: a question has changed it.")
    return _figures(times)


def _return(size: int, repeats: int) -> list[Figure]:
    """All suspended notebooks are used at once, and jobs use all that they have lent."""

    def check(decision: Decision) -> None:
        _expect("evictions", _count(decision, Evict), size)

    return _in_turns(clusters.return_of_notebooks(size), clusters.return_of_jobs(size), repeats, check)


def _beside_lent(*, alike: bool) -> Measure:
    """Jobs that may not borrow wait beside suspended notebooks. For those that are alike, other jobs give way."""

    def measure(size: int, repeats: int) -> list[Figure]:
        def check(decision: Decision) -> None:
            _expect("evictions", _count(decision, Evict), size // 2 if alike else 0)
            _expect("who wait", len(decision.pending), size // 2)

        lent, running = (clusters.fixed_jobs(size, state, alike=alike) for state in (State.SUSPENDED, State.RUNNING))
        return _in_turns(lent, running, repeats, check)

    return measure


def _huge(size: int, repeats: int) -> list[Figure]:
    return _events(LivingCluster(clusters.mixed(size, 100_000, 100, full=True)), repeats)


def _cold(*, full: bool) -> Measure:
    def measure(size: int, repeats: int) -> list[Figure]:
        def check(decision: Decision) -> None:
            if not full:
                tasks = [t for i in decision.instructions if isinstance(i, Admit) for t in i.placement]
                _expect("devices in use", len({d for task in tasks for d in task.devices}), clusters.GPUS * size)
            _expect("who wait", len(decision.pending), 100_000 - _count(decision, Admit))

        return _timed(clusters.mixed(size, 100_000, 100, full=full), repeats, check)

    return measure


CASES = (
    Case(
        name="full",
        title="full cycle, {n} nodes",
        measure=_full_cycle,
        goals={100: 0.1, 200: 0.25, 500: 1.0},
        peer={100: 3.27, 200: 12.8, 500: 107.0},
        published={500: 59.3},
        peer_memory={200: 3_800.0, 500: 74_000.0},
        growth=(100, 200, 500),
        memory={500: 300.0},
    ),
    Case(
        name="reclaim",
        title="reclaim for one gang, {n} nodes",
        measure=_reclaim,
        goals={100: 0.1, 200: 0.2, 500: 0.5, 1000: 1.0},
        peer={100: 0.28, 200: 1.00, 500: 11.0, 1000: 91.5},
        published={100: 0.24, 200: 0.82, 500: 9.0},
        growth=(100, 200, 500, 1000),
    ),
    Case(
        name="allocate",
        title="allocate 500 jobs, {n} nodes",
        measure=_allocate,
        goals={100: 0.05},
        peer={100: 0.27},
        published={100: 0.083},
        repeats=15,
    ),
    Case(
        name="consolidate",
        title="consolidation, {n} nodes, 200 jobs",
        measure=_consolidate,
        goals={50: 0.05},
        peer={50: 0.22},
        published={50: 0.19},
        repeats=15,
    ),
    Case(
        name="steady",
        title="one event, {n} nodes full, 8,000 wait",
        measure=_steady,
        goals={1000: 0.02},
        published={1000: 2.2},
        repeats=20,
    ),
    Case(
        name="guarantees",
        title="a queue wants its quota, {n} nodes lent",
        measure=_guarantees,
        goals={100: 0.25},
        repeats=10,
    ),
    Case(
        name="return",
        title="notebooks come back, {n} lent shares",
        measure=_return,
        goals={80: 0.02, 160: 0.04, 400: 0.1},
        growth=(80, 160, 400),
    ),
    Case(
        name="beside-lent",
        title="n/2 fixed jobs, {n} lent shares",
        measure=_beside_lent(alike=True),
        goals={80: 0.02, 160: 0.04, 400: 0.1},
        growth=(80, 160, 400),
        repeats=3,
    ),
    Case(
        name="all-lent",
        title="n/2 fixed jobs without room, {n} lent shares",
        measure=_beside_lent(alike=False),
        goals={80: 0.1, 160: 0.25, 400: 1.0},
        growth=(80, 160, 400),
        repeats=3,
    ),
    Case(
        name="preview",
        title="preview, {n} nodes full, 8,000 wait",
        measure=_preview,
        goals={1000: 0.02},
        repeats=20,
    ),
    Case(
        name="cold",
        title="cold, {n} nodes empty, 100,000 wait",
        measure=_cold(full=False),
        goals={5000: 5.0},
        repeats=2,
    ),
    Case(
        name="cold-full",
        title="cold, {n} nodes full, 100,000 wait",
        measure=_cold(full=True),
        goals={5000: 5.0},
        repeats=2,
    ),
    Case(
        name="huge",
        title="one event, {n} nodes full, 100,000 wait",
        measure=_huge,
        goals={5000: 0.1},
        repeats=20,
    ),
)


# --- running them


def _child(name: str, size: int, repeats: int, answers: "multiprocessing.SimpleQueue[list[Figure]]") -> None:
    case = next(case for case in CASES if case.name == name)
    answers.put(case.measure(size, repeats))


def _apart(case: Case, size: int, repeats: int) -> list[Figure]:
    """Measure in a fresh process, so that the peak of memory is this case's own."""
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.SimpleQueue[list[Figure]] = context.SimpleQueue()
    child = context.Process(target=_child, args=(case.name, size, repeats, answers))
    child.start()
    child.join()
    if child.exitcode:
        raise SystemExit(f"{case.title.format(n=size)}: failed")
    return answers.get()


def rows(case: Case, repeats: int | None) -> list[table.Row]:
    """Measure all sizes of a case."""
    found: list[table.Row] = []
    best: dict[int, float] = {}
    peers = dict(case.peer)
    for size in case.goals:
        for figure in _apart(case, size, repeats or case.repeats):
            if figure.name.endswith("best"):
                best[size] = max(figure.value, best.get(size, 0.0))
                peers[size] = figure.peer or peers.get(size, 0.0)
            found.append(_row(case, size, figure))
        if size in case.published:
            title, peer = case.title.format(n=size), case.published[size]
            found.append(table.Row(case=title, figure="vs published", unit="s", ours=best[size], peer=peer))
    if case.growth:
        title = case.title.split(",")[0] + ", " + " / ".join(str(size) for size in case.growth)
        theirs = exponent([(size, peers[size]) for size in case.growth])
        ours = exponent([(size, best[size]) for size in case.growth])
        found.append(table.Row(case=title, figure="growth", unit="N^", ours=ours, peer=theirs, goal=1.2))
    return found


def _row(case: Case, size: int, figure: Figure) -> table.Row:
    goal: float | None = case.goals[size]
    peer = figure.peer or case.peer.get(size)
    if figure.unit == "MB":
        goal, peer = case.memory.get(size), case.peer_memory.get(size)
    if not figure.unit:  # a count
        goal, peer = 0.0 if figure.name == "cascades" else None, None
    title = case.title.format(n=size)
    return table.Row(case=title, figure=figure.name, unit=figure.unit, ours=figure.value, peer=peer, goal=goal)


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """The slope of time over size, both as logarithms, by least squares."""
    xs = [math.log(size) for size, _ in points]
    ys = [math.log(seconds) for _, seconds in points]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def main() -> int:
    """Print the table."""
    parser = table.parser(__doc__ or "")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    names = [case.name for case in CASES]
    parser.add_argument("--case", action="append", choices=names, help="only this one; may be repeated")
    parser.add_argument("--repeats", type=int, help="times each size is measured")
    arguments = parser.parse_args()
    found = [row for case in CASES if case.name in (arguments.case or names) for row in rows(case, arguments.repeats)]
    return table.show("A scheduling cycle (processor time)", found, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
