"""Elastic work: it grows task by task, and gives its surplus up task by task before all of it goes."""

from dataclasses import replace

from jupyter_gq.domain.cluster import Topology
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Leaving, Request, Stop, TaskGroup, TaskPlacement, TopologyConstraint, Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Admit, Decision, Evict, Grow, Shrink
from jupyter_gq.scheduling.policy import MinRuntimeRule, Policy
from jupyter_gq.scheduling.workloads import replicas
from tests.builders import NOW, Cluster, a_job, a_node, acts, admitted, apply, evicted, running, stopped, why


def an_elastic(name: str, queue: str, *devices: str, tasks: int = 4, min_members: int = 1, **fields) -> Workload:
    """It runs on these devices, one a task, and could have more tasks or fewer."""
    since = fields.pop("since", 0)
    job = a_job(name, queue, tasks=tasks, min_members=min_members, elastic=True, **fields)
    return running(job, *devices, since=since)


def decide(cluster: Cluster, *workloads: Workload, **policy) -> Decision:
    return run_cycle(cluster.add(*workloads).snapshot(), Policy(**policy), NOW)


def devices_of(placement: tuple[TaskPlacement, ...]) -> list[str]:
    return [device for task in placement for device in task.devices]


def shrinks(decision: Decision) -> dict[str, list[str]]:
    return {i.workload: devices_of(i.placement) for i in decision.instructions if isinstance(i, Shrink)}


def two_queues(devices: int = 4, *, borrower: int = 0, owner: int = 2) -> Cluster:
    return Cluster().node("box", devices).queue("borrower", borrower).queue("owner", owner)


def test_surplus_of_a_queue_that_was_removed_is_not_told_that_it_grows_again():
    cluster = Cluster().node("box", 3).queue("owner", 1)
    lost = an_elastic("e", "gone", "box-0", "box-1", "box-2")
    (shrink,) = [i for i in decide(cluster, lost, a_job("o", "owner")).instructions if isinstance(i, Shrink)]
    assert reveal(shrink.sentence) == (
        "Runs on with 2 of its 4 tasks: owner needed its 1 GPU back. Its queue gone is no longer in the configuration: "
        "move it to another one, so that it grows again."
    )


# --- growing


def test_nothing_stops_for_growth_in_a_queue_that_is_above_its_fair_share():
    """Two replicas more would have to go than the growth needs, or the queue would stay above its share."""
    cluster = Cluster().node("box", 5).queue("q", 3, over_quota_weight=0)
    grows = an_elastic("grows", "q", "box-0", tasks=2, priority=1)
    others = [an_elastic(f"low{n}", "q", f"box-{2 * n + 1}", f"box-{2 * n + 2}", tasks=2) for n in range(2)]
    assert decide(cluster, grows, *others).instructions == ()


def test_growth_of_a_higher_priority_takes_a_replica_of_a_lower_one_within_the_fair_share():
    cluster = Cluster().node("box", 3).queue("q", 3)
    grows = an_elastic("grows", "q", "box-0", tasks=2, priority=1)
    decision = decide(cluster, grows, an_elastic("low", "q", "box-1", "box-2", tasks=2))
    assert shrinks(decision) == {"low": ["box-2"]}


def test_running_elastic_work_grows_on_free_devices():
    decision = decide(Cluster().node("box", 3).queue("q", 3), an_elastic("e", "q", "box-0", tasks=3))
    (grow,) = decision.instructions
    assert isinstance(grow, Grow)
    assert devices_of(grow.placement) == ["box-1", "box-2"]


def test_work_that_is_not_elastic_does_not_grow_once_it_runs():
    job = replace(an_elastic("e", "q", "box-0", tasks=3), elastic=False)
    assert decide(Cluster().node("box", 3).queue("q", 3), job).instructions == ()


def test_who_waits_in_the_queue_goes_before_growth():
    decision = decide(Cluster().node("box", 2).queue("q", 2), an_elastic("e", "q", "box-0"), a_job("w", "q"))
    assert [type(i) for i in decision.instructions] == [Admit]


def test_a_higher_priority_grows_before_a_lower_one_starts():
    elastic = an_elastic("e", "q", "box-0", tasks=2, priority=1)
    decision = decide(Cluster().node("box", 2).queue("q", 2), elastic, a_job("w", "q"))
    assert [type(i) for i in decision.instructions] == [Grow]


def test_growth_goes_round_one_task_at_a_time():
    first = an_elastic("a", "q", "box-0", tasks=4)
    second = an_elastic("b", "q", "box-1", tasks=4, submitted=1)
    decision = decide(Cluster().node("box", 5).queue("q", 5), first, second)
    assert {i.workload: len(i.placement) for i in decision.instructions} == {"a": 2, "b": 1}


def test_what_starts_now_grows_in_the_same_cycle():
    job = a_job("e", "q", tasks=3, min_members=1, elastic=True)
    (admit,) = decide(Cluster().node("box", 2).queue("q", 2), job).instructions
    assert isinstance(admit, Admit)
    assert len(admit.placement) == 2


def test_growth_takes_back_what_is_within_the_quota():
    cluster = two_queues(2)
    borrower = an_elastic("b", "borrower", "box-1", tasks=1)
    decision = decide(cluster, borrower, an_elastic("e", "owner", "box-0", tasks=2))
    (evict,) = decision.instructions
    assert isinstance(evict, Evict)
    assert (evict.workload, evict.by, evict.reason) == ("b", "e", EvictReason.RECLAIMED)


def test_room_freed_for_growth_is_kept_for_it():
    cluster = two_queues(2)
    snapshot = cluster.add(
        an_elastic("b", "borrower", "box-1", tasks=1), an_elastic("e", "owner", "box-0", tasks=2)
    ).snapshot()
    snapshot = apply(snapshot, run_cycle(snapshot, Policy(), NOW))
    assert run_cycle(snapshot, Policy(), NOW).instructions == ()
    snapshot = stopped(snapshot)
    (grow,) = run_cycle(snapshot, Policy(), NOW).instructions
    assert (type(grow), grow.workload) == (Grow, "e")
    assert run_cycle(apply(snapshot, run_cycle(snapshot, Policy(), NOW)), Policy(), NOW).instructions == ()


def test_growth_takes_nothing_above_its_fair_share():
    cluster = Cluster().node("box", 2).queue("a", 1).queue("b", 1)
    decision = decide(cluster, an_elastic("e", "a", "box-0", tasks=2), running(a_job("j", "b"), "box-1"))
    assert decision.instructions == ()


def test_growth_takes_the_place_of_lower_priorities_in_its_queue():
    low = an_elastic("low", "q", "box-1", "box-2", tasks=2)
    high = an_elastic("high", "q", "box-0", tasks=2, priority=1)
    decision = decide(Cluster().node("box", 3).queue("q", 3), low, high)
    assert shrinks(decision) == {"low": ["box-2"]}


def test_growth_does_not_suspend_or_warn_idle_notebooks():
    from tests.builders import a_notebook, idle

    cluster = Cluster().node("box", 2).queue("q", 2).fixed("train", ann=1)
    notebook = idle(running(a_notebook("ann", 1), "box-1"), 10_000, kept_until=None)
    assert decide(cluster, notebook, an_elastic("e", "q", "box-0", tasks=2)).instructions == ()


def test_nothing_is_said_of_growth_that_waits():
    decision = decide(Cluster().node("box", 1).queue("q", 1), an_elastic("e", "q", "box-0"))
    assert decision == Decision(instructions=(), pending=())


def test_one_that_cannot_grow_where_it_stands_does_not_keep_another_from_growing():
    nodes = tuple(replace(a_node(name, 2), labels={"rack": name}) for name in ("m", "n"))
    in_a_rack = TopologyConstraint(topology="t", required="rack")
    first = an_elastic("a", "q", "m-0", tasks=2, topology=in_a_rack)
    second = an_elastic("b", "q", "n-0", tasks=2, topology=in_a_rack, submitted=1)
    cluster = Cluster().queue("q", 4).add(first, second, running(a_job("other", "q"), "m-1"))
    snapshot = replace(cluster.snapshot(), nodes=nodes, topologies=(Topology(name="t", levels=("rack",)),))
    (grow,) = run_cycle(snapshot, Policy(), NOW).instructions
    assert (grow.workload, devices_of(grow.placement)) == ("b", ["n-1"])


def test_whoever_stops_for_growth_is_told_so_although_another_one_gets_the_rest_of_the_room():
    cluster = Cluster().node("box", 2).queue("borrower").queue("owner", "1.5").queue("third")
    borrower = running(a_job("b", "borrower"), "box-1")
    elastic = an_elastic("e", "owner", "box-0", tasks=2, gpus="0.5")
    filler = running(a_job("f", "owner", "0.5"), "box-0")
    decision = decide(cluster, borrower, elastic, filler, a_job("w", "third", "0.5"))
    (evict,) = decision.instructions
    assert (evict.workload, evict.by) == ("b", "e")
    assert why(decision, "w").why.reason is PendingReason.WAITS_FOR_EVICTION


# --- shrinking


def test_a_victim_gives_up_its_surplus_first_the_last_task_first():
    elastic = an_elastic("e", "borrower", "box-0", "box-1", "box-2", tasks=3)
    decision = decide(two_queues(3, owner=1), elastic, a_job("w", "owner"))
    (shrink,) = acts(decision)
    assert isinstance(shrink, Shrink)
    assert devices_of(shrink.placement) == ["box-2"]
    assert (shrink.reason, shrink.by) == (EvictReason.RECLAIMED, "w")
    assert shrink.sentence == (
        "Runs on with 2 of its 3 tasks: owner needed its 1 GPU back. Grows again by itself when a GPU is free."
    )


def test_surplus_goes_before_newer_work():
    elastic = an_elastic("e", "borrower", "box-0", "box-1")
    newer = running(a_job("n", "borrower"), "box-2", since=500)
    decision = decide(two_queues(3, owner=1), elastic, newer, a_job("w", "owner"))
    assert shrinks(decision) == {"e": ["box-1"]}


def test_lower_priority_goes_before_the_surplus_of_a_higher_one():
    elastic = an_elastic("e", "borrower", "box-0", "box-1", priority=1)
    low = running(a_job("low", "borrower"), "box-2")
    (evict,) = acts(decide(two_queues(3, owner=1), elastic, low, a_job("w", "owner")))
    assert (type(evict), evict.workload) == (Evict, "low")


def test_all_of_it_goes_when_its_surplus_is_not_enough_and_then_by_one_instruction():
    elastic = an_elastic("e", "borrower", "box-0", "box-1", tasks=2)
    (evict,) = acts(decide(two_queues(2), elastic, a_job("w", "owner", 2)))
    assert (type(evict), evict.workload) == (Evict, "e")


def test_each_gives_its_surplus_before_one_goes_whole():
    first = an_elastic("a", "borrower", "box-0", "box-1", tasks=2)
    second = an_elastic("b", "borrower", "box-2", "box-3", tasks=2, since=5)
    decision = decide(two_queues(4), first, second, a_job("w", "owner", 2))
    assert shrinks(decision) == {"a": ["box-1"], "b": ["box-3"]}
    assert len(acts(decision)) == 2


def test_the_smallest_gang_stays_together():
    elastic = an_elastic("e", "borrower", "box-0", "box-1", "box-2", tasks=3, min_members=2)
    decision = decide(two_queues(3, owner=1), elastic, a_job("w", "owner"))
    assert shrinks(decision) == {"e": ["box-2"]}
    decision = decide(two_queues(3, owner=2), replace(elastic, placement=elastic.placement[:2]), a_job("w", "owner", 2))
    assert [type(i) for i in acts(decision)] == [Evict]


def test_work_that_is_not_elastic_goes_whole():
    job = replace(an_elastic("e", "borrower", "box-0", "box-1", tasks=2), elastic=False)
    decision = decide(two_queues(2, owner=1), job, a_job("w", "owner"))
    assert [type(i) for i in acts(decision)] == [Evict]


def test_only_as_many_tasks_go_as_are_needed():
    elastic = an_elastic("e", "borrower", "box-0", "box-1", "box-2", "box-3")
    decision = decide(two_queues(4), elastic, a_job("w", "owner"))
    assert shrinks(decision) == {"e": ["box-3"]}
    assert admitted(decision) == []


def test_a_task_that_does_not_help_stays():
    """One node has to be cleared; the newest task runs on the other one."""
    cluster = Cluster().node("m", 2).node("n", 2).queue("borrower").queue("owner", 2)
    elastic = an_elastic("e", "borrower", "n-0", "m-0", "m-1", "n-1")
    decision = decide(cluster, elastic, a_job("w", "owner", 2))
    assert sorted(shrinks(decision)["e"]) == ["m-0", "m-1"]


def test_a_queue_gives_no_more_than_down_to_its_share():
    elastic = an_elastic("e", "borrower", "box-0", "box-1", "box-2", "box-3")
    decision = decide(two_queues(4, borrower=2), elastic, a_job("w", "owner", 2), a_job("v", "owner", 1, submitted=1))
    assert shrinks(decision) == {"e": ["box-3", "box-2"]}
    assert why(decision, "v").why.reason == "NO_FREE_DEVICE"


def test_two_causes_are_two_instructions_with_the_number_that_is_left_at_last():
    elastic = an_elastic("e", "borrower", "box-0", "box-1", "box-2", tasks=3)
    cluster = two_queues(3, owner=1).queue("other", 1)
    decision = decide(cluster, elastic, a_job("w", "owner"), a_job("v", "other"))
    assert [(i.by, len(i.placement)) for i in acts(decision)] == [("v", 1), ("w", 1)]
    assert all(i.sentence.startswith("Runs on with 1 of its 3 tasks: ") for i in acts(decision))


def test_preempted_work_shrinks_and_says_so():
    low = an_elastic("low", "q", "box-0", "box-1", tasks=2)
    (shrink,) = acts(decide(Cluster().node("box", 2).queue("q", 2), low, a_job("high", "q", priority=3)))
    assert reveal(shrink.sentence) == (
        "Runs on with 1 of its 2 tasks: ann's high (1 GPU) in the same queue has the higher priority (3 over 0). "
        "Grows again by itself when a GPU is free."
    )


def test_a_lowered_limit_takes_surplus_first():
    elastic = an_elastic("e", "q", "box-0", "box-1", tasks=2)
    newer = running(a_job("n", "q"), "box-2", since=500)
    decision = decide(Cluster().node("box", 3).queue("q", 0, limit=2), elastic, newer)
    assert shrinks(decision) == {"e": ["box-1"]}
    (shrink,) = decision.instructions
    assert shrink.reason is EvictReason.QUOTA_LOWERED
    assert shrink.sentence == (
        "Runs on with 1 of its 2 tasks: the limit of q was lowered to 2 GPUs. "
        "Grows again by itself when there is room under it."
    )


def test_surplus_is_not_protected_by_a_least_run_time():
    elastic = an_elastic("e", "borrower", "box-0", "box-1", since=999)
    rule = MinRuntimeRule(reclaim=600)
    decision = decide(two_queues(2, owner=1), elastic, a_job("w", "owner"), min_runtime=rule)
    assert shrinks(decision) == {"e": ["box-1"]}
    decision = decide(two_queues(2, owner=2), elastic, a_job("w", "owner", 2), min_runtime=rule)
    assert decision.instructions == ()


def test_who_waits_for_a_task_is_told_whose():
    elastic = an_elastic("e", "borrower", "box-0", "box-1")
    snapshot = two_queues(2, owner=1).add(elastic, a_job("w", "owner")).snapshot()
    entry = why(run_cycle(apply(snapshot, run_cycle(snapshot, Policy(), NOW)), Policy(), NOW), "w")
    assert (
        reveal(entry.why.sentence)
        == "Waiting: its room is kept; it starts as soon as part of ann's e (1 GPU) has stopped."
    )
    assert entry.why.blockers == ("e",)


def test_a_leaving_task_holds_its_device_until_it_is_gone():
    stop = Stop(reason=EvictReason.RECLAIMED, sentence="", by="w", at=NOW, requeue=True)
    leaving = (Leaving(task=TaskPlacement(node="box", devices=("box-1",)), stop=stop),)
    elastic = replace(an_elastic("e", "borrower", "box-0"), leaving=leaving)
    snapshot = two_queues(2, owner=1).add(elastic, a_job("w", "owner")).snapshot()
    assert acts(run_cycle(snapshot, Policy(), NOW)) == ()
    assert admitted(run_cycle(stopped(snapshot), Policy(), NOW)) == ["w"]


# --- moving


def scattered(**queue) -> Cluster:
    """Two nodes of two; a task of the elastic job on each, and one who needs two on one node."""
    cluster = Cluster().node("m", 2).node("n", 2).queue("q", 4, **queue)
    return cluster.add(an_elastic("e", "q", "m-0", "n-0", tasks=2), a_job("w", "q", 2, submitted=5))


def test_a_task_of_the_surplus_moves_by_itself():
    snapshot = scattered().snapshot()
    decision = run_cycle(snapshot, Policy(), NOW)
    grow, reserve, shrink = sorted(decision.instructions, key=lambda each: type(each).__name__)
    assert (grow.workload, devices_of(grow.placement)) == ("e", ["m-1"])
    assert (shrink.workload, devices_of(shrink.placement), shrink.reason) == ("e", ["n-0"], EvictReason.CONSOLIDATED)
    assert reveal(shrink.sentence) == (
        "One of its 2 tasks goes on at m, so that ann's w (2 GPUs) fits. The others run on where they are."
    )
    assert reserve.workload == "w"
    after = apply(snapshot, decision)
    assert run_cycle(after, Policy(), NOW).instructions == ()
    assert admitted(run_cycle(stopped(after), Policy(), NOW)) == ["w"]


def test_a_task_does_not_move_where_it_may_not_be_counted_twice():
    assert run_cycle(scattered(limit=4).snapshot(), Policy(), NOW).instructions == ()


def test_the_smallest_gang_does_not_move_away_from_its_surplus():
    cluster = Cluster().node("m", 2).node("n", 2).node("p", 1).queue("q", 5)
    elastic = an_elastic("e", "q", "n-0", "m-0", tasks=2)
    cluster.add(elastic, running(a_job("o", "q", preemptible=False), "m-1"), a_job("w", "q", 2, submitted=5))
    assert run_cycle(cluster.snapshot(), Policy(), NOW).instructions == ()
    alone = replace(elastic, tasks=1, placement=elastic.placement[:1])
    moved = replace(cluster.snapshot(), workloads=(alone, *cluster.workloads[1:]))
    assert evicted(run_cycle(moved, Policy(), NOW)) == ["e"]


# --- parts


def a_gang_of_groups() -> Workload:
    one = Request(devices=1)
    groups = (
        TaskGroup(name="lead", request=Request(devices=2), tasks=1, min_members=1),
        TaskGroup(name="work", request=one, tasks=4, min_members=1),
    )
    return replace(a_job("g", "q"), groups=groups, elastic=True)


def placed(workload: Workload, **tasks: int) -> Workload:
    placement = tuple(
        TaskPlacement(node="box", devices=(f"{group}-{i}",), group=group)
        for group, n in tasks.items()
        for i in range(n)
    )
    return replace(running(workload), placement=placement)


def test_each_group_keeps_its_own_smallest_gang():
    core, surplus = replicas.split_replicas(placed(a_gang_of_groups(), lead=1, work=3))
    assert [task.devices for task in core.placement] == [("lead-0",), ("work-0",)]
    assert [part.placement[0].devices for part in surplus] == [("work-1",), ("work-2",)]
    assert {part.request.devices for part in surplus} == {1}


def test_what_is_missing_of_the_smallest_gang_is_wanted_at_once_and_alone():
    (repair,) = replicas.wanted_replicas(placed(a_gang_of_groups(), work=2))
    assert repair.vital
    assert [(group.name, group.tasks) for group in repair.groups] == [("lead", 1), ("work", 0)]


def test_each_group_grows_up_to_its_tasks():
    wanted = replicas.wanted_replicas(placed(a_gang_of_groups(), lead=1, work=2))
    assert [part.request.devices for part in wanted] == [1, 1]
    assert all(not part.vital for part in wanted)


def test_a_lost_task_of_a_gang_is_given_back_to_it():
    gang = an_elastic("e", "q", "box-0", tasks=2, min_members=2, stale_since=NOW)
    (grow,) = decide(Cluster().node("box", 2).queue("q", 2), gang).instructions
    assert (type(grow), devices_of(grow.placement)) == (Grow, ["box-1"])


def snapshot_is_unchanged_by(snapshot: Snapshot) -> bool:
    before = repr(snapshot)
    run_cycle(snapshot, Policy(), NOW)
    return repr(snapshot) == before


def test_deciding_changes_nothing_of_what_it_was_given():
    elastic = an_elastic("e", "borrower", "box-0", "box-1", "box-2", tasks=3)
    assert snapshot_is_unchanged_by(two_queues(3, owner=1).add(elastic, a_job("w", "owner")).snapshot())
