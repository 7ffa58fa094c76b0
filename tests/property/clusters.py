"""Random clusters and histories for the property tests: small, so that collisions are frequent."""

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from jupyter_gq.domain.amount import Instant, MilliGpu
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Request, Workload
from jupyter_gq.scheduling.policy import Placement, Policy
from tests.builders import NOW, a_node

MILLI = (250, 300, 500, 700, 1000)


@dataclass
class World:
    """A cluster and what will happen to it."""

    snapshot: Snapshot
    policy: Policy
    #: Each is ("submit", workload) or ("finish", n): the n-th of those that run ends.
    history: list[tuple[str, Workload | int]] = field(default_factory=list)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Queue, ...]:
    """Departments with leaves, and leaves of their own; quotas of children fit their parent's."""
    queues: list[Queue] = []
    for d in range(draw(st.integers(1, 3))):
        name = f"d{d}"
        leaves = draw(st.integers(0, 2))
        quotas = draw(st.lists(st.sampled_from((0, 250, 500, 1000, 1500)), min_size=max(1, leaves), max_size=2))
        quotas = quotas[: max(1, leaves)]
        limit = draw(st.sampled_from((None, None, None, 500, 1000)))
        queues.append(_queue(draw, name, None, sum(quotas), None if limit is None else sum(quotas) + limit))
        queues.extend(_queue(draw, f"{name}/{i}", name, quotas[i], None) for i in range(leaves))
    return tuple(queues)


def _queue(draw: st.DrawFn, name: str, parent: str | None, quota: int, limit: int | None) -> Queue:
    return Queue(
        name=name,
        pool="train",
        parent=parent,
        quota=MilliGpu(quota),
        limit=None if limit is None else MilliGpu(limit),
        over_quota_weight=draw(st.sampled_from((1, 1, 0, 2))),
        priority=draw(st.sampled_from((0, 0, 0, 1))),
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
        request = Request(devices=1, milli_per_device=MilliGpu(1000 if whole else draw(st.sampled_from(MILLI))))
    tasks = draw(st.sampled_from((1, 1, 1, 2)))
    job = a_job(
        f"w{number:02d}",
        leaf,
        submitted=number,
        tasks=tasks,
        min_members=draw(st.integers(1, tasks)),
        priority=draw(st.sampled_from((0, 0, 1))),
        preemptible=draw(st.integers(0, 3)) > 0,
    )
    return replace(job, request=request, submitted_at=Instant(NOW - 500 + number))


@st.composite
def worlds(draw: st.DrawFn, steps: int = 14, whole: bool = False) -> World:
    """A cluster, its queues, and a history of submissions and ends."""
    queues = draw(trees())
    nodes = tuple(a_node(f"n{i}", draw(st.integers(1, 3))) for i in range(draw(st.integers(1, 2))))
    policy = Policy(placement=draw(st.sampled_from(Placement)))
    world = World(Snapshot(nodes=nodes, queues=queues, workloads=()), policy)
    for number in range(draw(st.integers(2, steps))):
        if draw(st.integers(0, 4)) == 0:
            world.history.append(("finish", draw(st.integers(0, 5))))
        else:
            world.history.append(("submit", draw(workloads(queues, number, whole))))
    return world
