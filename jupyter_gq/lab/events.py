"""The relay of the service's events to the browser: by jupyter_events, so that a page need not poll.

See docs/decisions/0006-send-events-through-the-jupyter-server.md.
"""

import asyncio
import secrets
from contextlib import aclosing
from dataclasses import asdict
from logging import Logger
from typing import Protocol

from jupyter_gq.client.connection.http import ServiceClient, ServiceError, ServiceUnavailable
from jupyter_gq.client.models import ServiceEvent

from .answers import ConnectionNotice
from .event_schemas import SERVICE_ID
from .jupyter_parts import EventBus

AVAILABLE = "The GPU scheduler can be reached."
UNAVAILABLE = (
    "The GPU scheduler cannot be reached. It may be restarting; this server keeps trying. Running jobs continue."
)
#: Backoff before the next attempt in seconds: first pause, longest pause. The pause doubles, and half of it is random,
#: so that the servers of a Hub do not connect again all at once.
FIRST_PAUSE, LAST_PAUSE = 0.5, 5.0


class EventListener(Protocol):
    """An object of this server that needs the events of the service."""

    def note_event(self, event: ServiceEvent) -> None:
        """Take note of an event."""

    def note_connection(self, available: bool) -> None:
        """Take note that the connection to the service was lost or is there again."""


class EventRelay:
    """The relay of the service's events, which also records whether the service can be reached.

    A change of the connection causes one log line and one event of kind "connection", not one for each attempt.
    """

    def __init__(self, client: ServiceClient, bus: EventBus, listener: EventListener, log: Logger) -> None:
        """Create a relay to `bus`; `listener` hears each event after it was emitted."""
        self._client, self._bus, self._listener, self._log = client, bus, listener, log
        self._last_id: int | None = None
        #: Whether the service can be reached; None before the first attempt has ended.
        self.available: bool | None = None
        #: Sentence about the connection for a person.
        self.message = "Connecting to the GPU scheduler."

    async def run(self) -> None:
        """Relay events until cancelled; connect again, with backoff, whenever the stream ends or fails."""
        pause = FIRST_PAUSE
        while True:
            try:
                await self._follow()
            except ServiceError as error:
                pause = FIRST_PAUSE if self.available else pause
                lost = isinstance(error, ServiceUnavailable)
                self._set_connection(False, UNAVAILABLE if lost else error.problem.message, error)
            except Exception:  # noqa: BLE001 - the last guard: without it the page would wait for events for ever
                self._log.exception("the events of the GPU scheduler could not be read")
                message = "The events of the GPU scheduler could not be read; the log of this server has more."
                self._set_connection(False, message)
            await asyncio.sleep(pause * (0.5 + secrets.randbelow(500) / 1000))
            pause = min(LAST_PAUSE, pause * 2)

    async def _follow(self) -> None:
        """Emit the events of one stream of the service and pass them to `listen`, until the stream ends.

        The stream continues after the last event seen. Raises `ServiceError` if the service refuses or is away.
        """
        async with aclosing(self._client.events(self._last_id, self._on_connected)) as events:
            async for event in events:
                if event.id is not None:
                    self._last_id = event.id
                self._bus.emit(schema_id=SERVICE_ID, data={"kind": event.kind, "data": event.data})
                self._listener.note_event(event)

    def _on_connected(self) -> None:
        self._set_connection(True, AVAILABLE)

    def _set_connection(self, available: bool, message: str, why: object = None) -> None:
        """Record whether the service can be reached, with a sentence; log and emit an event if that has changed."""
        changed = available is not self.available
        self.available, self.message = available, message
        if not changed:
            return
        self._listener.note_connection(available)
        if available:
            self._log.info("connected to the GPU scheduler at %s", self._client.url)
        else:
            self._log.warning("no connection to the GPU scheduler: %s", why or message)
        notice = ConnectionNotice(available=available, message=message)
        self._bus.emit(schema_id=SERVICE_ID, data={"kind": "connection", "data": asdict(notice)})
