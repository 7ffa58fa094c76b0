"""Consolidation: what moves for which work, that no run is lost by it, and that the room of both is kept."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import MilliGpu, Seconds
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Request, TaskPlacement
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Admit, Evict, Reserve
from jupyter_gq.scheduling.evict.consolidate import consolidate
from jupyter_gq.scheduling.evict.eviction import evict_victims
from jupyter_gq.scheduling.evict.victim_search import make_room
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import begin_cycle
from tests.builders import (
    NOW,
    Cluster,
    a_device,
    a_job,
    a_notebook,
    admitted,
    apply,
    evicted,
    running,
    stopped,
    why,
    without,
)

#: Half of two devices.
TWO_HALVES = Request(devices=2, milli_per_device=MilliGpu(500))


def decide(snapshot, **settings):
    return run_cycle(snapshot, Policy(**settings), NOW)


def two_halves():
    """Two nodes of two GPUs, one GPU of each in use, and one who needs two on one node."""
    return (
        Cluster()
        .node("m", 2)
        .node("n", 2)
        .queue("q", 4)
        .add(
            running(a_job("old", "q"), "m-0", since=1),
            running(a_job("new", "q"), "n-0", since=2),
            a_job("big", "q", 2, owner="bob"),
        )
    )


def test_one_moves_so_that_another_fits_and_both_places_are_written_down():
    decision = decide(two_halves().snapshot())
    evict, *reserves = decision.instructions
    assert (replace(evict, sentence=reveal(evict.sentence)), *reserves) == (
        Evict(
            workload="new",
            reason=EvictReason.CONSOLIDATED,
            by="big",
            sentence="Paused: it moves to m, so that bob's big (2 GPUs) fits. "
            "Continues there by itself as soon as it has stopped.",
        ),
        Reserve(workload="big", placement=(TaskPlacement(node="n", devices=("n-0", "n-1")),), nominated=True),
        Reserve(workload="new", placement=(TaskPlacement(node="m", devices=("m-1",)),), nominated=True),
    )
    entry = why(decision, "big").why
    assert entry.reason is PendingReason.WAITS_FOR_EVICTION
    assert entry.blockers == ("new",)


def test_when_it_has_stopped_both_start_and_nothing_follows():
    snapshot = two_halves().snapshot()
    moved = apply(snapshot, decide(snapshot))
    assert decide(moved).instructions == ()
    following = decide(stopped(moved))
    assert sorted(admitted(following)) == ["big", "new"]
    after = apply(stopped(moved), following)
    assert all(w.reserved == () and w.state is State.RUNNING for w in after.workloads)
    assert decide(after).instructions == ()


def test_nobody_snatches_the_room_of_either_while_they_wait_for_each_other():
    """A thief with the highest seniority comes while `new` stops, and again when it has stopped."""
    snapshot = two_halves().snapshot()
    moved = apply(snapshot, decide(snapshot))
    thief = a_job("thief", "q", 1, submitted=-500)
    crowded = replace(moved, workloads=(*moved.workloads, thief))
    assert decide(crowded).instructions == ()
    assert sorted(admitted(decide(stopped(crowded)))) == ["big", "new"]


def test_moved_work_comes_back_even_if_the_work_for_which_it_moved_is_gone():
    snapshot = two_halves().snapshot()
    moved = without(stopped(apply(snapshot, decide(snapshot))), "big")
    assert admitted(decide(moved)) == ["new"]


def test_a_place_that_is_lost_is_struck_out_and_its_owner_waits_like_the_others():
    snapshot = two_halves().snapshot()
    moved = apply(snapshot, decide(snapshot))
    broken = replace(moved, nodes=moved.nodes[1:])
    decision = decide(broken)
    assert Reserve(workload="new", placement=()) in decision.instructions


@pytest.mark.parametrize(
    "stays",
    [
        {"preemptible": False},
        {"started_at": NOW - 599.0},
        {"started_at": None, "state": State.ADMITTED},
    ],
)
def test_who_is_not_preemptible_or_has_just_started_never_moves(stays):
    snapshot = two_halves().snapshot()
    workloads = [replace(w, **stays) if w.id in ("old", "new") else w for w in snapshot.workloads]
    assert evicted(decide(replace(snapshot, workloads=tuple(workloads)))) == []


def test_a_gang_that_has_lost_tasks_never_moves():
    """At its new place it would start with too few tasks."""
    gang = running(a_job("gang", "q", tasks=2, min_members=2, stale_since=NOW), "n-0", since=2)
    cluster = Cluster().node("m", 2).node("n", 2).queue("q", 8)
    snapshot = cluster.add(gang, running(a_job("old", "q", preemptible=False), "m-0"), a_job("big", "q", 2)).snapshot()
    assert decide(snapshot, stale_after=60).instructions == ()
    whole = tuple(replace(w, tasks=1, min_members=1, stale_since=None) for w in snapshot.workloads)
    assert evicted(decide(replace(snapshot, workloads=whole))) == ["gang"]


def test_a_notebook_never_moves():
    cluster = Cluster().node("m", 1).node("n", 1).fixed("train", ann="0.5", bob="0.5").queue("q", 1)
    cluster.add(running(a_notebook("ann", "0.5"), "m-0"), running(a_notebook("bob", "0.5"), "n-0"), a_job("big", "q"))
    snapshot = cluster.snapshot()
    notebooks = tuple(replace(w, preemptible=w.id != "big") for w in snapshot.workloads)
    assert decide(replace(snapshot, workloads=notebooks)).instructions == ()


def test_nothing_moves_where_it_is_switched_off_or_not_all_find_a_place():
    assert decide(two_halves().snapshot(), consolidate=False).instructions == ()
    full = two_halves().add(running(a_job("other", "q"), "m-1", since=0)).snapshot()
    assert decide(full).instructions == ()


def test_a_queue_at_its_limit_moves_nobody():
    cluster = two_halves()
    cluster.queues[0] = replace(cluster.queues[0], limit=3000)
    assert decide(cluster.snapshot()).instructions == ()


def test_of_two_that_could_move_the_one_that_has_a_place_moves():
    """The newer one needs two devices, and there is no other place with two."""
    cluster = Cluster().node("m", 4).node("n", 4).queue("q", 8)
    cluster.add(
        running(a_job("three", "q", 3), "m-0", "m-1", "m-2", since=1),
        running(a_job("one", "q", 1), "n-0", since=2),
        running(a_job("two", "q", 2), "n-1", "n-2", since=3),
        a_job("waits", "q", 2),
    )
    assert evicted(decide(cluster.snapshot())) == ["one"]


def test_a_gang_gets_several_places_and_all_who_moved_are_placed_again():
    cluster = Cluster().node("l", 4)
    for name in "mn":
        cluster.node(name, 2)
    cluster.queue("q", 8).add(
        running(a_job("a", "q"), "m-0", since=1),
        running(a_job("b", "q"), "n-0", since=2),
        running(a_job("c", "q", 2), "l-0", "l-1", since=3),
        a_job("gang", "q", 2, tasks=2),
    )
    decision = decide(cluster.snapshot())
    after = stopped(apply(cluster.snapshot(), decision))
    assert set(admitted(decide(after))) == {*evicted(decision), "gang"}
    assert len(evicted(decision)) == 1  # one node more is enough: a task goes beside `c`


def test_entitled_work_is_helped_by_moves_before_any_run_is_lost():
    cluster = Cluster().node("m", 2).node("n", 2).queue("mine", 2).queue("theirs", 1)
    cluster.add(
        running(a_job("x", "theirs"), "m-0", since=1),
        running(a_job("y", "theirs"), "n-0", since=2),
        a_job("big", "mine", 2),
    )
    decision = decide(cluster.snapshot())
    assert [i.reason for i in decision.instructions if isinstance(i, Evict)] == [EvictReason.CONSOLIDATED]


def test_what_a_higher_claim_takes_from_the_room_is_not_kept_any_more():
    """`big` would start by a move, but the other queue is entitled to all of that node: the move is for that one."""
    cluster = Cluster().node("m", 2).node("n", 2).queue("q", 2).queue("z", 2)
    cluster.add(
        running(a_job("old", "q"), "m-0", since=1),
        running(a_job("new", "q"), "n-0", since=2),
        a_job("big", "q", 2, submitted=1),
        a_job("entitled", "z", 2, submitted=2),
    )
    decision = decide(cluster.snapshot())
    after = stopped(apply(cluster.snapshot(), decision))
    assert "entitled" in admitted(decide(after))
    assert decide(apply(cluster.snapshot(), decision)).instructions == ()


def test_it_starts_elsewhere_if_another_place_becomes_free_first():
    snapshot = two_halves().snapshot()
    moved = apply(snapshot, decide(snapshot))
    wider = replace(moved, nodes=(*moved.nodes, *Cluster().node("p", 2).nodes))
    starts = [i for i in decide(wider).instructions if isinstance(i, Admit)]
    assert [i.workload for i in starts] == ["big"]
    assert starts[0].placement[0].node == "p"


def test_how_long_one_must_have_run_is_set_by_the_policy():
    snapshot = two_halves().snapshot()
    young = tuple(replace(w, started_at=w.started_at and NOW - 1.0) for w in snapshot.workloads)
    assert evicted(decide(replace(snapshot, workloads=young), moved_after=Seconds(0))) == ["new"]


def test_work_moves_for_the_one_for_whom_the_free_devices_are_held():
    """What is held for `wide` is most of what is free; it counts for it, though for nobody else."""
    cluster = Cluster().node("m", devices=2).node("n", devices=2).queue("a", quota=4)
    cluster.add(running(a_job("long", "a"), "m-0"), running(a_job("other", "a"), "n-0"))
    place = (TaskPlacement(node="m", devices=("m-0", "m-1")),)
    cluster.add(a_job("wide", "a", gpus=2, submitted=-5000, reserved=place))
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert evicted(decision) in (["long"], ["other"])


def test_what_moves_counts_with_all_that_moves_also_where_it_could_start_smaller():
    """It may start with one task, and runs with two."""
    place = (TaskPlacement(node="x", devices=("x-0",)), TaskPlacement(node="x", devices=("x-1",)))
    cluster = Cluster().node("x", 3).queue("a", 2, limit=2)
    cluster.add(a_job("moved", "a", tasks=2, min_members=1, reserved=place), a_job("next", "a", submitted=1))
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert admitted(decision) == ["moved"]
    assert why(decision, "next").why.reason is PendingReason.QUEUE_LIMIT


def test_a_replica_that_was_evicted_already_does_not_move():
    """Its device goes to its preemptor, so another workload gets nothing by moving the replica away."""
    cluster = Cluster().node("m").node("n").node("k").queue("q", 3)
    cluster.nodes[1] = replace(cluster.nodes[1], labels={"zone": "a"})
    elastic = a_job("e", "q", tasks=2, min_members=1, elastic=True)
    wanting = [a_job(name, "q", owner="bob", submitted=1) for name in ("first", "second")]
    wanting = [replace(job, request=replace(job.request, node_labels=(("zone", "a"),))) for job in wanting]
    cluster.add(running(elastic, "m-0", "n-0", since=1), *wanting)
    state = begin_cycle(ClusterIndex(cluster.snapshot(), Policy()), NOW)
    allocations, evictions = state.allocations, state.evictions
    (replica,) = allocations.replicas.surplus_of(state.inputs.index.workloads["e"])
    first = allocations.pending["first"]
    victims = make_room(allocations, first, lambda: [replica])
    assert victims == [replica]
    evict_victims(allocations, evictions, victims, first)
    consolidate(state.inputs, allocations, state.reservations, evictions)
    assert list(allocations.nominated) == ["first"]
    assert list(evictions.replicas) == [replica.id]


@pytest.mark.parametrize(("ago", "quota", "moves"), [(600, 0, False), (601, 0, True), (0, 2, True)])
def test_nothing_moves_for_work_above_its_quota_that_was_just_stopped(ago, quota, moves):
    cluster = Cluster().node("m", 2).node("n", 2).queue("q", 2).queue("borrows", quota)
    stopped_work = replace(a_job("big", "borrows", 2, owner="bob"), requeued_at=NOW - ago)
    cluster.add(running(a_job("old", "q"), "m-0", since=1), running(a_job("new", "q"), "n-0", since=2), stopped_work)
    assert bool(evicted(decide(cluster.snapshot()))) is moves


def test_an_eviction_leads_to_no_moves():
    """`large` goes for `wants`. There is room for it in parts, and nothing has happened since."""
    cluster = Cluster().node("n", 4).queue("a").queue("b", 3)
    cluster.add(
        running(a_job("large", "a", 2), "n-0", "n-3", since=634),
        running(a_job("one", "b", "0.3"), "n-1", since=281),
        *(running(a_job(f"part{number}", "b", "0.25"), "n-2", since=100 + number) for number in range(4)),
        replace(a_job("wants", "b", "0.5", preemptible=False, submitted=900), request=TWO_HALVES),
    )
    after = apply(cluster.snapshot(), first := decide(cluster.snapshot()))
    assert evicted(first) == ["large"]
    assert evicted(decide(stopped(after))) == []


def test_work_on_its_way_to_a_new_place_counts_as_use_of_its_queue():
    """It cannot give way before it runs again, so other work of its queue goes, which is above its quota."""
    cluster = Cluster().node("m", 2).node("n", 2).node("o", 1).queue("small", 1).queue("large", 4)
    cluster.add(running(a_job("moves", "small"), "n-0", since=2), running(a_job("runs", "small"), "o-0", since=3))
    cluster.add(running(a_job("stays", "large"), "m-0", since=1), a_job("wide", "large", 2))
    moving = apply(cluster.snapshot(), decide(cluster.snapshot()))
    assert [(w.id, bool(w.reserved)) for w in moving.workloads if w.state is State.STOPPING] == [("moves", True)]
    later = replace(moving, workloads=(*moving.workloads, a_job("claims", "large", submitted=9)))
    assert evicted(decide(later)) == ["runs"]


def told(decision):
    return {each.workload: (each.reason, each.by) for each in decision.instructions if isinstance(each, Evict)}


def test_nothing_moves_to_a_place_that_guaranteed_work_takes():
    """`borrows` would get a whole device by a move. `entitled` needs both, so the mover would stop for nothing."""
    cluster = Cluster().node("n", 2).queue("a").queue("b", 2)
    cluster.add(running(a_job("first", "a", "0.5"), "n-0", since=1), running(a_job("second", "a", "0.5"), "n-1"))
    cluster.add(a_job("borrows", "a", submitted=1, priority=1), a_job("entitled", "b", 2, submitted=2))
    decision = decide(cluster.snapshot())
    assert told(decision) == dict.fromkeys(("first", "second"), (EvictReason.RECLAIMED, "entitled"))
    assert admitted(decide(stopped(apply(cluster.snapshot(), decision)))) == ["entitled"]


def of_model(job, model):
    return replace(job, request=replace(job.request, models=(model,)))


def two_models() -> Cluster:
    """A GPU of each of two models, half in use. Two jobs wait, each for all of one of them, `entitled` by its share."""
    cluster = Cluster().queue("a", over_quota_weight=0).queue("b")
    devices = tuple(replace(a_device(f"n-{model}", 0), model=model) for model in "AB")
    cluster.nodes.append(Node(name="n", devices=devices))
    return cluster.add(
        running(a_job("mover", "a", "0.5"), "n-A", since=1),
        running(of_model(a_job("other", "a", "0.5"), "B"), "n-B", since=2),
        of_model(a_job("younger", "a", 1, submitted=5), "A"),
        of_model(a_job("entitled", "b", 1, submitted=6), "B"),
    )


def test_younger_work_of_the_queue_of_a_mover_does_not_get_its_place_when_the_move_ends():
    """`mover` would go beside `other` for `younger`. Then `entitled` takes that device, so `mover` stays where it is.

    If `entitled` were within its quota, it would be served before the move.
    """
    snapshot = two_models().snapshot()
    decision = decide(snapshot)
    assert told(decision) == {"other": (EvictReason.RECLAIMED, "entitled")}
    assert admitted(decide(stopped(apply(snapshot, decision)))) == ["entitled"]


def two_for_moves(priority) -> Cluster:
    """Two halves that fit on one device, two jobs of this priority, and work of two other queues that waits."""
    cluster = Cluster().node("n", 4).queue("a").queue("b", 1).queue("c", 3)
    return cluster.add(
        running(a_job("first", "a", priority=priority), "n-0", since=900),
        running(a_job("second", "a", priority=priority), "n-1", since=901),
        running(a_job("other", "a", "0.5"), "n-2", since=1),
        running(a_job("small", "a", "0.5"), "n-3", since=2),
        a_job("single", "b", submitted=4),
        a_job("wide", "c", tasks=2, submitted=5),
    )


def test_evicted_work_takes_the_place_of_a_mover_with_a_lower_priority_in_the_same_decision():
    """`small` would move beside `other` for `single`. `wide` takes two devices, and one victim goes on there."""
    snapshot = two_for_moves(priority=1).snapshot()
    decision = decide(snapshot)
    gone = ("first", "second", "small", "other")
    assert told(decision) == dict.fromkeys(gone, (EvictReason.RECLAIMED, "wide"))
    kept = {each.workload for each in decision.instructions if isinstance(each, Reserve) and each.nominated}
    assert {"single", "wide"} <= kept
    after = decide(stopped(apply(snapshot, decision)))
    assert len(set(admitted(after)) & {"first", "second"}) == 1
    assert {"single", "wide"} <= {*admitted(after)}
    assert evicted(after) == []


def test_a_mover_goes_on_where_other_victims_suffice():
    snapshot = two_for_moves(priority=0).snapshot()
    decision = decide(snapshot)
    victims = dict.fromkeys(("first", "second"), (EvictReason.RECLAIMED, "wide"))
    assert told(decision) == {**victims, "small": (EvictReason.CONSOLIDATED, "single")}
    assert sorted(admitted(decide(stopped(apply(snapshot, decision))))) == ["single", "small", "wide"]


# --- deserved work goes first


def mover_within_its_quota():
    """A job within the quota of `own` on the device of model A, a borrower on that of model B, each half a GPU."""
    first, second = a_device("n-0"), a_device("n-1", 1)
    node = Node(name="n", devices=(replace(first, model="A"), replace(second, model="B")))
    cluster = Cluster().queue("own", 0.5).queue("deserving", 1).queue("none").queue("also-none")
    cluster.nodes.append(node)
    return cluster.add(
        running(a_job("within", "own", 0.5), "n-0"), running(of_model(a_job("borrower", "none", 0.5), "B"), "n-1")
    )


def test_nothing_within_its_quota_moves_for_a_borrower_to_where_deserved_work_may_evict():
    """Nobody could evict `within` beside the borrower, so `deserved` would wait for ever."""
    cluster = mover_within_its_quota().add(
        of_model(a_job("borrows", "also-none", submitted=1), "A"),
        of_model(a_job("deserved", "deserving", submitted=2), "B"),
    )
    decision = decide(cluster.snapshot())
    assert told(decision) == {"borrower": (EvictReason.RECLAIMED, "deserved")}


def test_nothing_moves_for_a_borrower_to_where_deserved_work_may_stop_lower_priorities():
    """As above, where all of the quota of `deserving` is used by work that goes for `deserved`."""
    cluster = mover_within_its_quota().add(of_model(a_job("borrows", "also-none", submitted=1), "A"))
    cluster.workloads[1] = running(of_model(a_job("low", "deserving", 0.5), "B"), "n-1")
    cluster.add(of_model(a_job("deserved", "deserving", priority=1, submitted=2), "B"))
    decision = decide(cluster.snapshot())
    assert told(decision) == {"low": (EvictReason.PREEMPTED, "deserved")}


def test_work_moves_for_a_borrower_where_no_deserved_work_waits():
    cluster = mover_within_its_quota().add(of_model(a_job("borrows", "also-none", submitted=1), "A"))
    decision = decide(cluster.snapshot())
    assert told(decision) == {"within": (EvictReason.CONSOLIDATED, "borrows")}


def test_deserved_work_gets_a_move_also_if_like_work_of_another_queue_is_not_deserved():
    """`borrows` has the same request, and its queue comes first by name."""
    cluster = Cluster().node("m", 2).node("n", 2).queue("a", 1).queue("deserving", 2).queue("none")
    cluster.add(running(a_job("left", "a"), "m-0"), running(a_job("right", "none", submitted=1), "n-0"))
    cluster.add(a_job("borrows", "a", 2, submitted=2), a_job("wants", "deserving", 2, submitted=3))
    assert told(decide(cluster.snapshot())) == {"right": (EvictReason.CONSOLIDATED, "wants")}
