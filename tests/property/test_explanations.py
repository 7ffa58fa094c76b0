"""What people are told is true, in random clusters: see `tests.explanations`."""

from hypothesis import given

from tests.builders import NOW, apply, stopped
from tests.explanations import explained
from tests.property.clusters import World, places, worlds, worlds_with_cores
from tests.property.histories import happens, random_worlds


@random_worlds
@given(worlds())
def test_what_is_told_is_true_and_what_would_help_helps(world):
    tell(world)


@random_worlds
@given(worlds_with_cores())
def test_it_is_where_processors_are_scarce_too(world):
    tell(world)


@random_worlds
@given(places())
def test_it_is_where_nodes_count_memory_and_stand_in_racks(world):
    tell(world)


def tell(world: World) -> None:
    snapshot = world.snapshot
    for act, what in world.history:
        snapshot = happens(snapshot, act, what)
        snapshot = stopped(apply(snapshot, explained(snapshot, world.policy, NOW)))
