"""A service acts only while it leads, its store answers and nobody has taken over; then it goes on where it was."""

import asyncio
import logging

import pytest

from jupyter_gq.client.models import Heartbeat
from jupyter_gq.controller.loop.store_outage import StoreOutage
from jupyter_gq.controller.records.changes import Change
from jupyter_gq.domain.errors import NotLeading, StoreAway, StoreUnavailable, Superseded
from jupyter_gq.domain.states import State
from jupyter_gq.store.sql import SqlStore
from tests.fakes import StoreGoesAway, StoreLosesAnAnswer
from tests.patience import eventually, scaled

from .world import ANN, BOB, World, a_submission

pytestmark = pytest.mark.asyncio


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    world.store = StoreGoesAway(world.sql)
    world.restart()
    yield world
    world.close()


@pytest.fixture
def forgetful(world):
    """Its store can lose an answer."""
    world.store = StoreLosesAnAnswer(world.sql)
    world.restart()
    return world


def deeds(world):
    return len(world.backend.launches), len(world.backend.stops), len(world.servers.launches)


async def test_nothing_is_started_or_stopped_while_the_store_is_away_and_then_it_goes_on(world):
    running = world.send(ANN, "vision")
    await world.step(2)
    world.controller.jobs.cancel(ANN, running)
    waiting = world.send(BOB, "nlp")
    before = deeds(world)
    world.store.away = True
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await world.step()
    assert deeds(world) == before
    assert world.job(running).phase == "cancelling", "requests are answered from what is known"
    world.store.away = False
    await world.step(3)
    assert world.job(running).phase == "cancelled"
    await world.step(2)
    assert world.job(waiting).phase == "running"


async def test_it_is_ready_once_it_has_looked_around_and_while_the_store_answers(world):
    assert "just started" in world.controller.status.explain_unready()
    await world.step()
    assert world.controller.status.explain_unready() == ""
    world.store.away = True
    with pytest.raises(StoreUnavailable):
        await world.step()
    assert world.controller.status.explain_unready() == (
        "The scheduler's database 'jobs' at db does not answer (connection refused). The service tries again."
    )
    world.store.away = False
    await world.step()
    assert world.controller.status.explain_unready() == ""


async def test_what_was_kept_although_the_answer_was_lost_is_found(forgetful):
    world = forgetful
    await world.step()
    world.store.losing = True
    with pytest.raises(StoreUnavailable):
        world.controller.jobs.submit(ANN, a_submission(), "key")
    await world.step(3)
    again, created = world.controller.jobs.submit(ANN, a_submission(), "key")
    assert (again.phase, created) == ("running", False)
    assert len(world.backend.launches) == 1
    assert again.id in world.bundles.kept


async def test_listeners_read_everything_anew_when_it_is_not_known_what_was_kept(forgetful):
    world = forgetful
    await world.step()
    listener = world.controller.events.subscribe(ANN, None)
    world.store.losing = True
    with pytest.raises(StoreUnavailable):
        world.send(ANN, "vision")
    await world.step()
    async with asyncio.timeout(scaled(30)):
        assert (await anext(listener)).kind == "reset"


@pytest.mark.parametrize("has_saved_before", [False, True])
async def test_a_checkpoint_of_which_the_store_was_not_told_is_known_again_after_its_outage(
    forgetful, has_saved_before
):
    world = forgetful
    await world.step()
    job = world.send(ANN, "vision")
    await world.step(3)
    start = world.clock.now()
    if has_saved_before:
        world.controller.jobs.record_heartbeat(job, Heartbeat(run=1, saved_at=start))
        world.controller._context.records.commit([Change(workload=job)])
    world.clock.forward(10)
    beat = Heartbeat(run=1, saved_at=start + 5)
    world.controller.jobs.record_heartbeat(job, beat)
    world.store.losing = True
    with pytest.raises(StoreUnavailable):
        world.send(BOB, "nlp")
    await world.step(2)
    assert world.job(job).saved_at == (start if has_saved_before else None)
    world.controller.jobs.record_heartbeat(job, beat)
    assert world.job(job).saved_at == start + 5
    assert world.job(job).pause.way == "checkpoint"


@pytest.mark.parametrize("steps", range(5))
async def test_whatever_save_loses_its_answer_nothing_is_started_twice_and_memory_is_as_the_store(forgetful, steps):
    world = forgetful
    first = world.send(ANN, "vision")
    await world.step(steps)
    world.controller.jobs.cancel(ANN, first)
    second = world.send(BOB, "nlp")
    world.store.losing = True
    while world.store.losing:
        try:
            await world.step()
        except StoreUnavailable:
            break
    await world.step(8)
    assert (world.job(first).phase, world.job(second).phase) == ("cancelled", "running")
    assert all(count == 1 for count in world.backend.copies.values())
    known = {record.workload.id: record for record in world.controller._context.records.unfinished()}
    assert {record.workload.id: record for record in world.sql.unfinished()} == known


async def test_the_loop_says_once_that_the_store_is_away_and_ends_when_another_took_over(world, caplog):
    caplog.set_level(logging.INFO)
    world.store.away = True
    loop = asyncio.create_task(world.controller.run())
    async with asyncio.timeout(scaled(60)):
        while world.store.asked < 6:
            world.controller.wake()
            await asyncio.sleep(0.01)
        told = [entry.message for entry in caplog.records if "connection refused" in entry.message]
        assert told == [
            "nothing is started or stopped for now. The scheduler's database 'jobs' at db does not answer "
            "(connection refused). The service tries again."
        ]
        other = SqlStore(world.url)
        other.take_over()
        other.close()
        world.store.away = False
        world.controller.wake()
        with pytest.raises(Superseded):
            await loop


async def test_where_another_may_reach_the_store_the_loop_ends_when_it_was_away_for_too_long(world):
    """Counted from the first question without an answer since the last one that had one."""
    world.controller.outage = StoreOutage(60, world.clock.now)
    world.controller.__post_init__()
    job = world.send(ANN, "vision")
    await world.step(2)
    for _ in range(2):
        world.store.away = True
        for _ in range(6):
            with pytest.raises(StoreUnavailable):
                await world.step(seconds=10)
            world.clock.forward(10)
        world.store.away = False
        await world.step()
    world.store.away = True
    loop = asyncio.create_task(world.controller.run())
    async with asyncio.timeout(scaled(60)):
        while not loop.done():
            world.clock.forward(1)
            world.controller.wake()
            await asyncio.sleep(0.01)
    with pytest.raises(StoreAway, match=r"has not reached its database for .* s, so it steps back"):
        await loop
    assert world.job(job).phase == "running"


async def test_where_there_is_one_service_it_waits_for_ever(world):
    world.store.away = True
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await world.step()
        world.clock.forward(10**6)


async def test_who_was_replaced_starts_and_stops_nothing(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    world.controller.jobs.cancel(ANN, job)
    before = deeds(world)
    other = SqlStore(world.url)
    other.take_over()
    other.close()
    with pytest.raises(Superseded):
        await world.step()
    assert deeds(world) == before
    assert "has taken over" in world.controller.status.explain_unready()


async def test_without_the_lease_nothing_is_started_or_stopped_but_requests_and_outputs_go_on(world):
    leading = [True]
    world.controller.leads = lambda: leading[0]
    world.controller.__post_init__()
    job = world.send(ANN, "vision")
    await world.step(2)
    leading[0] = False
    other = world.send(BOB, "nlp")
    before = deeds(world)
    for _ in range(3):
        with pytest.raises(NotLeading):
            await world.step()
    assert deeds(world) == before
    assert world.controller.status.explain_unready() == "", "only the store decides that"
    assert world.controller.jobs.append_outputs(job, [{"seq": 1, "op": "run"}]) == 1
    world.controller.jobs.cancel(ANN, job)
    leading[0] = True
    await world.step(4)
    assert world.job(other).phase == "running"


async def test_a_lease_that_is_lost_while_it_decides_stops_the_deeds_of_that_step(world):
    asked = []
    world.controller.leads = lambda: asked.append(1) or len(asked) % 2 == 1
    world.controller.__post_init__()
    world.send(ANN, "vision")
    with pytest.raises(NotLeading):
        await world.step()
    assert len(asked) == 2
    assert deeds(world) == (0, 0, 0)


async def test_nobody_changes_what_may_be_otherwise_in_the_store_before_it_was_read_anew(forgetful):
    """The database answers again, and a request comes before the step that reads."""
    world = forgetful
    job = world.send(ANN, "vision")
    await world.step()
    world.store.losing = True
    with pytest.raises(StoreUnavailable):
        world.controller.jobs.cancel(ANN, job)
    kept = world.sql.get(job)
    assert kept.workload.state is State.STOPPING
    world.clock.forward(3)
    with pytest.raises(StoreUnavailable, match="closed the connection"):
        world.controller.jobs.cancel(ANN, job)
    assert world.sql.get(job) == kept
    await world.step(4)
    assert world.job(job).phase == "cancelled"


async def test_sweeps_say_in_a_line_that_the_store_is_away(world, caplog):
    caplog.set_level(logging.INFO)
    world.store.away = True
    loops = [asyncio.create_task(each.run()) for each in (world.controller.retention, world.controller.log_limits)]

    def told():
        return [record for record in caplog.records if "it is tried again" in record.getMessage()]

    works = ("the deletion of finished work", "measuring the logs of jobs")
    await eventually(lambda: all(any(work in each.getMessage() for each in told()) for work in works))
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)
    assert all(record.levelname == "INFO" and record.exc_info is None for record in told())
