"""The properties of a scheduling cycle that hold always, over random clusters and histories.

Each test plays its worlds once, for all laws that can be asked of them: to play a world takes longer than to judge it.

Safety: what never happens. Liveness: what happens in the end.

See docs/decisions/0243-play-each-random-world-once-for-all-laws.md.
"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.domain.amount import MilliGpu
from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Decision, Evict
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, acts, admitted, apply, evicted, stopped
from tests.property import endings, laws
from tests.property.cascades import nothing_is_evicted_twice_nor_for_what_was_evicted
from tests.property.clusters import World, worlds, worlds_with_cores
from tests.property.histories import happens, play, random_worlds

MOVED = EvictReason.CONSOLIDATED


@random_worlds
@given(worlds(), st.data())
def test_the_cluster_comes_to_rest_by_lawful_cycles_and_goes_on_from_there(world, data):
    """All safety laws of each cycle, nobody entitled waits at any rest, and what must follow the last one."""
    snapshot, policy = play(world, at_rest=laws.nobody_entitled_waits), world.policy
    endings.what_was_evicted_starts_again_when_the_others_are_gone(snapshot, policy)
    decision = run_cycle(snapshot, policy, NOW)
    endings.those_named_as_in_the_way_really_are(snapshot, policy, decision)
    endings.when_the_time_named_has_passed_somebody_gives_way(snapshot, policy, decision)
    lowered = []
    for queue in snapshot.queues:
        quota = MilliGpu(data.draw(st.sampled_from((queue.quota, queue.quota, 0))))
        limit = data.draw(st.sampled_from((queue.limit, queue.limit, quota)))
        lowered.append(replace(queue, quota=quota, limit=limit))
    endings.other_bounds_hold_in_the_end_without_taking_what_is_entitled(snapshot, policy, tuple(lowered))


@random_worlds
@given(worlds_with_cores(), st.integers(0, 1), st.integers(0, 5), st.sampled_from(("drained", "moved")), st.data())
def test_the_cluster_comes_to_rest_where_processors_are_scarce_too_and_goes_on_from_there(
    world, node, device, how, data
):
    snapshot, policy = play(world), world.policy
    emptied = snapshot.nodes[min(node, len(snapshot.nodes) - 1)]
    endings.whatever_can_be_paused_leaves_a_node_that_is_emptied(snapshot, policy, emptied)
    endings.whatever_can_be_paused_leaves_a_device_out_of_service(snapshot, policy, device, how)
    limits = st.sampled_from((None, 0, 1000, 2000))
    lowered = tuple(replace(queue, cpu_limit=data.draw(limits)) for queue in snapshot.queues)
    endings.other_bounds_hold_in_the_end_without_taking_what_is_entitled(snapshot, policy, lowered)


@random_worlds
@given(worlds())
def test_each_cycle_of_a_history_takes_no_more_than_it_must_and_leaves_nothing_undone(world):
    snapshot, policy = world.snapshot, world.policy
    for act, what in world.history:
        snapshot = happens(snapshot, act, what)
        decision = run_cycle(snapshot, policy, NOW)
        after = apply(snapshot, decision)
        _is_followed_by_an_empty_decision(after, policy)
        _no_victim_is_needless(snapshot, after, policy, decision)
        _what_moves_runs_again_at_once(stopped(after), policy, decision)
        snapshot = stopped(after)


def _is_followed_by_an_empty_decision(after: Snapshot, policy: Policy) -> None:
    """Safety. What was decided is not decided otherwise as long as nothing happens."""
    assert run_cycle(after, policy, NOW).instructions == ()


def _no_victim_is_needless(snapshot: Snapshot, after: Snapshot, policy: Policy, decision: Decision) -> None:
    """Safety. Where all victims of a cycle are for one workload: it does not fit if any one of them stays.

    Or a victim that goes on elsewhere does not fit, if the one stays that has its new place.
    """
    promised = {e.workload for e in decision.pending if e.why.reason is PendingReason.WAITS_FOR_EVICTION}
    if len(promised) == 1 and {getattr(i, "by", None) for i in acts(decision)} == promised:
        for victim in evicted(decision):
            served = laws.moving_to(after, victim) | promised
            idle = all(laws.went_for_nothing(snapshot, after, policy, waiting, victim) for waiting in served)
            assert not idle, f"{victim} went for nothing"


def _what_moves_runs_again_at_once(following: Snapshot, policy: Policy, decision: Decision) -> None:
    """Liveness. So does the work for which it moves."""
    evictions = [i for i in decision.instructions if isinstance(i, Evict)]
    if evictions and all(i.reason is MOVED for i in evictions):
        wanted = {i.workload for i in evictions} | {i.by for i in evictions}
        assert wanted <= set(admitted(run_cycle(following, policy, NOW)))


def _submitted(world: World) -> Snapshot:
    """Everything that a world submits, at once."""
    return replace(world.snapshot, workloads=tuple(what for act, what in world.history if act == "submit"))


@random_worlds
@given(worlds(), st.randoms(use_true_random=False))
def test_safety_the_order_of_the_input_does_not_matter(world, random):
    snapshot = _submitted(world)
    expected = run_cycle(snapshot, world.policy, NOW)
    parts = {name: list(getattr(snapshot, name)) for name in ("nodes", "queues", "workloads")}
    for part in parts.values():
        random.shuffle(part)
    shuffled = replace(snapshot, **{name: tuple(part) for name, part in parts.items()})
    assert run_cycle(shuffled, world.policy, NOW) == expected


@random_worlds
@given(worlds())
def test_liveness_no_cascade_follows_anything_that_happens(world):
    """Between two events, nothing is stopped twice, and nothing is stopped for what was stopped itself."""
    snapshot = world.snapshot
    for act, what in world.history:
        snapshot = nothing_is_evicted_twice_nor_for_what_was_evicted(happens(snapshot, act, what), world.policy)


@random_worlds
@given(worlds(whole=True))
def test_liveness_evictions_end(world):
    """No cycle of evictions: with a fixed set of work the number of evictions is bounded by that of the work."""
    snapshot = _submitted(world)
    count = 0
    for _ in range(40):
        decision = run_cycle(snapshot, world.policy, NOW)
        count += len([i for i in decision.instructions if isinstance(i, Evict) and i.reason is not MOVED])
        if not decision.instructions:
            break
        snapshot = stopped(apply(snapshot, decision))
    assert decision.instructions == (), "the cluster does not come to rest"
    assert count <= len(snapshot.workloads)
