"""The uploader: it sends the spool to the service in order, retries until that succeeds, and sends heartbeats.

While the service is down, pieces wait in the spool. The service's answer says which pieces it has and so decides
which are sent next; therefore no gap arises.

One piece never stops those after it: if the service refuses a batch because of its content, the batch is halved until
the defective piece is found, and a notice with the same number is sent in its place.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Sequence
from typing import Protocol

from jupyter_gq.client.outputs.fold import make_substitute
from jupyter_gq.client.problems import ServiceError, ServiceUnavailable
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.runner.clock import monotonic

from .spool import Spool

log = logging.getLogger(__name__)

#: Seconds between two heartbeats.
HEARTBEAT = 2.0
#: Backoff after a failure, in seconds: first wait, longest wait.
FIRST_WAIT, LONGEST_WAIT = 0.25, 5.0
#: Seconds to wait if the service does not want this job's pieces.
UNWANTED_WAIT = 30.0
_UNWANTED = frozenset({401, 403, 404})
#: Refusals of the content of a request: no JSON within the bounds, too large, invalid fields.
_DEFECTIVE = frozenset({400, 413, 422})
#: Errors caused by an answer that is not the service's own; a proxy may have sent it.
_INVALID_ANSWER = (ValueError, KeyError, TypeError)


#: A function that returns the progress of the user's code, as (fraction, text).
Progress = Callable[[], tuple[float | None, str] | None]
#: A function that returns when a checkpoint was last saved, in seconds since the epoch.
SavedAt = Callable[[], float | None]


def _never_saved() -> None:
    return None


class Channel(Protocol):
    """The part of `client.outputs.delivery.Delivery` that the uploader needs."""

    async def send(self, events: Sequence[JsonObject]) -> int:
        """Send numbered output pieces; return the number of the last piece that the service has.

        An empty list only asks for that number. Raises `ServiceError` if the service refuses or cannot be reached.
        """

    async def heartbeat(
        self, run: int, fraction: float | None = None, text: str | None = None, saved_at: float | None = None
    ) -> None:
        """Report that the run is alive, with its progress and the time of its last checkpoint, if known.

        Raises `ServiceError` if the service refuses or cannot be reached.
        """


class Uploader:
    """The uploader of one job's pieces."""

    def __init__(self, spool: Spool, channel: Channel, *, sends_waiting: bool = False) -> None:
        self._spool, self._channel = spool, channel
        #: Whether pieces are sent that wait in memory for room on the disk; see "write before send" in `Spool`.
        self.sends_waiting = sends_waiting
        self._more = asyncio.Event()
        self._changed = asyncio.Event()
        #: Number of the last piece that the service has; 0 until the service has answered.
        self.stored = 0
        #: Whether the service rejects the pieces: it does not know this job (any more) or this token.
        self.is_unwanted = False
        #: Why the service lacks pieces; "" if the last delivery succeeded.
        self.trouble = ""
        self._failures = 0
        #: Since when the service has answered each delivery with a refusal, by the monotonic clock; None if it has not.
        self._refused_since: float | None = None
        self._given_up = False

    @property
    def is_done(self) -> bool:
        """Whether the service has all pieces of the spool."""
        return self.stored >= self._spool.last

    def wake(self) -> None:
        """Wake `run`, because the spool has new pieces to deliver."""
        self._more.set()

    async def fetch_stored(self, seconds: float) -> None:
        """Ask the service which pieces it has, and continue the numbering after them.

        If there is no valid answer within `seconds`, nothing changes.
        """
        try:
            async with asyncio.timeout(seconds):
                self.stored = await self._channel.send([])
        except (ServiceError, TimeoutError, *_INVALID_ANSWER) as error:
            log.info("The service does not say which outputs it has; the files of this machine decide: %s", error)
        else:
            self._spool.continue_after(self.stored)

    async def run(self) -> None:
        """Deliver the pieces of the spool whenever `wake` is called, with retries, until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self.stored < (self._spool.last if self.sends_waiting else self._spool.last_written):
                wait = await self._send_some()
                await asyncio.sleep(wait)

    async def wait_until_delivered(self, seconds: float, refused: float = math.inf) -> bool:
        """Wait at most `seconds` until the service has all pieces; return whether it has.

        Returns False early if the service does not want the pieces, after `stop_waiting`, or once the service has
        answered with nothing but refusals for `refused` seconds of this time.
        """
        began = monotonic()
        self.wake()
        try:
            async with asyncio.timeout(seconds):
                while not (self.is_done or self.is_unwanted or self._given_up):
                    if self._refused_since is not None and monotonic() - max(began, self._refused_since) >= refused:
                        break
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
        return self.is_done

    def stop_waiting(self) -> None:
        """Let `wait_until_delivered` return at once, now and in future calls."""
        self._given_up = True
        self._changed.set()

    async def send_heartbeats(self, run: int, progress: Progress, saved_at: SavedAt = _never_saved) -> None:
        """Send a heartbeat with the progress and the time of the last checkpoint every 2 s until cancelled."""
        while True:
            await self.send_heartbeat(run, progress, saved_at)
            await asyncio.sleep(HEARTBEAT)

    async def send_heartbeat(self, run: int, progress: Progress, saved_at: SavedAt = _never_saved) -> None:
        """Send one heartbeat with the progress and the time of the last checkpoint; ignore an error of the service."""
        fraction, text = progress() or (None, None)
        with contextlib.suppress(ServiceError):
            await self._channel.heartbeat(run, fraction, text, saved_at())

    async def _send_some(self) -> float:
        """Send a batch of pieces, and update `stored`, `is_unwanted` and `trouble`.

        Return the seconds to wait before the next batch. A failure is not raised; the first of several in a row is
        logged.
        """
        try:
            pieces = self._spool.read(self.stored, with_waiting=self.sends_waiting)
            stored = await self._send(pieces)
        except ServiceUnavailable as error:
            self.is_unwanted, self._refused_since = False, None
            return self._record_failure(error)
        except ServiceError as error:
            self.is_unwanted = _is_final(error)
            self._refused_since = monotonic() if self._refused_since is None else self._refused_since
            wait = self._record_failure(error)
            return UNWANTED_WAIT if self.is_unwanted else wait
        except (OSError, *_INVALID_ANSWER) as error:
            return self._record_failure(error)
        finally:
            self._changed.set()
        if self._failures:
            log.info("The service answers again after %d attempts.", self._failures)
        self._failures, self.is_unwanted, self._refused_since, self.trouble = 0, False, None, ""
        if stored < self.stored and pieces and pieces[0]["seq"] > stored + 1:
            log.warning("The service has only the pieces up to %d; sending again from there.", stored)
        stuck = stored == self.stored
        self.stored = stored
        return LONGEST_WAIT if stuck else 0

    async def _send(self, pieces: Sequence[JsonObject]) -> int:
        """Send the pieces, and a notice in the place of each whose content the service refuses.

        Returns the number of the last piece that the service has. Raises every other error of the service, such as an
        outage, and its refusal of a notice; earlier pieces may be stored by then.
        """
        try:
            return await self._channel.send(pieces)
        except ServiceError as error:
            if not (pieces and _is_defect(error)):
                raise
            if len(pieces) == 1:
                log.warning("The service refuses output number %s: %s", pieces[0]["seq"], error)
                return await self._channel.send([make_substitute(pieces[0])])
        middle = len(pieces) // 2
        await self._send(pieces[:middle])
        return await self._send(pieces[middle:])

    def _record_failure(self, error: Exception) -> float:
        if self._failures == 0:
            log.warning("The service does not take outputs; outputs are kept here for now: %s", error)
        self._failures += 1
        self.trouble = str(error)
        return min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(self._failures - 1, 10))


def _is_final(error: ServiceError) -> bool:
    """Return whether the service itself rejects the pieces for good; an error of a proxy in front of it may pass."""
    return error.status in _UNWANTED and error.problem.code != "unexpected_answer"


def _is_defect(error: ServiceError) -> bool:
    """Return whether an error concerns the content of the request; a proxy can say this of its size only."""
    return error.status in _DEFECTIVE and (error.status == 413 or error.problem.code != "unexpected_answer")
