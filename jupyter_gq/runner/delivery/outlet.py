"""Where the pieces of a run go: into the log and, for the task that speaks for the job, on to the service."""

import asyncio
import contextlib
import logging
import math
import sys
from typing import Any

from jupyter_gq.client.delivery import Delivery
from jupyter_gq.runner.clock import now
from jupyter_gq.runner.files.job import Job
from jupyter_gq.runner.files.journal import Journal

from .spool import Spool
from .uploader import Courier

log = logging.getLogger(__name__)

#: Seconds to wait for the service to say what it has, before a later run begins.
ASK = 3.0
#: Seconds that the last sign of life may take when there is no time left.
LAST_BEAT = 0.3


class Outlet:
    """Numbers, keeps and delivers pieces. Tasks other than the first only log them."""

    def __init__(self, job: Job, broken: "asyncio.Future[OSError]") -> None:
        """`broken` gets the error once the disk does not take the pieces."""
        self._job, self._broken = job, broken
        self._journal = Journal(sys.stdout)
        self._tasks: list[asyncio.Task[None]] = []
        folder = job.folder
        self.spool = Spool(folder.spool, folder.earlier_spools()) if folder.task == 0 else None
        self._channel: Delivery | None = None
        self._courier: Courier | None = None
        #: Up to when `close` may wait, by the clock of the loop.
        self._until = math.inf
        if self.spool is not None and job.url and job.token:
            self._channel = Delivery(job.url, job.id, job.token)
            self._courier = Courier(self.spool, self._channel)

    async def open(self) -> None:
        """Begin to deliver."""
        if self._courier is None:
            log.info("Outputs of this task are kept in its folder only.")
            return
        assert self.spool is not None
        if self._job.folder.run > 1 or self.spool.last:
            await self._courier.ask(ASK)
        folder = self._job.folder
        self._tasks = [
            asyncio.create_task(self._courier.run()),
            asyncio.create_task(self._courier.beat(folder.run, folder.progress, folder.saved_at)),
        ]
        self._courier.notice()

    def emit(self, pieces: list[dict[str, Any]]) -> None:
        """Hand on pieces without number, in order."""
        if self._broken.done():
            return
        try:
            self._journal.write(pieces)
            if self.spool is not None:
                self.spool.append(pieces, run=self._job.folder.run, at=now())
        except OSError as error:
            self._broken.set_result(error)
            return
        if self._courier is not None:
            self._courier.notice()

    def end_line(self) -> None:
        """What comes next in the log begins a line."""
        try:
            self._journal.end_line()
        except OSError as error:
            if not self._broken.done():
                self._broken.set_result(error)

    def saved(self) -> None:
        """The notebook holds all that was emitted: what is delivered may leave the spool."""
        if self.spool is not None and self._courier is not None:
            self.spool.empty_if_large(self._courier.stored)

    def hurry(self, seconds: float) -> None:
        """`close` may wait for so long from now, and no longer."""
        if self._courier is not None:
            loop = asyncio.get_running_loop()
            self._until = min(self._until, loop.time() + seconds)
            loop.call_later(seconds, self._courier.give_up)

    async def close(self, seconds: float) -> bool:
        """Deliver what is left, for at most so long, and end; False when the service lacks some that it may want."""
        delivered = True
        if self._courier is not None and self._channel is not None:
            folder, loop = self._job.folder, asyncio.get_running_loop()
            self._until = loop.time() + seconds
            last = asyncio.create_task(self._courier.beat_once(folder.run, folder.progress, folder.saved_at))
            delivered = await self._courier.finish(seconds) or self._courier.unwanted
            if not self._courier.done:
                log.warning("The service does not have all outputs; they stay in this run's folder.")
            # A service that hears and does not answer must not take the time in which the result is written.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(LAST_BEAT, min(ASK, self._until - loop.time()))):
                    await last
            for task in self._tasks:
                task.cancel()
            self._channel.close()
        if self.spool is not None:
            self.spool.close()
        return delivered
