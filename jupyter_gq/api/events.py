"""The event stream: server-sent events that a reader can resume.

Guarantees
----------
- Order: events stored after the id that the reader names come first, in order; then each event as it happens.
- Reset: a reader whose position is not known any more gets `reset` and fetches its lists again.
- Heartbeat: something is sent every 15 s, so that both ends notice a dead connection.
- Revocation: the token is checked again at least every 25 s, and the answer about it is at most 30 s old. So a stream
  loses within a minute what its reader lost: it ends without the right to read, and goes on with the reader's present
  rights otherwise.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable

from jupyter_gq.client.models import ServiceEvent
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.controller.events import Subscription
from jupyter_gq.controller.views.mentions import Mentions

from .call import Call, Reply
from .errors import refusal
from .parse import parse_count

#: Seconds between two pieces of the stream at most.
PING = 15.0
#: Seconds between two checks of the token.
RECHECK = 10.0


def follow(call: Call) -> Reply:
    """Answer with a stream of the events that the caller may see, until the caller disconnects; for readers.

    The stream begins after the event in the header Last-Event-ID, or else in the query `after`, or else now. Raises a
    refusal of 422 for a header that is not a whole number, and `LimitReached` for too many streams of the caller.
    """
    after = call.optional_integer("after")
    given = call.headers.get("last-event-id", "").strip()
    if given:
        after = parse_count(given)
        if after is None:
            message = "The header Last-Event-ID must be the whole number of an event, as it was sent."
            raise refusal(422, "invalid_request", message, field="Last-Event-ID")
    subscription = call.services.events.subscribe(call.caller, after)
    return Reply(
        stream=event_stream(subscription, call.services.mentions, call.current_caller),
        media="text/event-stream; charset=utf-8",
        headers={"X-Accel-Buffering": "no"},
    )


async def event_stream(
    subscription: Subscription,
    mentions: Mentions,
    current_caller: Callable[[], Awaitable[Caller | None]],
    ping: float = PING,
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of the stream until the subscription ends or the reader loses the right to read.

    A comment is sent after `ping` seconds without an event. With an event or a comment, the reader's rights are checked
    again if the last check is `RECHECK` seconds old. The subscription is closed in the end.
    """
    elapsed = SystemClock().elapsed
    checked_at = elapsed()
    upcoming: asyncio.Task[ServiceEvent] | None = None
    try:
        yield b"retry: 2000\n: connected\n\n"
        while True:
            upcoming = upcoming or asyncio.create_task(_next(subscription))
            done, _ = await asyncio.wait({upcoming}, timeout=ping)
            if elapsed() - checked_at >= min(RECHECK, 2 * ping):
                checked_at = elapsed()
                caller = await current_caller()
                if caller is None:
                    return
                subscription.change_caller(caller)
            if not done:
                yield b": ping\n\n"
                continue
            finished, upcoming = upcoming, None
            try:
                event = finished.result()
            except StopAsyncIteration:
                return
            yield encode(event, lambda data: mentions.render(data, subscription.caller))
    finally:
        if upcoming is not None:
            upcoming.cancel()
        subscription.close()


async def _next(subscription: Subscription) -> ServiceEvent:
    return await anext(subscription)


def encode(event: ServiceEvent, render: Callable[[str], str]) -> bytes:
    """Return the text of one event; `data` is one line of JSON, since JSON has no raw line ends.

    `render` returns the JSON text with the names that the reader may see.
    """
    number = "" if event.id is None else f"id: {event.id}\n"
    data = render(json.dumps(event.data, ensure_ascii=False))
    return f"event: {event.kind}\n{number}data: {data}\n\n".encode("utf-8", "replace")
