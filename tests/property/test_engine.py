"""A scheduler that remembers decides as one that is shown everything anew, whatever happened in between."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.domain.amount import Instant
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.preview.admission import outlook, queued
from tests.builders import NOW, apply, stopped
from tests.outlooks import preview
from tests.property.clusters import places, worlds
from tests.property.histories import random_worlds, takes_place, told


@random_worlds
@given(worlds(), st.data())
def test_safety_it_decides_as_if_it_saw_everything_for_the_first_time(world, data):
    snapshot, now = world.snapshot, NOW
    scheduler = Scheduler(snapshot, world.policy)
    for act, what in world.history:
        snapshot, before = takes_place(snapshot, act, what), snapshot
        told(scheduler, before, snapshot)
        decision = scheduler.decide(now)
        assert decision == run_cycle(snapshot, world.policy, now)
        assert scheduler.decide(now) == decision, "deciding changed something"
        # The decision may be carried out, what was told to stop may have stopped, and time passes.
        before = snapshot
        if data.draw(st.integers(0, 3)):
            snapshot = apply(snapshot, decision, now)
        if data.draw(st.booleans()):
            snapshot = stopped(snapshot)
        told(scheduler, before, snapshot)
        now = Instant(now + data.draw(st.sampled_from((0, 1, 700, 4000))))


@random_worlds
@given(st.one_of(worlds(), places()), st.data())
def test_safety_asking_what_would_be_says_what_would_be_and_changes_nothing(world, data):
    """A preview says what a scheduler says that sees everything for the first time."""
    policy, snapshot = world.policy, world.snapshot
    scheduler = Scheduler(snapshot, policy)
    jobs = [what for act, what in world.history if act == "submit"]
    for act, what in world.history:
        snapshot = takes_place(snapshot, act, what)
        scheduler.follow(snapshot, policy)
        for job in data.draw(st.lists(st.sampled_from(jobs), max_size=2)) if jobs else ():
            new = replace(job, id="new", submitted_at=NOW)
            warm = outlook(snapshot, policy, new, scheduler.decide_with(queued(new), NOW))
            assert warm == preview(snapshot, policy, NOW, new)
        decision = scheduler.decide(NOW)
        assert decision == run_cycle(snapshot, policy, NOW), "asking changed something"
        snapshot = stopped(apply(snapshot, decision))


@random_worlds
@given(worlds(), st.data())
def test_safety_it_takes_up_another_cluster(world, data):
    """Queues and nodes change under it: as if they had always been so."""
    scheduler = Scheduler(world.snapshot, world.policy)
    snapshot = world.snapshot
    for act, what in world.history:
        snapshot = takes_place(snapshot, act, what)
        if data.draw(st.integers(0, 3)) == 0:
            queues = tuple(replace(queue, limit=None) for queue in reversed(snapshot.queues))
            snapshot = replace(snapshot, queues=queues)
        if data.draw(st.integers(0, 3)) == 0:
            nodes = (*snapshot.nodes[1:], replace(snapshot.nodes[0], devices=snapshot.nodes[0].devices[:1]))
            snapshot = replace(snapshot, nodes=nodes)
        scheduler.follow(snapshot, world.policy)
        decision = scheduler.decide(NOW)
        assert decision == run_cycle(snapshot, world.policy, NOW)
        snapshot = stopped(apply(snapshot, decision))


@random_worlds
@given(worlds())
def test_safety_explaining_changes_no_instruction(world):
    snapshot = world.snapshot
    scheduler = Scheduler(snapshot, world.policy)
    for act, what in world.history:
        snapshot = takes_place(snapshot, act, what)
        scheduler.follow(snapshot, world.policy)
        decision = scheduler.decide(NOW)
        silent = scheduler.decide(NOW, explain=False)
        assert (silent.instructions, silent.pending) == (decision.instructions, ())
        snapshot = stopped(apply(snapshot, decision))
