"""The laws of a cycle where nodes count CPU and memory and stand in racks, and unlike tasks ask for all of that."""

from hypothesis import given

from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.engine import Scheduler
from tests.builders import NOW, apply, stopped
from tests.property.clusters import places
from tests.property.histories import happens, play, random_worlds, told


@random_worlds
@given(places())
def test_safety_laws_hold_and_the_cluster_comes_to_rest(world):
    play(world)


@random_worlds
@given(places())
def test_safety_an_applied_decision_is_followed_by_an_empty_one_and_memory_makes_no_difference(world):
    snapshot = world.snapshot
    scheduler = Scheduler(snapshot, world.policy)
    for act, what in world.history:
        before, snapshot = snapshot, happens(snapshot, act, what)
        told(scheduler, before, snapshot)
        decision = run_cycle(snapshot, world.policy, NOW)
        assert scheduler.decide(NOW) == decision
        before, snapshot = snapshot, apply(snapshot, decision)
        assert run_cycle(snapshot, world.policy, NOW).instructions == ()
        snapshot = stopped(snapshot)
        told(scheduler, before, snapshot)
