"""The properties of a scheduling cycle that hold always, over random clusters and histories.

Safety: what never happens. Liveness: what happens in the end.
"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.domain.amount import MilliGpu
from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Evict
from tests.builders import NOW, acts, admitted, apply, cordoned, evicted, later, stopped, without
from tests.property import laws
from tests.property.clusters import worlds, worlds_with_cores
from tests.property.histories import happens, play, random_worlds, settle

MOVED = EvictReason.CONSOLIDATED


def rigid(snapshot: Snapshot) -> Snapshot:
    """The same, but what holds devices wants no more."""
    return replace(snapshot, workloads=tuple(replace(w, elastic=w.elastic and not w.holds) for w in snapshot.workloads))


@random_worlds
@given(worlds())
def test_safety_laws_hold_and_the_cluster_comes_to_rest(world):
    play(world)


@random_worlds
@given(worlds_with_cores())
def test_safety_laws_hold_where_processors_are_scarce_too(world):
    play(world)


@random_worlds
@given(worlds())
def test_safety_an_applied_decision_is_followed_by_an_empty_one(world):
    snapshot = world.snapshot
    for act, what in world.history:
        snapshot = happens(snapshot, act, what)
        decision = run_cycle(snapshot, world.policy, NOW)
        snapshot = apply(snapshot, decision)
        assert run_cycle(snapshot, world.policy, NOW).instructions == ()
        snapshot = stopped(snapshot)


@random_worlds
@given(worlds_with_cores(), st.integers(0, 1))
def test_safety_whatever_can_be_paused_leaves_a_node_that_is_emptied_and_nothing_goes_there(world, which):
    snapshot = play(world)
    node = snapshot.nodes[min(which, len(snapshot.nodes) - 1)]
    there = {w.id for w in snapshot.workloads if any(task.node == node.name for task in w.placement)}
    nodes = tuple(cordoned(each) if each is node else each for each in snapshot.nodes)
    after = settle(replace(snapshot, nodes=nodes), world.policy)
    left = {w.id: w for w in after.workloads if any(task.node == node.name for task in w.placement)}
    assert left.keys() <= there
    assert not any(workload.preemptible for workload in left.values())


@random_worlds
@given(worlds_with_cores(), st.integers(0, 5), st.sampled_from(("drained", "moved")))
def test_safety_whatever_can_be_paused_leaves_a_device_out_of_service_and_nothing_goes_there(world, which, how):
    """The device is drained, or the configuration gives it to a pool that no queue of these has."""
    snapshot = play(world)
    devices = [device for node in snapshot.nodes for device in node.devices]
    device = devices[which % len(devices)]
    out = replace(device, healthy=False, draining=True) if how == "drained" else replace(device, pool="other")
    nodes = tuple(
        replace(node, devices=tuple(out if each is device else each for each in node.devices))
        for node in snapshot.nodes
    )
    there = {w.id for w in snapshot.workloads if any(device.id in task.devices for task in w.placement)}
    after = settle(replace(snapshot, nodes=nodes), world.policy)
    left = {w.id: w for w in after.workloads if any(device.id in task.devices for task in w.placement)}
    assert left.keys() <= there
    assert not any(workload.preemptible for workload in left.values())


@random_worlds
@given(worlds(), st.randoms(use_true_random=False))
def test_safety_the_order_of_the_input_does_not_matter(world, random):
    submitted = [what for act, what in world.history if act == "submit"]
    snapshot = replace(world.snapshot, workloads=tuple(submitted))
    expected = run_cycle(snapshot, world.policy, NOW)
    parts = {name: list(getattr(snapshot, name)) for name in ("nodes", "queues", "workloads")}
    for part in parts.values():
        random.shuffle(part)
    shuffled = replace(snapshot, **{name: tuple(part) for name, part in parts.items()})
    assert run_cycle(shuffled, world.policy, NOW) == expected


@random_worlds
@given(worlds())
def test_liveness_nobody_within_quota_waits_while_victims_can_make_room(world):
    """Jobs of one and several devices and gangs, trees of up to three levels, and every set of up to four victims."""
    play(world, at_rest=laws.nobody_entitled_waits)


@random_worlds
@given(worlds())
def test_liveness_what_was_evicted_starts_again_when_the_others_are_gone(world):
    """Seniority kept: each workload alone on the cluster starts, if its queue allows it at all."""
    snapshot = play(world)
    for workload in snapshot.workloads:
        if workload.state is not State.PENDING:
            continue
        alone = replace(snapshot, workloads=(workload,))
        decision = run_cycle(alone, world.policy, NOW)
        reasons = {entry.why.reason for entry in decision.pending}
        assert admitted(decision) == [workload.id] or reasons <= {
            PendingReason.QUEUE_LIMIT,
            PendingReason.NON_PREEMPTIBLE_OVER_QUOTA,
            PendingReason.NO_DEVICE,
        }


@random_worlds
@given(worlds())
def test_safety_those_named_as_in_the_way_really_are(world):
    """Without them, and with nobody else wanting anything, it starts; if nobody is named, nothing would help."""
    snapshot = play(world)
    decision = run_cycle(snapshot, world.policy, NOW)
    waiting = {entry.workload for entry in decision.pending}
    for entry in decision.pending:
        if entry.why.reason not in (PendingReason.NO_FREE_DEVICE, PendingReason.FRAGMENTED, PendingReason.RESERVED):
            continue
        assert entry.why.blockers
        rest = rigid(without(snapshot, *entry.why.blockers, *(waiting - {entry.workload})))
        assert entry.workload in admitted(run_cycle(rest, world.policy, NOW))


@random_worlds
@given(worlds())
def test_liveness_when_the_time_named_has_passed_somebody_gives_way(world):
    """Who waits for a least run time names when it is over: then something happens."""
    snapshot = play(world)
    for entry in run_cycle(snapshot, world.policy, NOW).pending:
        if entry.why.reason is PendingReason.MIN_RUNTIME:
            seconds = entry.why.numbers["seconds_left"]
            assert seconds > 0
            assert run_cycle(later(snapshot, seconds), world.policy, NOW).instructions


@random_worlds
@given(worlds())
def test_safety_no_victim_is_needless(world):
    """Where all victims of a cycle are for one workload: it does not fit if any one of them stays.

    Nor does a victim that goes on elsewhere, if the one stays that has its new place.
    """
    snapshot = world.snapshot
    for act, what in world.history:
        snapshot = happens(snapshot, act, what)
        decision = run_cycle(snapshot, world.policy, NOW)
        after = apply(snapshot, decision)
        promised = {e.workload for e in decision.pending if e.why.reason is PendingReason.WAITS_FOR_EVICTION}
        if len(promised) == 1 and {getattr(i, "by", None) for i in acts(decision)} == promised:
            for victim in evicted(decision):
                (waiting,) = laws.moving_to(after, victim) or promised
                laws.does_not_fit_beside(snapshot, after, world.policy, waiting, victim)
        snapshot = stopped(after)


@random_worlds
@given(worlds(whole=True))
def test_liveness_evictions_end(world):
    """No cycle of evictions: with a fixed set of work the number of evictions is bounded by that of the work."""
    submitted = [what for act, what in world.history if act == "submit"]
    snapshot = replace(world.snapshot, workloads=tuple(submitted))
    count = 0
    for _ in range(40):
        decision = run_cycle(snapshot, world.policy, NOW)
        count += len([i for i in decision.instructions if isinstance(i, Evict) and i.reason is not MOVED])
        if not decision.instructions:
            break
        snapshot = stopped(apply(snapshot, decision))
    assert decision.instructions == (), "the cluster does not come to rest"
    assert count <= len(submitted)


@random_worlds
@given(worlds())
def test_liveness_work_that_moves_runs_again_at_once_as_does_the_work_for_which_it_moves(world):
    snapshot = world.snapshot
    for act, what in world.history:
        snapshot = happens(snapshot, act, what)
        decision = run_cycle(snapshot, world.policy, NOW)
        snapshot = stopped(apply(snapshot, decision))
        evictions = [i for i in decision.instructions if isinstance(i, Evict)]
        if evictions and all(i.reason is MOVED for i in evictions):
            following = run_cycle(snapshot, world.policy, NOW)
            wanted = {i.workload for i in evictions} | {i.by for i in evictions}
            assert wanted <= set(admitted(following))


@random_worlds
@given(worlds(), st.data())
def test_liveness_a_lowered_quota_or_limit_converges_without_taking_what_is_entitled(world, data):
    """Whatever is lowered under running work: limits hold in the end, as far as anything can go, and it comes to rest.

    What goes for a limit is above the quota of its own queue, or else nothing of that queue's is.
    """
    snapshot = play(world)
    lowered = []
    for queue in snapshot.queues:
        quota = MilliGpu(data.draw(st.sampled_from((queue.quota, queue.quota, 0))))
        limit = data.draw(st.sampled_from((queue.limit, queue.limit, quota)))
        lowered.append(replace(queue, quota=quota, limit=limit))
    snapshot = replace(snapshot, queues=tuple(lowered))
    for _ in range(40):
        decision = run_cycle(snapshot, world.policy, NOW)
        laws.entitled_work_goes_last(snapshot, decision, world.policy)
        snapshot = apply(snapshot, decision)
        if not decision.instructions and all(w.state is not State.STOPPING for w in snapshot.workloads):
            break
        snapshot = stopped(snapshot)
    assert not decision.instructions, "the cluster does not come to rest"
    laws.only_what_cannot_go_is_above_a_limit(snapshot, world.policy)


@random_worlds
@given(worlds_with_cores(), st.data())
def test_liveness_a_lowered_limit_of_processors_holds_in_the_end_as_far_as_anything_can_go(world, data):
    snapshot = play(world)
    limits = st.sampled_from((None, 0, 1000, 2000))
    snapshot = replace(snapshot, queues=tuple(replace(q, cpu_limit=data.draw(limits)) for q in snapshot.queues))
    for _ in range(40):
        decision = run_cycle(snapshot, world.policy, NOW)
        snapshot = apply(snapshot, decision)
        if not decision.instructions and all(w.state is not State.STOPPING for w in snapshot.workloads):
            break
        snapshot = stopped(snapshot)
    assert not decision.instructions, "the cluster does not come to rest"
    laws.only_what_cannot_go_is_above_a_limit(snapshot, world.policy)
