"""A wall clock that is set, or a machine that slept, takes nothing from anybody."""

import contextlib

import pytest

from jupyter_gq.client.models import Heartbeat
from jupyter_gq.domain.mentions import reveal
from tests.fakes import NeverStops, PlaceIsTaken

from .test_activity import spend
from .world import ANN, BOB, CAROL, World

pytestmark = pytest.mark.asyncio

HOURS = 3 * 3600.0
JUMPS = {
    "set forward": lambda clock: clock.set(HOURS),
    "set back": lambda clock: clock.set(-HOURS),
    "slept": lambda clock: clock.sleep(HOURS),
}
jumps = pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)


@jumps
async def test_a_waiting_ticket_does_not_lapse(world: World, jump):
    world.ask(ANN, "0.5")
    await world.start_server(BOB, "0.25")
    world.ask(CAROL, "0.5")
    await world.step()
    jump(world.clock)
    await world.step(2, seconds=10)
    assert [each.phase for each in world.controller.tickets.list_notebooks(CAROL).notebooks] == ["waiting"]
    await world.step(2, seconds=40)
    assert world.controller.tickets.list_notebooks(CAROL).notebooks == []


@jumps
async def test_a_running_job_does_not_reach_its_limit(world: World, jump):
    job = world.send(ANN, "vision", max_seconds=3600)
    await world.step(3)
    jump(world.clock)
    await world.step(3)
    assert world.job(job).phase == "running"
    world.restart()
    await world.step(3, seconds=1000)
    assert world.job(job).phase == "running"
    await world.step(4, seconds=1000)
    assert world.job(job).phase == "cancelled"


@jumps
async def test_a_forecast_does_not_learn_a_jump_as_a_wait(world: World, jump):
    runs = world.send(ANN, "vision", "1", expected_seconds=600)
    await world.step(3)
    waits = world.send(ANN, "vision", "1")
    await world.step(2)
    told, now = world.job(waits).expected_start, world.clock.now()
    jump(world.clock)
    jumped = world.clock.now() - now
    await world.step()
    assert world.job(waits).expected_start.p90 - jumped == pytest.approx(told.p90, abs=10)
    world.clock.forward(600)
    world.backend.end(runs)
    await world.step(3)
    assert world.job(waits).phase == "running"
    ((expected, ratio),) = world.sql.setting("forecast_outcomes")["outcomes"]
    assert (expected, ratio) == (pytest.approx(600, abs=10), pytest.approx(1, rel=0.1))


@jumps
async def test_an_active_notebook_is_not_called_idle(world: World, jump):
    await world.start_server(ANN, "0.5")
    await world.start_server(BOB, "0.25")
    world.ask(CAROL, "0.5")
    await spend(world, 900)
    jump(world.clock)
    await spend(world, 120)
    assert world.notebook(BOB).warning is None
    await spend(world, 2000)
    assert world.controller.tickets.list_notebooks(BOB).notebooks == []


@jumps
async def test_a_report_that_comes_before_the_jump_is_seen_does_not_make_the_notebook_used_for_hours(
    world: World, jump
):
    await world.start_server(ANN, "0.5")
    await world.start_server(BOB, "0.25")
    world.ask(CAROL, "0.5")
    await spend(world, 900)
    jump(world.clock)
    world.report(BOB, busy=True)
    await spend(world, 120)
    assert world.notebook(BOB).warning is None
    await spend(world, 2000)
    assert world.controller.tickets.list_notebooks(BOB).notebooks == []


@jumps
async def test_a_warning_runs_as_long_as_it_promised(world: World, jump):
    await world.start_server(ANN, "0.5")
    await world.start_server(BOB, "0.25")
    world.ask(CAROL, "0.5")
    await spend(world, 1260)
    assert world.notebook(BOB).warning is not None
    jump(world.clock)
    await spend(world, 300)
    assert world.notebook(BOB).warning is not None
    await spend(world, 660)
    assert world.controller.tickets.list_notebooks(BOB).notebooks == []
    eviction = world.controller.overview.describe_user(BOB).last_eviction
    assert eviction is not None
    assert reveal(eviction.by) == "carol"


@jumps
async def test_a_checkpoint_is_as_old_as_before(world: World, jump):
    job = world.send(ANN, "vision")
    await world.step(3)
    beat = Heartbeat(run=1, saved_at=world.clock.now() - 1)
    world.controller.jobs.record_heartbeat(job, beat)
    now = world.clock.now()
    jump(world.clock)
    jumped = world.clock.now() - now
    world.controller.jobs.record_heartbeat(job, beat)
    await world.step(2)
    for _ in range(2):
        world.controller.jobs.record_heartbeat(job, beat)
        assert world.job(job).saved_at == now - 1 + jumped


@jumps
async def test_a_run_that_stops_is_not_told_again_before_its_grace_is_over(tmp_path, jump):
    with contextlib.closing(World(tmp_path, backend=NeverStops)) as world:
        job = world.send(ANN, "vision")
        await world.step(3)
        world.controller.jobs.cancel(ANN, job)
        await world.step()
        jump(world.clock)
        await world.step(2)
        assert len(world.backend.stops) == 1
        await world.step(3, seconds=10)
        assert len(world.backend.stops) == 2


async def test_a_service_that_was_held_up_between_two_readings_sees_no_jump(world: World, caplog):
    job = world.send(ANN, "vision")
    await world.step(3)
    began = world.job(job).running_since
    awake, later = world.clock.awake(), world.clock.now() + 30
    readings = iter([awake, awake + 30])
    world.clock.awake, world.clock.now = lambda: next(readings), lambda: later
    world.controller._clock_jumps.follow()
    assert world.job(job).running_since == began
    assert "the clock was set" not in caplog.text


async def test_a_pause_ends_in_time_after_the_clock_began_in_1970_and_was_set_right(tmp_path):
    with contextlib.closing(World(tmp_path, backend=PlaceIsTaken)) as world:
        world.send(ANN, "vision")
        await world.step(2)
        assert len(world.backend.launches) == 1
        years = 50 * 365 * 86400.0
        world.clock.set(-years)
        world.restart()
        await world.step(2)
        world.clock.set(years)
        await world.step(3, seconds=10)
        assert len(world.backend.launches) == 2
