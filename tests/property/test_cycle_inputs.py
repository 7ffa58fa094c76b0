"""What a cycle is told beside nodes and queues: back-offs, unobserved kinds, launch capacity. Laws over random worlds.

The laws judge by their own arithmetic: they compare decisions on two snapshots, and count places in a queue by hand.
"""

from collections.abc import Collection
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Hold, Kind
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Admit, Decision
from jupyter_gq.scheduling.engine import Scheduler
from tests.builders import NOW, admitted, apply, backing_off, stopped, without
from tests.property import laws
from tests.property.clusters import worlds
from tests.property.histories import play, random_worlds, takes_place, told

UNOBSERVED = ((), (Kind.TRAINING,), (Kind.NOTEBOOK,), (Kind.NOTEBOOK, Kind.TRAINING))


def pending_ids(snapshot: Snapshot) -> list[str]:
    return [w.id for w in snapshot.workloads if w.state is State.PENDING]


def with_back_offs(snapshot: Snapshot, until: dict[str, float]) -> Snapshot:
    """The same snapshot, where these workloads back off until then; 0 = the workload does not."""
    workloads = []
    for workload in snapshot.workloads:
        if workload.id not in until:
            workloads.append(workload)
        elif until[workload.id]:
            workloads.append(backing_off(workload, until[workload.id]))
        else:
            workloads.append(replace(workload, backoff=None))
    return replace(snapshot, workloads=tuple(workloads))


def with_holds(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """The same snapshot, where exactly these workloads are held."""
    hold = Hold(by="root", at=NOW)
    workloads = (replace(w, hold=hold if w.id in names else None) for w in snapshot.workloads)
    return replace(snapshot, workloads=tuple(workloads))


def with_notebooks(snapshot: Snapshot) -> Snapshot:
    """The same snapshot, where all that bob has are notebooks."""
    workloads = (replace(w, kind=Kind.NOTEBOOK) if w.owner == "bob" else w for w in snapshot.workloads)
    return replace(snapshot, workloads=tuple(workloads))


def places_by_hand(snapshot: Snapshot, decision: Decision) -> dict[str, int]:
    """The place of each workload that still waits: by priority, then by submission, then by id."""
    starts = set(admitted(decision))
    places: dict[str, int] = {}
    by_queue: dict[str, int] = {}
    for workload in sorted(snapshot.workloads, key=lambda w: (-w.priority, w.submitted_at, w.id)):
        if workload.state is State.PENDING and workload.id not in starts:
            by_queue[workload.queue] = by_queue.get(workload.queue, 0) + 1
            places[workload.id] = by_queue[workload.queue]
    return places


@random_worlds
@given(worlds(), st.data())
def test_safety_other_workloads_are_decided_about_as_if_one_that_backs_off_or_is_held_were_not_there(world, data):
    snapshot = play(world)
    waiting = pending_ids(snapshot)
    chosen = data.draw(st.sets(st.sampled_from(waiting))) if waiting else set()
    held = data.draw(st.sets(st.sampled_from(sorted(chosen)))) if chosen else set()
    backing = with_back_offs(snapshot, dict.fromkeys(data.draw(st.sampled_from((chosen, chosen - held))), NOW + 1))
    found = run_cycle(with_holds(backing, held), world.policy, NOW)
    expected = run_cycle(without(snapshot, *chosen), world.policy, NOW)
    assert found.instructions == expected.instructions
    others = {entry.workload: entry.why for entry in found.pending if entry.workload not in chosen}
    assert others == {entry.workload: entry.why for entry in expected.pending}
    assert {entry.workload for entry in found.pending} == others.keys() | chosen


@random_worlds
@given(worlds(), st.data())
def test_safety_a_workload_that_backs_off_keeps_its_place_in_its_queue(world, data):
    policy = replace(world.policy, per_user=False)
    snapshot = play(world)
    waiting = pending_ids(snapshot)
    chosen = data.draw(st.sets(st.sampled_from(waiting))) if waiting else set()
    snapshot = with_back_offs(snapshot, dict.fromkeys(chosen, NOW + 1))
    decision = run_cycle(snapshot, policy, NOW)
    assert {entry.workload: entry.position for entry in decision.pending} == places_by_hand(snapshot, decision)


@random_worlds
@given(worlds(), st.data())
def test_safety_nothing_is_decided_about_workloads_of_unobserved_kinds(world, data):
    policy = replace(world.policy, per_user=False)
    snapshot = with_notebooks(play(world))
    if data.draw(st.booleans()):  # what waited may find room now
        running_ids = [w.id for w in snapshot.workloads if w.state is State.RUNNING]
        snapshot = without(snapshot, *running_ids[: data.draw(st.integers(0, 2))])
    snapshot = replace(snapshot, unobserved=data.draw(st.sampled_from(UNOBSERVED)))
    kinds = {workload.id: workload.kind for workload in snapshot.workloads}
    decision = run_cycle(snapshot, policy, NOW)
    assert all(kinds[instruction.workload] not in snapshot.unobserved for instruction in decision.instructions)
    for entry in decision.pending:
        if kinds[entry.workload] in snapshot.unobserved:
            assert entry.why.reason is PendingReason.BACKEND_UNOBSERVED
    assert {entry.workload: entry.position for entry in decision.pending} == places_by_hand(snapshot, decision)
    after = apply(snapshot, decision)
    laws.devices_hold_at_most_one_gpu(after)
    laws.nodes_keep_their_room(after)


@random_worlds
@given(worlds(), st.integers(0, 4))
def test_safety_the_launch_capacity_changes_only_which_admissions_are_carried_out_now(world, tasks):
    policy = replace(world.policy, per_user=False)
    submitted = tuple(what for act, what in world.history if act == "submit")
    snapshot = replace(world.snapshot, workloads=submitted)
    everything = run_cycle(snapshot, policy, NOW)
    bound = run_cycle(replace(snapshot, launch_capacity={Kind.TRAINING: tasks}), policy, NOW)
    starts, starts_now = ([i for i in each.instructions if isinstance(i, Admit)] for each in (everything, bound))
    assert [*starts_now, *bound.deferred] == starts
    launched = [len(admission.placement) for admission in starts_now]
    assert sum(launched[:-1]) < tasks or not launched, "only the last one may exceed what is left"
    assert not bound.deferred or sum(launched) >= tasks, "no more are deferred than has to be"
    assert [i for i in bound.instructions if not isinstance(i, Admit)] == [
        i for i in everything.instructions if not isinstance(i, Admit)
    ]
    waits = {entry.workload: entry.why for entry in bound.pending}
    for entry in everything.pending:
        assert waits.pop(entry.workload) == entry.why
    assert {why.reason for why in waits.values()} <= {PendingReason.STARTS_SOON}
    assert waits.keys() == {admission.workload for admission in bound.deferred}
    assert {entry.workload: entry.position for entry in bound.pending} == places_by_hand(snapshot, bound)


@random_worlds
@given(worlds(), st.data())
def test_safety_a_scheduler_that_remembers_sees_inputs_change_and_time_pass(world, data):
    """Back-offs begin, are lifted and end, backends are lost and found, capacity changes, time goes forth and back.

    Each decision is that of a new scheduler.
    """
    snapshot = world.snapshot
    scheduler = Scheduler(snapshot, world.policy)
    for act, what in world.history:
        before, snapshot = snapshot, with_notebooks(takes_place(snapshot, act, what))
        ends = st.sampled_from((0, NOW - 1, NOW, NOW + 1, NOW + 100))
        if waiting := pending_ids(snapshot):
            snapshot = with_back_offs(snapshot, data.draw(st.dictionaries(st.sampled_from(waiting), ends, max_size=3)))
            snapshot = with_holds(snapshot, data.draw(st.sets(st.sampled_from(waiting), max_size=2)))
        if data.draw(st.booleans()):
            bounds, blind = st.dictionaries(st.sampled_from(Kind), st.integers(0, 3)), st.sampled_from(UNOBSERVED)
            snapshot = replace(snapshot, unobserved=data.draw(blind), launch_capacity=data.draw(bounds))
            scheduler.follow(snapshot, world.policy)
        else:
            told(scheduler, before, snapshot)
        for now in data.draw(st.lists(st.sampled_from((NOW - 2, NOW, NOW + 50)), max_size=2)):
            assert scheduler.decide(Instant(now)) == run_cycle(snapshot, world.policy, Instant(now))
        decision = scheduler.decide(NOW)
        assert decision == run_cycle(snapshot, world.policy, NOW)
        before, snapshot = snapshot, stopped(apply(snapshot, decision))
        told(scheduler, before, snapshot)
