"""Gangs that lost tasks: how long they keep the rest, and what becomes of them."""

from dataclasses import replace

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.domain.workload import Request, TaskGroup, Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Decision, Evict, Grow
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, Cluster, a_job, apply, evicted, running, why


def a_gang(left: int, *, for_seconds: float | None = 90, **fields) -> Workload:
    """A gang of four that needs three, and has so many left."""
    fields = {"tasks": 4, "min_members": 3, **fields}
    since = None if for_seconds is None else Instant(NOW - for_seconds)
    return running(a_job("g", "q", stale_since=since, **fields), *(f"box-{i}" for i in range(left)))


def decide(*workloads: Workload, devices: int = 4, **policy) -> Decision:
    cluster = Cluster().node("box", devices).queue("q", 4)
    return run_cycle(cluster.add(*workloads).snapshot(), Policy(**policy), NOW)


def test_a_gang_that_is_too_small_for_too_long_is_requeued():
    (evict,) = decide(a_gang(2)).instructions
    assert evict == Evict(
        workload="g",
        reason=EvictReason.STALE_GANG,
        by=None,
        sentence="Paused: only 2 of its 4 tasks have been left for 90 s, and it needs at least 3 to go on. "
        "Continues by itself when 3 GPUs are free.",
    )


def test_it_has_some_time():
    assert decide(a_gang(2, for_seconds=59)).instructions == ()
    assert evicted(decide(a_gang(2, for_seconds=60))) == ["g"]
    assert decide(a_gang(2), stale_after=120).instructions == ()


def test_one_that_still_has_its_smallest_gang_is_left_alone():
    assert decide(a_gang(3)).instructions == ()


def test_one_of_which_nobody_says_that_it_lost_tasks_is_left_alone():
    assert decide(a_gang(2, for_seconds=None)).instructions == ()


def test_what_cannot_be_preempted_goes_too():
    assert evicted(decide(a_gang(2, preemptible=False))) == ["g"]


def test_elastic_work_that_gets_what_it_lacks_stays():
    (grow,) = decide(a_gang(2, elastic=True, tasks=3)).instructions
    assert (type(grow), len(grow.placement)) == (Grow, 1)


def test_elastic_work_that_does_not_get_it_goes():
    gang, other = a_gang(2, elastic=True), running(a_job("o", "q", 2), "box-2", "box-3")
    assert evicted(decide(gang, other)) == ["g"]


def test_its_room_is_promised_in_the_same_cycle():
    decision = decide(a_gang(2), a_job("w", "q", 4))
    assert why(decision, "w").why.reason is PendingReason.WAITS_FOR_EVICTION


def test_it_is_gone_only_once():
    snapshot = Cluster().node("box", 4).queue("q", 4).add(a_gang(2), a_job("w", "q", 4)).snapshot()
    after = apply(snapshot, run_cycle(snapshot, Policy(), NOW))
    assert run_cycle(after, Policy(), NOW).instructions == ()


def test_a_group_below_its_own_least_size_is_enough():
    """Although another group has more than it needs; that goes with the rest."""
    groups = tuple(TaskGroup(name=n, request=Request(devices=1), tasks=3, min_members=2) for n in ("a", "b"))
    gang = replace(a_gang(4, elastic=True), groups=groups)
    tasks = zip(gang.placement, ("a", "a", "a", "b"), strict=True)
    gang = replace(gang, placement=tuple(replace(task, group=group) for task, group in tasks))
    decision = decide(gang)
    (evict,) = decision.instructions
    assert evict.sentence.startswith("Paused: only 1 of its 3 tasks of b has been left for 90 s, ")
