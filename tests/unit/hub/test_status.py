"""The events of a start reach each viewer, and a viewer who goes leaves nothing behind."""

import asyncio
from contextlib import aclosing

import pytest

from jupyter_gq.hub.admission.status import SpawnStatus, StatusBoard

pytestmark = pytest.mark.asyncio


class Events:
    """A stream with one event, that waits for ever then."""

    def __init__(self):
        self.waits, self.closed = asyncio.Event(), False

    async def __call__(self):
        try:
            yield {"message": "first"}
            self.waits.set()
            await asyncio.Event().wait()
        finally:
            self.closed = True


async def relay(board, events, seen):
    async with aclosing(events()) as source, aclosing(board.relay_during("starting", source)) as shown:
        async for event in shown:
            seen.append(event)


@pytest.fixture
def board():
    found = StatusBoard()
    found.show(SpawnStatus(step="starting"))
    return found


async def test_a_viewer_who_goes_while_the_start_says_nothing_is_let_go(board):
    events, seen = Events(), []
    viewer = asyncio.create_task(relay(board, events, seen))
    await events.waits.wait()
    viewer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await viewer
    assert events.closed
    assert seen == [{"message": "first"}]


async def test_the_events_end_with_the_step(board):
    events, seen = Events(), []
    viewer = asyncio.create_task(relay(board, events, seen))
    await events.waits.wait()
    board.show(SpawnStatus(step="ended"))
    await viewer
    assert events.closed
