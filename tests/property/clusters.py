"""Random clusters and histories for the property tests: small, so that collisions are frequent."""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeVar

from hypothesis import strategies as st

from jupyter_gq.domain.amount import Instant, MiB, MilliGpu, Seconds
from jupyter_gq.domain.cluster import Node, Topology
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Request, TaskGroup, TopologyConstraint, Workload
from jupyter_gq.scheduling.policy import MinRuntimeMethod, MinRuntimeRule, PlacementStrategy, Policy, UsageRule
from tests.builders import NOW, a_node

#: Those submitted first have waited for so long.
LONG = Seconds(495)
MILLI = (250, 300, 500, 700, 1000)
#: What passes at once in a history.
A_WHILE = Seconds(60)

T = TypeVar("T")


@dataclass
class World:
    """A cluster and what will happen to it."""

    snapshot: Snapshot
    policy: Policy
    #: Each is ("submit", workload), ("finish", n): the n-th of those that run ends, or ("wait", seconds).
    history: list[tuple[str, Workload | float]] = field(default_factory=list)


@lru_cache(typed=True)
def among(*values: T) -> st.SearchStrategy[T]:
    """Any of these values, those that are named twice more often.

    A strategy is made once: to make one takes longer than to draw from it, and a world draws a hundred times.
    """
    return st.sampled_from(values)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Queue, ...]:
    """Departments with teams, and departments of their own; quotas of children fit their parent's."""
    queues: list[Queue] = []
    for d in range(draw(st.integers(1, 3))):
        _grow(draw, queues, f"d{d}", None, 3)
    return tuple(queues)


def _grow(draw: st.DrawFn, queues: list[Queue], name: str, parent: str | None, depth: int) -> int:
    """Add a queue and all below it, `depth` levels at most; return its quota."""
    children = draw(among(0, 1, 2) if parent is None else among(0, 0, 0, 1, 2)) if depth > 1 else 0
    place = len(queues)
    below = [_grow(draw, queues, f"{name}/{i}", name, depth - 1) for i in range(children)]
    quota = sum(below) if children else draw(among(0, 250, 500, 1000, 1500))
    limit = draw(among(None, None, None, 500, 1000) if parent is None else among(None, None, None, None, 500))
    queues.insert(place, _queue(draw, name, parent, quota, None if limit is None else quota + limit))
    return quota


def _queue(draw: st.DrawFn, name: str, parent: str | None, quota: int, limit: int | None) -> Queue:
    times = among(None, None, None, None, Seconds(0), A_WHILE, Seconds(2 * A_WHILE))
    return Queue(
        name=name,
        pool="train",
        parent=parent,
        quota=MilliGpu(quota),
        limit=None if limit is None else MilliGpu(limit),
        over_quota_weight=draw(among(1, 1, 0, 2)),
        priority=draw(among(0, 0, 0, 1)),
        preempt_min_runtime=draw(times),
        reclaim_min_runtime=draw(times),
    )


@st.composite
def workloads(draw: st.DrawFn, queues: tuple[Queue, ...], number: int, whole: bool) -> Workload:
    """Something to submit to one of the leaves."""
    from tests.builders import a_job

    parents = {queue.parent for queue in queues}
    leaf = draw(st.sampled_from([queue.name for queue in queues if queue.name not in parents]))
    if draw(st.integers(0, 5)) == 0:
        request = Request(devices=draw(st.integers(1, 2)))
    else:
        request = Request(devices=1, milli_per_device=MilliGpu(1000 if whole else draw(among(*MILLI))))
    tasks = draw(among(1, 1, 2, 3))
    job = a_job(
        f"w{number:02d}",
        leaf,
        submitted=number,
        tasks=tasks,
        min_members=draw(st.integers(1, tasks)),
        priority=draw(among(0, 0, 1)),
        owner=draw(among("ann", "bob")),
        preemptible=draw(st.integers(0, 3)) > 0,
        elastic=draw(st.integers(0, 1)) > 0,
        estimate=draw(among(None, None, Seconds(100), Seconds(10_000))),
    )
    return replace(job, request=request, submitted_at=Instant(NOW - 500 + number))


min_runtimes = st.builds(
    MinRuntimeRule,
    method=among(*MinRuntimeMethod),
    preempt=among(Seconds(0), Seconds(0), A_WHILE),
    reclaim=among(Seconds(0), Seconds(0), A_WHILE),
)


usage_rules = st.builds(UsageRule, half_life=among(None, Seconds(1000)), weight=among(0.5, 1.0, 10.0))


@st.composite
def worlds(draw: st.DrawFn, steps: int = 14, whole: bool = False) -> World:
    """A cluster, its queues, and a history of submissions and ends."""
    queues = draw(trees())
    nodes = tuple(a_node(f"n{i}", draw(st.integers(1, 3))) for i in range(draw(st.integers(1, 2))))
    policy = Policy(
        placement=draw(among(*PlacementStrategy)),
        fraction_placement=draw(among(None, *PlacementStrategy)),
        min_runtime=draw(min_runtimes),
        usage=draw(usage_rules),
        per_user=draw(st.integers(0, 2)) == 0,
        consolidate=draw(st.integers(0, 3)) > 0,
        moved_after=Seconds(0),
        reserve_after=draw(among(None, None, LONG)),
        reservations=draw(st.integers(1, 2)),
    )
    usage = {queue.name: draw(among(0.0, 10.0, 1000.0, 5000.0)) for queue in queues}
    world = World(Snapshot(nodes=nodes, queues=queues, workloads=(), usage=usage), policy)
    for number in range(draw(st.integers(2, steps))):
        act = draw(st.integers(0, 8))
        if act == 0:
            world.history.append(("finish", draw(st.integers(0, 5))))
        elif act == 1:
            world.history.append(("wait", A_WHILE))
        elif act == 2:
            world.history.append(("lose", draw(st.integers(0, 2))))
        else:
            world.history.append(("submit", draw(workloads(queues, number, whole))))
    return world


#: Two levels; the names of racks are the same in both zones.
WHERE = Topology(name="where", levels=("zone", "rack"))
levels = among(None, None, *WHERE.levels)
constraints = st.one_of(
    st.none(),
    st.none(),
    st.builds(TopologyConstraint, topology=st.just(WHERE.name), required=levels, preferred=levels),
)


@st.composite
def places(draw: st.DrawFn, steps: int = 12) -> World:
    """As `worlds`, where nodes count CPU, memory or tasks, stand in racks, and work asks for all of that."""
    world = draw(worlds(steps))
    nodes = tuple(_counting(draw, a_node(f"n{i}", draw(st.integers(0, 2)))) for i in range(draw(st.integers(2, 4))))
    world.snapshot = replace(world.snapshot, nodes=nodes, topologies=(WHERE,))
    world.history = [(act, _choosy(draw, what) if act == "submit" else what) for act, what in world.history]
    return world


def _counting(draw: st.DrawFn, node: Node) -> Node:
    models = draw(among(("A100",), ("A100", "T4")))
    return replace(
        node,
        devices=tuple(replace(device, model=models[device.index % len(models)]) for device in node.devices),
        cpu_milli=draw(among(None, 2000, 4000)),
        memory=draw(among(None, None, MiB(3000))),
        max_tasks=draw(among(None, None, 1, 2)),
        labels={"zone": draw(among("a", "b")), "rack": draw(among("1", "2"))},
    )


def _choosy(draw: st.DrawFn, job: Workload) -> Workload:
    request = replace(
        job.request if draw(st.integers(0, 4)) else Request(devices=0),
        cpu_milli=draw(among(0, 1000, 2000)),
        memory=draw(among(MiB(0), MiB(1000))),
        models=draw(among((), (), (), ("T4",))),
        preferred_models=draw(among((), (), ("T4",))),
        node_labels=draw(among((), (), (), (("zone", "a"),))),
    )
    job = replace(job, request=request, topology=draw(constraints))
    if job.tasks == 1 or draw(st.integers(0, 2)):
        return job
    other = replace(request, devices=draw(st.integers(0, 1)), milli_per_device=MilliGpu(1000))
    first = TaskGroup(name="a", request=request, tasks=1, min_members=1, topology=draw(constraints))
    least = draw(st.integers(1, job.tasks - 1))
    rest = replace(first, name="b", request=other, tasks=job.tasks - 1, min_members=least, topology=draw(constraints))
    return replace(job, groups=(first, rest), min_members=1 + least)


CORES = (0, 500, 1000, 2000)


@st.composite
def worlds_with_cores(draw: st.DrawFn) -> World:
    """As `worlds`, where processors are scarce too; some queues have a quota or a limit of them, some work no GPU."""
    world = draw(worlds())
    nodes = tuple(replace(node, cpu_milli=draw(among(2000, 3000))) for node in world.snapshot.nodes)
    bounds = among(None, None, 0, 1000, 2000, 4000)
    queues = tuple(replace(queue, cpu_quota=draw(bounds)) for queue in world.snapshot.queues)
    limited = draw(st.sampled_from(range(len(queues))))
    queues = tuple(
        replace(queue, cpu_limit=draw(among(None, 2000))) if place == limited else queue
        for place, queue in enumerate(queues)
    )
    world.snapshot = replace(world.snapshot, nodes=nodes, queues=queues)
    world.history = [
        (act, replace(what, request=replace(_some_request(draw, what), cpu_milli=draw(among(*CORES)))))
        if isinstance(what, Workload)
        else (act, what)
        for act, what in world.history
    ]
    return world


def _some_request(draw: st.DrawFn, job: Workload) -> Request:
    return job.request if draw(st.integers(0, 4)) else Request(devices=0)
