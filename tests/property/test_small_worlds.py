"""The smallest forms of the random worlds in which a law or the scheduler was wrong once."""

from dataclasses import replace

from jupyter_gq.domain.amount import MilliGpu, Seconds
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Request, TaskPlacement
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Evict, Shrink
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, a_job, a_node, a_queue, acts, admitted, apply, evicted, running, stopped
from tests.property.cascades import (
    nothing_is_evicted_twice_nor_for_what_was_evicted,
    room_that_was_made_goes_to_its_preemptor,
)
from tests.property.histories import check, settle
from tests.property.laws import moving_to, went_for_nothing

CORE = 1000


def on_cores(job, cores):
    """The same job, which needs no GPU."""
    return replace(job, request=Request(devices=0, cpu_milli=cores * CORE))


def test_older_work_beyond_its_quota_of_cores_has_no_claim_on_the_cores_that_its_queue_gets_back():
    """The older job of `b` needs two cores, of which `b` is guaranteed one: its right to a GPU gives none."""
    node = replace(a_node(), cpu_milli=2 * CORE)
    holder = running(on_cores(a_job("holder", "a"), 2))
    holder = replace(holder, placement=(TaskPlacement(node=node.name, devices=()),))
    older = a_job("older", "b", submitted=1)
    older = replace(older, request=replace(older.request, cpu_milli=2 * CORE))
    newer = on_cores(a_job("newer", "b", submitted=2), 1)
    queues = (a_queue("a", cpu_quota=CORE), a_queue("b", quota=1, cpu_quota=CORE))
    decision, _ = check(Snapshot(nodes=(node,), queues=queues, workloads=(holder, older, newer)), Policy())
    assert evicted(decision) == ["holder"]
    assert [entry.workload for entry in decision.pending] == ["older", "newer"]


def test_the_order_in_which_victims_are_listed_is_not_that_of_their_turns():
    """Evictions are listed before replicas; without `rigid`, `a` is within its quota, but its replica went first.

    The job of `b` needs the GPU of `rigid` and half a core of `elastic`.
    """
    node = replace(a_node(), cpu_milli=2 * CORE)
    rigid = running(a_job("rigid", "a"), "box-0")
    elastic = on_cores(a_job("elastic", "a", tasks=2, min_members=1, elastic=True), 1)
    there = TaskPlacement(node=node.name, devices=())
    elastic = replace(running(elastic), placement=(there, there))
    wants = a_job("wants", "b")
    wants = replace(wants, request=replace(wants.request, cpu_milli=CORE))
    snapshot = Snapshot(nodes=(node,), queues=(a_queue("a", 0.25), a_queue("b", 1)), workloads=(rigid, elastic, wants))
    decision, _ = check(snapshot, Policy())
    assert [(type(each), each.workload) for each in acts(decision)] == [(Evict, "rigid"), (Shrink, "elastic")]


def test_who_follows_in_the_turn_for_a_reservation_gets_the_soonest_place_at_once():
    """`first` has the only reservation, and starts for hours where a place was once recorded for `second`."""
    nodes = (a_node("n0", 2), a_node("n1"))
    workloads = (
        running(a_job("short", "c", "0.7"), "n0-0", since=989),
        running(a_job("small", "b", "0.25", tasks=2), "n0-0", "n0-1", since=995),
        running(a_job("twins", "a", "0.5", tasks=2), "n1-0", "n1-0", since=994),
        replace(a_job("first", "c", "0.5", submitted=503, estimate=10_000), reserved=place("n0-0")),
        replace(a_job("second", "a", "0.5", submitted=505), reserved=place("n0-1")),
    )
    snapshot = Snapshot(nodes=nodes, queues=(a_queue("a"), a_queue("b"), a_queue("c")), workloads=workloads)
    policy = Policy(reserve_after=Seconds(495))
    decision, after = check(snapshot, policy)
    assert [each.workload for each in acts(decision)] == ["first"]
    assert after.workloads[-1].reserved == place("n0-0")
    assert run_cycle(after, policy, NOW).instructions == ()


def test_a_recorded_place_on_a_device_that_has_moved_to_another_pool_is_not_taken():
    waits = replace(a_job("waits", "a"), reserved=place("n0-0"), nominated=True)
    snapshot = Snapshot(nodes=(a_node("n0", pool="other"),), queues=(a_queue("a", 1),), workloads=(waits,))
    decision, after = check(snapshot, Policy())
    assert acts(decision) == ()
    assert not after.workloads[0].reserved


def test_a_reservation_leaves_a_node_that_a_cluster_has_cordoned():
    """The devices of the node work, but nothing starts there."""
    nodes = (replace(a_node("n0"), closed="n0 is cordoned", draining=True), a_node("n1"))
    workloads = (running(a_job("holder", "a"), "n1-0"), replace(a_job("waits", "a"), reserved=place("n0-0")))
    snapshot = Snapshot(nodes=nodes, queues=(a_queue("a", 1),), workloads=workloads)
    _, after = check(snapshot, Policy(reserve_after=Seconds(495)))
    assert after.workloads[1].reserved == place("n1-0")


def test_a_nominee_that_loses_its_place_to_another_one_and_gets_a_reservation_for_it_is_nominated_no_more():
    both = (*place("n0-0"), *place("n0-1"))
    workloads = (
        replace(a_job("loses", "b", tasks=2, submitted=2), reserved=both, nominated=True),
        replace(a_job("starts", "a", "0.7", tasks=2, submitted=3), reserved=both, nominated=True),
    )
    snapshot = Snapshot(nodes=(a_node("n0", 2),), queues=(a_queue("a", 2), a_queue("b")), workloads=workloads)
    policy = Policy(reserve_after=Seconds(495))
    decision, after = check(snapshot, policy)
    assert [each.workload for each in decision.instructions] == ["starts", "loses"]
    assert (after.workloads[0].reserved, after.workloads[0].nominated) == (both, False)
    assert run_cycle(after, policy, NOW).instructions == ()


def place(device):
    return (TaskPlacement(node=device.partition("-")[0], devices=(device,)),)


def test_a_victim_stays_where_the_work_that_would_go_for_its_new_place_makes_room_enough():
    """`high` takes first from `low`, of its own queue, which may take from `other`: then both fit beside each other."""
    workloads = (
        running(a_job("other", "d/other", "0.25"), "box-0"),
        running(a_job("low", "d/own", "0.7"), "box-0"),
        a_job("high", "d/own", "0.25", priority=1, preemptible=False),
    )
    queues = (a_queue("d", 3), a_queue("d/other", parent="d"), a_queue("d/own", 1.5, parent="d"))
    decision, _ = check(Snapshot(nodes=(a_node(),), queues=queues, workloads=workloads), Policy())
    assert [(each.workload, each.by) for each in acts(decision)] == [("other", "high")]


def test_a_victim_may_go_for_the_work_that_waits_though_other_work_moves_to_one_of_its_places():
    """`two` and `one` leave the middle device. `one` would fit beside `two` on the first one; `wants` fits nowhere."""
    workloads = (
        running(a_job("two", "b", "0.3", tasks=2), "n0-0", "n0-1"),
        replace(running(a_job("fixed", "b", "0.3", tasks=2), "n0-2", "n0-0"), preemptible=False),
        running(a_job("one", "b", "0.25"), "n0-1"),
        a_job("wants", "a"),
    )
    snapshot = Snapshot(nodes=(a_node("n0", 3),), queues=(a_queue("a", 1), a_queue("b", 2)), workloads=workloads)
    decision, after = check(snapshot, Policy())
    assert sorted(evicted(decision)) == ["one", "two"]
    assert moving_to(after, "two") == {"one"}
    assert went_for_nothing(snapshot, after, Policy(), "one", "two")
    assert not went_for_nothing(snapshot, after, Policy(), "wants", "two")


def test_a_victim_does_not_go_for_younger_work_of_its_own_queue_when_its_preemptor_gets_no_place():
    """`wants` would take from `first` and `high`, and `high` takes back from it: then `second` must not have the place.

    `first` would have it back in the next cycle, and so on for ever.
    """
    queues = (
        a_queue("d", 6),
        a_queue("d/a", 3, parent="d"),
        a_queue("d/a/x", 2, parent="d/a", over_quota_weight=2),
        a_queue("d/a/y", 1, parent="d/a", over_quota_weight=2, priority=1),
        a_queue("d/b", 3, parent="d"),
        a_queue("d/b/x", 2, parent="d/b"),
        a_queue("d/b/y", 1, parent="d/b", over_quota_weight=0),
    )
    half, quarter = MilliGpu(500), MilliGpu(250)
    workloads = (
        running(_on_several("wide", "d/a/y", 3, half), "n0-0", "n0-1", "n0-2"),
        running(_on_several("other", "d/b/y", 3, half), "n0-0", "n0-2", "n0-3"),
        running(_on_several("high", "d/a/x", 2, quarter, priority=1), "n0-1", "n0-3", since=1000),
        running(a_job("fixed", "d/a/x", priority=1), "n1-1"),
        running(a_job("first", "d/a/x", submitted=2), "n1-0", since=1000),
        a_job("second", "d/a/x", submitted=4),
        _on_several("wants", "d/a/y", 2, half, submitted=5),
    )
    snapshot = Snapshot(nodes=(a_node("n0", 4), a_node("n1", 2)), queues=queues, workloads=workloads)
    assert settle(snapshot, Policy()).workloads == workloads


def _on_several(name, queue, devices, milli, **fields):
    return replace(a_job(name, queue, **fields), request=Request(devices=devices, milli_per_device=milli))


def test_a_victim_that_goes_on_elsewhere_leaves_its_queue_above_its_quota():
    """`high` moves to the place of `low`. So `low` went while both used 1.7 of 1 GPU, whoever is asked about first."""
    workloads = (
        running(a_job("large", "c"), "n0-2", since=763),
        running(a_job("high", "a", priority=1), "n0-0", since=223),
        *(running(a_job(f"part{queue}", queue, "0.3"), "n0-1", since=360) for queue in "cb"),
        running(a_job("low", "a", "0.7"), "n1-0", since=939),
        _on_several("wants", "b", 2, MilliGpu(700), submitted=6),
        a_job("more", "b", tasks=2, preemptible=False, submitted=8),
    )
    queues = (a_queue("a", 1, over_quota_weight=0), a_queue("b", 0.5), a_queue("c", 1, over_quota_weight=0))
    snapshot = Snapshot(nodes=(a_node("n0", 3), a_node("n1")), queues=queues, workloads=workloads)
    decision, _ = check(snapshot, Policy(consolidate=False))
    assert {"high", "low"} <= {*evicted(decision)}


def test_an_elastic_job_that_comes_back_may_grow_in_the_decision_that_starts_it():
    """`high` takes the node where the smallest gang of `wide` runs. Then `wide` starts elsewhere, beside a borrower."""
    workloads = (
        running(a_job("wide", "a", tasks=3, min_members=1, elastic=True), "n0-0", "n0-1", "n1-0"),
        running(a_job("borrower", "b"), "n1-1"),
        a_job("high", "a", 2, priority=1, submitted=1),
    )
    nodes, queues = (a_node("n0", 2), a_node("n1", 2)), (a_queue("a", 4), a_queue("b"))
    snapshot = Snapshot(nodes=nodes, queues=queues, workloads=workloads)
    first = run_cycle(snapshot, Policy(), NOW)
    assert [(each.workload, each.by) for each in told_to_stop(first)] == [("wide", "high")]
    second = run_cycle(stopped(apply(snapshot, first)), Policy(), NOW)
    assert "wide" in admitted(second)
    assert [(each.workload, each.by) for each in told_to_stop(second)] == [("borrower", "wide")]
    nothing_is_evicted_twice_nor_for_what_was_evicted(snapshot, Policy())


def test_a_right_that_a_decision_gives_holds_against_the_work_that_it_nominates():
    """Only with the replica that `wide` gains does `b` use so much that `large` may have all of the first node."""
    workloads = (
        running(a_job("wide", "b", tasks=4, min_members=1, elastic=True), "n1-1", "n0-0", "n0-3"),
        running(a_job("half", "b", "0.5"), "n0-2"),
        a_job("high", "b", 2, priority=1, submitted=504),
        a_job("large", "c", 4, submitted=505),
    )
    nodes, queues = (a_node("n0", 4), a_node("n1", 2)), (a_queue("b", 2), a_queue("c", 4))
    snapshot = Snapshot(nodes=nodes, queues=queues, workloads=workloads)
    first = run_cycle(snapshot, Policy(), NOW)
    assert {(each.workload, each.by) for each in told_to_stop(first)} == {("wide", "high")}
    second = run_cycle(stopped(apply(snapshot, first)), Policy(), NOW)
    assert {each.by for each in told_to_stop(second)} >= {"large"}
    room_that_was_made_goes_to_its_preemptor(snapshot, Policy(consolidate=False), 0)


def told_to_stop(decision):
    return [each for each in decision.instructions if isinstance(each, Evict | Shrink)]


def test_what_starts_on_free_cores_does_not_wait_for_older_work_that_needs_those_of_a_victim_too():
    """One core is free, and `holder` leaves one over. With both, `older` would start, but only in the next cycle."""
    node = replace(a_node(), cpu_milli=3 * CORE)
    workloads = (
        running(with_cores(a_job("holder", "a"), 2), "box-0"),
        on_cores(a_job("older", "a", submitted=1), 2),
        with_cores(a_job("wants", "b", submitted=2), 1),
        on_cores(a_job("newer", "a", submitted=3), 1),
    )
    snapshot = Snapshot(nodes=(node,), queues=(a_queue("a"), a_queue("b", 1)), workloads=workloads)
    decision, _ = check(snapshot, Policy())
    assert admitted(decision) == ["newer"]
    assert evicted(decision) == ["holder"]


def with_cores(job, cores):
    """The same job, which needs cores beside its GPU."""
    return replace(job, request=replace(job.request, cpu_milli=cores * CORE))
