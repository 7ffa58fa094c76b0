"""What listeners hear: all that they may, in order, once; where it cannot be had, that they must ask again."""

import asyncio

import pytest

from jupyter_gq.client.models import Heartbeat
from jupyter_gq.controller.events import MOST_UNREAD
from jupyter_gq.controller.records import records
from tests.fakes import StoreKeepsOldEvents

from .world import ADMIN, ANN, BOB, World

pytestmark = pytest.mark.asyncio


async def heard(subscription):
    """What is there to hear now."""
    events = []
    while True:
        try:
            events.append(await asyncio.wait_for(anext(subscription), 0.01))
        except TimeoutError:
            return events


async def test_each_change_is_heard_by_its_owner_and_by_administrators(world: World):
    ann, bob, root = (world.controller.events.subscribe(caller, None) for caller in (ANN, BOB, ADMIN))
    job = world.send(ANN, "vision")
    await world.step(2)
    of_ann = [event for event in await heard(ann) if event.kind == "job"]
    # One event for all that one step wrote down: its admission, and then its launch.
    assert [event.data["phase"] for event in of_ann] == ["waiting", "starting", "starting", "running"]
    assert {event.data["id"] for event in of_ann} == {job}
    assert [event.id for event in of_ann] == sorted({event.id for event in of_ann})
    assert {event.kind for event in await heard(bob)} == {"queues"}
    assert len([event for event in await heard(root) if event.kind == "job"]) == 4


async def test_the_first_checkpoint_of_a_job_is_heard_since_a_pause_costs_less_from_then_on(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    ann = world.controller.events.subscribe(ANN, None)
    for seconds in (1, 2):
        world.controller.jobs.record_heartbeat(job, Heartbeat(run=1, saved_at=world.clock.now() - 10 + seconds))
    (event,) = await heard(ann)
    assert (event.kind, event.data["pause"]["way"]) == ("job", "checkpoint")


async def test_who_comes_back_hears_what_was_missed(world):
    world.send(ANN, "vision")
    await world.step(2)
    first = world.controller.events.subscribe(ANN, 0)
    events = await heard(first)
    world.restart()
    resumed = await heard(world.controller.events.subscribe(ANN, events[1].id))
    assert [event.id for event in resumed] == [event.id for event in events[2:]]
    assert await heard(world.controller.events.subscribe(BOB, 0)) == []


async def test_who_comes_back_hears_nothing_of_a_job_that_was_deleted_or_is_being_deleted(world):
    deleted, hidden, kept = [world.send(ANN, "vision") for _ in range(3)]
    for job in (deleted, hidden):
        world.controller.jobs.cancel(ANN, job)
    world.controller.job_deletions.delete(ANN, deleted)
    await world.controller.retention.sweep_requested()
    world.controller.job_deletions.delete(ANN, hidden)
    resumed = await heard(world.controller.events.subscribe(ANN, 0))
    assert {event.data["id"] for event in resumed if event.kind == "job"} == {kept}


async def test_who_comes_back_too_late_is_told_to_ask_again(world):
    world.send(ANN, "vision")
    await world.step(2)
    world.sql.prune_events(1)
    assert [event.kind for event in await heard(world.controller.events.subscribe(ANN, 1))] == ["reset"]
    assert [event.kind for event in await heard(world.controller.events.subscribe(ANN, 10_000))] == ["reset"]


async def test_who_reads_too_slowly_is_told_to_ask_again(world):
    slow = world.controller.events.subscribe(ANN, None)
    for n in range(MOST_UNREAD + 5):
        world.controller._context.broker.announce("ann", "job", f"job-{n}", {})
    kinds = [event.kind for event in await heard(slow)]
    assert kinds == ["reset", "job", "job", "job", "job"]


async def test_output_is_mentioned_once_however_often_it_grew(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    listener = world.controller.events.subscribe(ANN, None)
    for seq in range(1, 6):
        world.controller.jobs.append_outputs(job, [{"seq": seq, "op": "run", "state": "start"}])
    (event,) = await heard(listener)
    assert (event.id, event.kind, event.data) == (None, "output", {"job": job, "last_seq": 5})


async def test_a_new_position_is_news_without_being_remembered(world):
    running, waiting, last = world.send(ANN, "vision"), world.send(ANN, "vision"), world.send(ANN, "vision")
    await world.step(2)
    stored = world.sql.event_range()[1]
    listener = world.controller.events.subscribe(ANN, None)
    await world.step(3)
    assert await heard(listener) == []
    world.controller.jobs.cancel(ANN, waiting)
    await world.step()
    news = [event for event in await heard(listener) if event.data.get("id") == last]
    assert [(event.id, event.data["position"]) for event in news] == [(None, 1)]
    assert world.sql.event_range()[1] == stored + 1
    assert world.job(running).phase == "running"


async def test_a_quiet_service_says_nothing(world):
    await world.start_server(ANN, "0.5")
    world.send(ANN, "vision")
    await world.step(3, seconds=6)
    listener = world.controller.events.subscribe(ADMIN, None)
    await world.step(5)
    assert await heard(listener) == []


async def test_closing_ends_the_iteration(world):
    listener = world.controller.events.subscribe(ANN, None)
    waiting = asyncio.create_task(anext(listener, "ended"))
    await asyncio.sleep(0)
    listener.close()
    assert await waiting == "ended"


async def test_the_end_of_the_loop_ends_every_stream(world):
    listener = world.controller.events.subscribe(ANN, None)
    loop = asyncio.create_task(world.controller.run())
    await asyncio.sleep(0.01)
    loop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loop
    assert [event.kind async for event in listener] == []


async def test_memory_and_use_of_a_share_are_passing_news(world):
    await world.start_server(ANN, "0.5")
    await world.step(2, seconds=6)
    (kernel,) = [pids[1] for pids in world.controller._context.pids.values()]
    listener = world.controller.events.subscribe(ANN, None)
    world.probe.used[kernel] = 80
    await world.step(3, seconds=6)
    (event,) = await heard(listener)
    assert (event.id, event.kind) == (None, "notebook")
    assert (event.data["utilisation"], event.data["memory_used_mib"]) == (80, 1024)


async def test_a_job_is_sent_although_old_events_cannot_be_deleted(world, monkeypatch, caplog):
    monkeypatch.setattr(records, "_PRUNE_EVERY", 1)
    world.store = StoreKeepsOldEvents(world.sql)
    world.restart()
    job = world.send(ANN, "vision")
    assert list(world.bundles.kept) == [job]
    await world.step(2)
    assert world.job(job).phase == "running"
    assert "old events could not be deleted; it is tried again later: The disk" in caplog.text
