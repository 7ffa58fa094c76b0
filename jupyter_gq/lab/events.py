"""One stream of news from the service to the browser: jupyter_events, so that a page listens and need not poll."""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import asdict
from logging import Logger

from jupyter_gq.client.http import ServiceClient, ServiceError, ServiceUnavailable
from jupyter_gq.client.models import ServiceEvent

from .answers import ConnectionNotice
from .event_schemas import SERVICE_ID
from .jupyter_parts import EventBus

AVAILABLE = "The GPU scheduler can be reached."
UNAVAILABLE = (
    "The GPU scheduler cannot be reached. It may be restarting; this is tried again by itself. Jobs that run go on."
)
#: Pause before the next attempt: from, at most, in seconds. It doubles, and half of it is left to chance, so that the
#: servers of a whole Hub do not come back in the same moment.
FIRST_PAUSE, LAST_PAUSE = 0.5, 5.0


class EventRelay:
    """Follows the service's events for as long as this server runs, and knows whether the service can be reached.

    `listen` is called with each event, after it was handed on. A change of the connection is one log line and one
    event of kind "connection", not one for each attempt.
    """

    def __init__(
        self, client: ServiceClient, bus: EventBus, listen: Callable[[ServiceEvent], None], log: Logger
    ) -> None:
        self._client, self._bus, self._listen, self._log = client, bus, listen, log
        self._last_id: int | None = None
        #: None before the first attempt has ended.
        self.available: bool | None = None
        #: For a person: why it is not.
        self.message = "Connecting to the GPU scheduler."

    async def run(self) -> None:
        """Read, and connect again when that ends. Ends by cancellation only."""
        pause = FIRST_PAUSE
        while True:
            try:
                await self._follow()
            except ServiceError as error:
                pause = FIRST_PAUSE if self.available else pause
                lost = isinstance(error, ServiceUnavailable)
                self._connection(False, UNAVAILABLE if lost else error.problem.message, error)
            except Exception:  # noqa: BLE001 - the last guard: without it the page would wait for news for ever
                self._log.exception("the news of the GPU scheduler could not be read")
                self._connection(False, "The news of the GPU scheduler could not be read; see the log of this server.")
            await asyncio.sleep(pause * (0.5 + secrets.randbelow(500) / 1000))
            pause = min(LAST_PAUSE, pause * 2)

    async def _follow(self) -> None:
        async with aclosing(self._client.events(self._last_id, self._opened)) as events:
            async for event in events:
                if event.id is not None:
                    self._last_id = event.id
                self._bus.emit(schema_id=SERVICE_ID, data={"kind": event.kind, "data": event.data})
                self._listen(event)

    def _opened(self) -> None:
        self._connection(True, AVAILABLE)

    def _connection(self, available: bool, message: str, why: object = None) -> None:
        changed = available is not self.available
        self.available, self.message = available, message
        if not changed:
            return
        if available:
            self._log.info("connected to the GPU scheduler at %s", self._client.url)
        else:
            self._log.warning("no connection to the GPU scheduler: %s", why or message)
        notice = ConnectionNotice(available=available, message=message)
        self._bus.emit(schema_id=SERVICE_ID, data={"kind": "connection", "data": asdict(notice)})
