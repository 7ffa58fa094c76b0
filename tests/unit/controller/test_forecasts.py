"""Waiting jobs are told when they will probably start, and the service learns from what happened."""

import asyncio

import pytest

from jupyter_gq.client.models import JobChange
from jupyter_gq.controller.loop import forecasts
from jupyter_gq.controller.loop.forecasts import LONGEST_DELAY
from tests.patience import scaled

from .world import ANN, World

pytestmark = pytest.mark.asyncio


async def finish(world: World, job: str) -> None:
    world.backend.end(job)
    await world.step(2)


async def one_after_the_other(world: World, seconds: float, times: int = 1) -> None:
    """Jobs that each run for so long, with nobody waiting."""
    for _ in range(times):
        job = world.send(ANN, "vision", "1")
        await world.step(2)
        world.clock.forward(seconds - 2)
        await finish(world, job)


async def test_a_waiting_job_is_told_when_it_will_probably_start(world: World):
    await one_after_the_other(world, 600, times=5)
    world.send(ANN, "vision", "1")
    await world.step(3)
    now = world.clock.now()
    waits = world.send(ANN, "vision", "1")
    await world.step(2)
    told = world.job(waits).expected_start
    assert told is not None
    assert told.p50 - now == pytest.approx(600, abs=10)
    assert told.p90 > told.p50
    assert told.outcomes == 0


async def test_what_its_owner_expects_counts_more_than_history(world: World):
    await one_after_the_other(world, 600, times=5)
    world.send(ANN, "vision", "1", expected_seconds=5000)
    await world.step(3)
    waits = world.send(ANN, "vision", "1")
    await world.step(2)
    assert world.job(waits).expected_start.p50 - world.clock.now() == pytest.approx(5000, abs=10)


async def test_no_job_is_expected_to_run_longer_than_its_maximum_running_time(world: World):
    world.send(ANN, "vision", "1", expected_seconds=5000, max_seconds=1000)
    await world.step(3)
    waits = world.send(ANN, "vision", "1")
    await world.step(2)
    assert world.job(waits).expected_start.p50 - world.clock.now() == pytest.approx(1000, abs=10)


async def test_nothing_is_said_of_a_job_from_the_moment_it_is_held(world: World):
    world.send(ANN, "vision", "1")
    await world.step(3)
    waits = world.send(ANN, "vision", "1")
    await world.step(2)
    assert world.job(waits).expected_start is not None
    held = world.controller.job_changes.change(ANN, waits, JobChange(held=True))
    assert (held.position, held.expected_start) == (None, None)


async def test_nothing_is_said_of_what_runs_or_was_cancelled(world: World):
    runs = world.send(ANN, "vision", "1")
    await world.step(3)
    waits = world.send(ANN, "vision", "1")
    await world.step(2)
    assert world.job(waits).expected_start is not None
    assert world.job(runs).expected_start is None
    world.controller.jobs.cancel(ANN, waits)
    await world.step(2)
    assert world.job(waits).expected_start is None


async def test_durations_and_outcomes_outlive_a_restart(world: World):
    for _ in range(25):
        first = world.send(ANN, "vision", "1")
        await world.step(2)
        second = world.send(ANN, "vision", "1")
        await world.step(2)
        world.clock.forward(600)
        await finish(world, first)
        world.clock.forward(600)
        await finish(world, second)
    world.restart()
    world.send(ANN, "vision", "1")
    await world.step(2)
    waits = world.send(ANN, "vision", "1")
    await world.step(2)
    told = world.job(waits).expected_start
    assert told.outcomes >= 20
    assert told.p50 - world.clock.now() == pytest.approx(600, rel=0.1)


async def test_a_forecast_waits_for_a_step_in_which_nothing_happens_but_not_for_ever(world: World):
    for passed, due in ((0, False), (LONGEST_DELAY, True)):
        looking, job = world.controller.forecasts, world.send(ANN, "vision", "1")
        await world.controller.step()  # it is launched
        assert not looking._due.is_set()
        world.clock.forward(passed)
        await world.controller.step()  # it runs
        assert looking._due.is_set() is due
        await world.controller.step()
        assert looking._due.is_set()
        await finish(world, job)


async def test_a_forecast_that_failed_is_made_again_though_nothing_changes(world: World, monkeypatch):
    tries, real = [], forecasts.forecast

    def fails_once(*given, **named):
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("a defect")
        return real(*given, **named)

    monkeypatch.setattr(forecasts, "forecast", fails_once)
    monkeypatch.setattr(forecasts, "EVERY", 0)
    world.send(ANN, "vision", "1")
    waits = world.send(ANN, "vision", "1")
    for _ in range(4):
        await world.controller.step()
        world.clock.forward(1)
    making = asyncio.create_task(world.controller.forecasts.run())
    async with asyncio.timeout(scaled(20)):
        while world.job(waits).expected_start is None:
            await asyncio.sleep(0.01)
    making.cancel()
    assert len(tries) == 2
