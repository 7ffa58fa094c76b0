"""The order between queues, where all that waits fits: what a queue is guaranteed starts before what others borrow.

The order of the starts is the order in which they are launched, so it decides who waits if few can be launched at once.
"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Admit
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, a_job, a_node, running
from tests.property.contention import leaves_of, quota_trees
from tests.property.free import GPU
from tests.property.histories import random_worlds

DEVICES = 8


@st.composite
def roomy_clusters(draw: st.DrawFn) -> Snapshot:
    """Jobs of one GPU each, some of which run; there are devices for all of them."""
    priority = st.sampled_from((0, 0, 1))
    queues = tuple(replace(queue, priority=draw(priority)) for queue in draw(quota_trees(DEVICES, cores=False)))
    leaves = [leaf.name for leaf in leaves_of(queues)]
    jobs = []
    for number in range(draw(st.integers(2, DEVICES))):
        job = a_job(f"w{number}", draw(st.sampled_from(leaves)), submitted=number)
        jobs.append(running(job, f"n-{number}") if draw(st.integers(0, 3)) == 0 else job)
    return Snapshot(nodes=(a_node("n", DEVICES),), queues=queues, workloads=tuple(jobs))


@random_worlds
@given(roomy_clusters())
def test_safety_what_a_queue_is_guaranteed_starts_before_what_its_siblings_borrow(snapshot):
    queue_of = {workload.id: workload.queue for workload in snapshot.workloads}
    starts = [each for each in run_cycle(snapshot, Policy(), NOW).instructions if isinstance(each, Admit)]
    waiting = [queue_of[each.workload] for each in starts]
    usage = {queue.name: 0 for queue in snapshot.queues}
    for workload in snapshot.workloads:
        if workload.holds:
            _count(snapshot.queues, usage, workload.queue)
    assert len(starts) == sum(not workload.holds for workload in snapshot.workloads)
    while waiting:
        leaf = waiting[0]
        for queue in _path(snapshot.queues, leaf):
            siblings = [each for each in snapshot.queues if each.parent == queue.parent and _waits_below(each, waiting)]
            entitled = [each.name for each in siblings if usage[each.name] + GPU <= each.quota]
            assert not entitled or queue.name in entitled, f"{queue.name} went before {entitled}: {waiting}, {usage}"
        _count(snapshot.queues, usage, waiting.pop(0))


def _path(queues: tuple[Queue, ...], leaf: str) -> list[Queue]:
    """The queue of that name and all above it."""
    return [queue for queue in queues if f"{leaf}/".startswith(f"{queue.name}/")]


def _waits_below(queue: Queue, waiting: list[str]) -> bool:
    return any(f"{leaf}/".startswith(f"{queue.name}/") for leaf in waiting)


def _count(queues: tuple[Queue, ...], usage: dict[str, int], leaf: str) -> None:
    """Count one GPU more in the queue and in all above it."""
    for queue in _path(queues, leaf):
        usage[queue.name] += GPU
