"""Past use is counted by the service, kept across restarts, and nothing at all while no half-life is set."""

import pytest

from jupyter_gq.controller.loop.past_usage import KEY

from .world import ANN, World, story_settings

pytestmark = pytest.mark.asyncio

HALF_LIFE = 1000


def remembering(**fields):
    return story_settings(Fairness={"half_life": HALF_LIFE, **fields})


def known(world):
    return dict(world.controller._context.snapshot().usage)


async def test_what_is_held_is_counted_in_steps(tmp_path):
    world = World(tmp_path, settings=remembering())
    world.send(ANN, "vision", "0.5")
    await world.step(6, seconds=10)
    assert known(world) == {}
    await world.step(6, seconds=10)
    assert known(world)["vision"] == pytest.approx(50, rel=0.1)


async def test_it_outlives_the_service(tmp_path):
    world = World(tmp_path, settings=remembering())
    world.send(ANN, "vision", "0.5")
    await world.step(12, seconds=10)
    before = known(world)
    assert before
    world.restart()
    await world.step()
    assert known(world) == before


async def test_a_first_start_costs_at_once(tmp_path):
    world = World(tmp_path, settings=remembering(entry_cost=600))
    world.send(ANN, "vision", "0.5")
    await world.step(12, seconds=10)
    assert known(world)["vision"] == pytest.approx(0.5 * 600 * 0.93 + 0.5 * 97, rel=0.05)


async def test_without_a_half_life_nothing_is_kept(tmp_path):
    world = World(tmp_path)
    world.send(ANN, "vision", "0.5")
    await world.step(12, seconds=10)
    assert known(world) == {}
    assert world.store.setting(KEY) is None
