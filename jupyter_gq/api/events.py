"""The event stream: server-sent events with resume.

Guarantees
----------
1. What is stored after the id that the reader names comes first, in order; then each event as it happens.
2. A reader whose place is not known any more gets `reset` and fetches its lists again.
3. Something is sent every 15 s, so that both sides notice a dead connection.
4. The token is asked about again every 30 s; once it is revoked the stream ends.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable

from jupyter_gq.client.models import ServiceEvent
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.controller.events import Subscription

from .call import Call, Reply
from .errors import refusal

PING = 15.0
ASK_AGAIN = 30.0
_LARGEST_ID = 2**63 - 1


def follow(call: Call) -> Reply:
    """Begin after the header Last-Event-ID, else after `after`, else with now."""
    after = call.optional_integer("after")
    given = call.headers.get("last-event-id", "").strip()
    if given:
        if not (given.isascii() and given.isdecimal() and int(given) <= _LARGEST_ID):
            message = "The header Last-Event-ID must be the whole number of an event, as it was sent."
            raise refusal(422, "invalid_request", message, field="Last-Event-ID")
        after = int(given)
    subscription = call.services.events.subscribe(call.caller, after)
    return Reply(
        stream=event_stream(subscription, call.still_permitted),
        media="text/event-stream; charset=utf-8",
        headers={"X-Accel-Buffering": "no"},
    )


async def event_stream(
    subscription: Subscription, still_permitted: Callable[[], Awaitable[bool]], ping: float = PING
) -> AsyncGenerator[bytes, None]:
    """The bytes of the stream; ends when the subscription does, or when the reader may no longer read."""
    elapsed = SystemClock().elapsed
    asked_at = elapsed()
    upcoming: asyncio.Task[ServiceEvent] | None = None
    try:
        yield b"retry: 2000\n: connected\n\n"
        while True:
            upcoming = upcoming or asyncio.create_task(_next(subscription))
            done, _ = await asyncio.wait({upcoming}, timeout=ping)
            if elapsed() - asked_at >= min(ASK_AGAIN, 2 * ping):
                asked_at = elapsed()
                if not await still_permitted():
                    return
            if not done:
                yield b": ping\n\n"
                continue
            finished, upcoming = upcoming, None
            try:
                event = finished.result()
            except StopAsyncIteration:
                return
            yield encode(event)
    finally:
        if upcoming is not None:
            upcoming.cancel()
        subscription.close()


async def _next(subscription: Subscription) -> ServiceEvent:
    return await anext(subscription)


def encode(event: ServiceEvent) -> bytes:
    """One event as text; JSON has no raw line ends, so `data` is one line."""
    number = "" if event.id is None else f"id: {event.id}\n"
    return f"event: {event.kind}\n{number}data: {json.dumps(event.data)}\n\n".encode()
