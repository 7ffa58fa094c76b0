"""Carries the spool to the service, in order, for as long as it takes; says every few seconds that the run lives.

A service that is down costs nothing but time: pieces wait in the spool. A gap is never sent over: what the service
says that it has decides what is sent next.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jupyter_gq.client.problems import ServiceError, ServiceUnavailable

from .spool import Spool

log = logging.getLogger(__name__)

#: Seconds between two signs of life.
HEARTBEAT = 2.0
#: Seconds to wait after a failure: first, most.
FIRST_WAIT, LONGEST_WAIT = 0.25, 5.0
#: Seconds to wait when the service does not want this job's pieces.
UNWANTED_WAIT = 30.0
_UNWANTED = frozenset({401, 403, 404})
#: An answer that is none of the service's: some proxy on the way sent it.
_STRANGE = (ValueError, KeyError, TypeError)


#: What the code says of how far it is.
Progress = Callable[[], tuple[float | None, str] | None]
#: When its state was last saved.
SavedAt = Callable[[], float | None]


def _never() -> None:
    return None


class Channel(Protocol):
    """What is needed of `client.delivery.Delivery`."""

    async def send(self, events: Sequence[dict[str, Any]]) -> int:
        """Send pieces; return up to which number the service has them."""

    async def heartbeat(
        self, run: int, fraction: float | None = None, text: str | None = None, saved_at: float | None = None
    ) -> None:
        """Say that the run lives."""


class Courier:
    """Delivers one job's pieces."""

    def __init__(self, spool: Spool, channel: Channel) -> None:
        self._spool, self._channel = spool, channel
        self._more = asyncio.Event()
        self._changed = asyncio.Event()
        #: Up to which number the service has the pieces; 0 until it said so.
        self.stored = 0
        #: The service does not know this job (any more), or not this token.
        self.unwanted = False
        self._failures = 0
        self._given_up = False

    @property
    def done(self) -> bool:
        """The service has everything."""
        return self.stored >= self._spool.last

    def notice(self) -> None:
        """There is something new in the spool."""
        self._more.set()

    async def ask(self, seconds: float) -> None:
        """Learn what the service has, if it says so in this time."""
        try:
            async with asyncio.timeout(seconds):
                self.stored = await self._channel.send([])
        except (ServiceError, TimeoutError, *_STRANGE) as error:
            log.info("The service does not say what it has; going by this machine's files: %s", error)
        else:
            self._spool.renumber_after(self.stored)

    async def run(self) -> None:
        """Deliver until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            while not self.done:
                wait = await self._send_some()
                await asyncio.sleep(wait)

    async def finish(self, seconds: float) -> bool:
        """Wait until the service has everything, but not longer than this; True when it has."""
        self.notice()
        try:
            async with asyncio.timeout(seconds):
                while not (self.done or self.unwanted or self._given_up):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
        return self.done

    def give_up(self) -> None:
        """Whoever waits in `finish` need not wait any longer."""
        self._given_up = True
        self._changed.set()

    async def beat(self, run: int, progress: Progress, saved_at: SavedAt = _never) -> None:
        """Say that this run lives, how far it is, and when its state was saved, until cancelled."""
        while True:
            await self.beat_once(run, progress, saved_at)
            await asyncio.sleep(HEARTBEAT)

    async def beat_once(self, run: int, progress: Progress, saved_at: SavedAt = _never) -> None:
        """Say it now. A failure does not matter: the next beat comes, and `run` reports it."""
        fraction, text = progress() or (None, None)
        with contextlib.suppress(ServiceError):
            await self._channel.heartbeat(run, fraction, text, saved_at())

    async def _send_some(self) -> float:
        """Send a batch; return for how many seconds to wait before the next."""
        try:
            pieces = self._spool.read(self.stored)
            stored = await self._channel.send(pieces)
        except ServiceError as error:
            self.unwanted = not isinstance(error, ServiceUnavailable) and _is_final(error)
            wait = self._failed(error)
            return UNWANTED_WAIT if self.unwanted else wait
        except (OSError, *_STRANGE) as error:
            return self._failed(error)
        finally:
            self._changed.set()
        if self._failures:
            log.info("The service answers again after %d attempts.", self._failures)
        self._failures, self.unwanted = 0, False
        if stored < self.stored and pieces and pieces[0]["seq"] > stored + 1:
            log.warning("The service has pieces up to %d only; sending again from there.", stored)
        stuck = stored == self.stored
        self.stored = stored
        return LONGEST_WAIT if stuck else 0

    def _failed(self, error: Exception) -> float:
        if self._failures == 0:
            log.warning("Output is kept here for now: %s", error)
        self._failures += 1
        return min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(self._failures - 1, 10))


def _is_final(error: ServiceError) -> bool:
    """The service itself says that it does not want this, not a proxy in front of one that starts."""
    return error.status in _UNWANTED and error.problem.code != "unexpected_answer"
