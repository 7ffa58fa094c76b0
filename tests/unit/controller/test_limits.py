"""Limits on what one user and one queue may have at one time: one more is refused with the numbers."""

import pytest

from jupyter_gq.domain.errors import LimitReached

from .world import ADMIN, ANN, BOB, CAROL

pytestmark = pytest.mark.asyncio


async def test_a_user_has_so_many_jobs_that_wait_and_run_and_the_others_go_on(world):
    world.settings.change(max_jobs_per_user=2)
    first = world.send(ANN, "vision")
    world.send(ANN, "vision")
    await world.step(2)
    with pytest.raises(LimitReached, match="You have 2 jobs that wait or run, and at most 2 are possible"):
        world.send(ANN, "vision")
    world.send(CAROL, "vision")
    world.controller.jobs.cancel(ANN, first)
    await world.step(10)
    world.send(ANN, "vision")


async def test_a_queue_has_so_many_jobs(world):
    world.settings.change(max_jobs_per_queue=2)
    for who in (ANN, CAROL):
        world.send(who, "vision")
    with pytest.raises(LimitReached, match="The queue 'vision' has 2 jobs that wait or run, and at most 2"):
        world.send(ANN, "vision")
    world.send(BOB, "nlp")


async def test_a_user_has_so_many_streams_and_a_closed_one_counts_no_more(world):
    world.settings.change(max_streams_per_user=2)
    streams = [world.controller.events.subscribe(ANN, None) for _ in range(2)]
    with pytest.raises(LimitReached, match="You have 2 open event streams, and at most 2 are possible"):
        world.controller.events.subscribe(ANN, None)
    world.controller.events.subscribe(ADMIN, None)
    streams[0].close()
    world.controller.events.subscribe(ANN, None)
