"""Streams of events, as the product's own client reads them: complete, in order, and nothing of others."""

import asyncio

import pytest

from jupyter_gq.controller.caller import Caller
from tests.patience import scaled

from .world import submission

pytestmark = pytest.mark.asyncio


async def test_events_resume_with_no_gap_and_no_duplicate(people, world, bundle):
    """The stream is cut after every event; what arrives is what an uncut listener sees."""
    ann, root = people["ann"], people["root"]
    uncut = root.events(after=0)
    expected, seen = [], []
    after = 0
    for number in range(3):
        await ann.submit(submission(bundle, name=f"job {number}"))
        await world.steps(1)
    newest = world.store.event_range()[1]
    assert newest > 3
    while not expected or expected[-1] < newest:
        event = await asyncio.wait_for(anext(uncut), scaled(60))
        if event.id is not None:
            expected.append(event.id)
    await uncut.aclose()
    while after < newest:
        cut = ann.events(after=after)
        event = await asyncio.wait_for(anext(cut), scaled(60))
        await cut.aclose()
        assert event.kind != "reset"
        if event.id is not None:
            seen.append(event.id)
            after = event.id
    assert seen == expected
    assert seen == sorted(set(seen))


async def test_events_of_others_do_not_arrive(people, world, bundle):
    opened = asyncio.Event()
    bob, root = people["bob"].events(after=0, on_open=opened.set), people["root"].events(after=0)
    heard = []

    async def listen() -> None:
        async for event in bob:
            heard.append(event)

    listening = asyncio.create_task(listen())
    await asyncio.wait_for(opened.wait(), scaled(60))
    await people["ann"].submit(submission(bundle))
    await world.steps()
    while (await asyncio.wait_for(anext(root), scaled(60))).kind != "job":
        """The admin hears of it."""
    async with asyncio.timeout(scaled(60)):
        while not heard:
            await world.controller.reload_settings()
            world.settings.change()
            await asyncio.sleep(0.02)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    await bob.aclose()
    await root.aclose()
    assert {event.kind for event in heard} == {"queues"}
    assert all(event.data == {} for event in heard)


async def test_a_listener_who_was_away_too_long_gets_a_reset(people, world, bundle):
    for number in range(4):
        await people["ann"].submit(submission(bundle, name=f"job {number}"))
    world.store.prune_events(1)
    for after in (1, 10_000):
        events = people["ann"].events(after=after)
        event = await asyncio.wait_for(anext(events), scaled(60))
        await events.aclose()
        assert event.kind == "reset"


@pytest.mark.parametrize(("cells", "carried"), [(200, True), (201, False)])
async def test_an_event_carries_no_more_than_a_few_hundred_cells(world, bundle, cells, carried):
    cell = bundle["notebook"]["cells"][0]
    ids = [f"cell-{number}" for number in range(cells)]
    bundle["notebook"]["cells"] = [{**cell, "id": each} for each in ids]
    bundle["manifest"]["targets"] = [{"cell_id": each, "source_hash": "0" * 64} for each in ids]
    job, _ = world.controller.jobs.submit(Caller(user="ann", groups=frozenset({"vision"})), submission(bundle), None)
    await world.steps()
    events = [event.payload for event in world.store.events_after(0) if event.kind == "job"]
    assert {event["id"] for event in events} == {job.id}
    assert {"targets" in event for event in events} == {carried}
    assert len(world.controller.jobs.show(Caller(user="ann"), job.id).targets) == cells
