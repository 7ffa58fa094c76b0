"""The way of a run's output pieces: into the log and, for task 0, by way of the spool to the service."""

import asyncio
import contextlib
import logging
import math
import sys
from collections.abc import Callable, Iterator

from jupyter_gq.client.outputs.delivery import Delivery
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.runner.clock import monotonic, now
from jupyter_gq.runner.files.job import Job
from jupyter_gq.runner.files.run_log import RunLog
from jupyter_gq.runner.problems import is_disk_full

from .spool import Spool
from .uploader import Progress, Uploader

log = logging.getLogger(__name__)

#: Seconds to wait at the start of a later run until the service says which pieces it has.
ASK_TIMEOUT = 3.0
#: Bytes of pieces that may wait for room on the disk before the recorder makes no more of them.
MOST_WAITING = 8 * 1024 * 1024
#: Seconds that the last heartbeat may take if no time is left.
LAST_HEARTBEAT_TIMEOUT = 0.3


class OutputShipper:
    """The shipper of output pieces: it numbers, stores and delivers those of task 0, and logs the outputs of each."""

    def __init__(self, job: Job, disk_error: "asyncio.Future[OSError]", progress: Progress | None = None) -> None:
        """Open the spool of task 0; `disk_error` is set to the first error of a disk that does not take the pieces.

        Heartbeats carry what `progress` returns; without it, what the code reports by `jupyter_gq.progress`.
        """
        self._job, self._disk_error = job, disk_error
        self._progress = progress or job.folder.progress
        self._run_log = RunLog(sys.stdout)
        self._tasks: list[asyncio.Task[None]] = []
        folder = job.folder
        self.spool = Spool(folder.spool, folder.earlier_spools()) if folder.task == 0 else None
        if self.spool is not None:
            self.spool.continue_after(job.last_seq)
        self._channel: Delivery | None = None
        self._uploader: Uploader | None = None
        #: Until when `close` may wait, by the clock of the loop.
        self._deadline = math.inf
        if self.spool is not None and job.url and job.token:
            self._channel = Delivery(job.url, job.id, job.token)
            # The next run of an ephemeral folder has its numbers from the service.
            self._uploader = Uploader(self.spool, self._channel, sends_waiting=job.ephemeral)

    async def start(self) -> None:
        """Start the upload and the heartbeats; without a service or for another task than 0, only log that.

        If the run is not the first or its spool is not empty, first ask the service for up to 3 s which pieces it has.
        """
        if self._uploader is None:
            log.info("Outputs of this task are kept in its folder only.")
            return
        assert self.spool is not None
        if self._job.folder.run > 1 or self.spool.last:
            await self._uploader.fetch_stored(ASK_TIMEOUT)
        folder = self._job.folder
        self._tasks = [
            asyncio.create_task(self._uploader.run()),
            asyncio.create_task(self._uploader.send_heartbeats(folder.run, self._progress, folder.saved_at)),
        ]
        self._uploader.wake()

    def log_output(self, output: JsonObject) -> None:
        """Log an output; on a full disk the log lacks it. If the disk refuses for another reason, set `disk_error`."""
        with self._tolerating_a_full_disk():
            self._run_log.add(output)

    def log_cell(self, name: str) -> None:
        """Log the heading of a cell that starts; for a disk that refuses it see `log_output`."""
        with self._tolerating_a_full_disk():
            self._run_log.begin_cell(name)

    def emit(self, pieces: list[JsonObject]) -> None:
        """Append the pieces to the spool, in order; the spool numbers them.

        On a full disk the pieces wait in memory, and on one machine they are not sent before `close`. If the disk
        refuses for another reason, `disk_error` is set; after that, pieces are dropped.
        """
        if self._disk_error.done():
            return
        if self.spool is not None:
            with self._tolerating_a_full_disk():
                self.spool.append(pieces, run=self._job.folder.run, at=now())
        if self._uploader is not None:
            self._uploader.wake()

    @property
    def has_no_room(self) -> bool:
        """Whether pieces of more than `MOST_WAITING` bytes wait for disk space, so that no other should be made."""
        return self.spool is not None and self.spool.waiting_size > MOST_WAITING

    @property
    def is_incomplete(self) -> bool:
        """Whether pieces wait for room on the disk, and would be lost with this process."""
        return self.spool is not None and self.spool.waiting_size > 0

    def write_waiting(self) -> None:
        """Write the pieces that wait for room on the disk, if there is room now."""
        if self.spool is not None and not self._disk_error.done():
            with self._tolerating_a_full_disk():
                self.spool.write_waiting()
            if self._uploader is not None:
                self._uploader.wake()

    @contextlib.contextmanager
    def _tolerating_a_full_disk(self) -> Iterator[None]:
        """Suppress errors of the disk within the block; set `disk_error` to the first that is not about room."""
        try:
            yield
        except OSError as error:
            if not is_disk_full(error) and not self._disk_error.done():
                self._disk_error.set_result(error)

    def end_log_line(self) -> None:
        """Let the next text in the log begin on a new line; if the disk refuses, `disk_error` is set."""
        with self._tolerating_a_full_disk():
            self._run_log.end_line()

    async def trim_spool(self, saved: int, is_readable: Callable[[], bool]) -> None:
        """Trim a large spool if the service has all its pieces, and the saved notebook has them too.

        `saved` is the number of the last piece whose effect the notebook contains. `is_readable` reads the notebook
        back, in a thread, and returns whether that succeeded; it is called for a large spool only.
        """
        if self._trimmable_spool(saved) is None:
            return
        readable = await asyncio.to_thread(is_readable)
        spool = self._trimmable_spool(saved)  # pieces may have come meanwhile
        if readable and spool is not None:
            spool.trim()

    def shorten_close(self, seconds: float) -> None:
        """Let `close` wait at most `seconds` from now, whether it has begun or not."""
        if self._uploader is not None:
            self._deadline = min(self._deadline, monotonic() + seconds)
            asyncio.get_running_loop().call_later(seconds, self._uploader.stop_waiting)

    @property
    def trouble(self) -> str:
        """Why the service lacks pieces; "" if no delivery has failed since the last one that succeeded."""
        return "" if self._uploader is None else self._uploader.trouble

    async def close(self, seconds: float, *, refused: float) -> bool:
        """Deliver the remaining pieces and a last heartbeat for at most `seconds`, then end the delivery.

        Pieces that still wait for room on the disk are sent too, since they would be lost. The spool is closed. A
        service that answers and does not take the pieces is waited for at most `refused` seconds. Return False if the
        service lacks pieces that it still wants; True otherwise, also if nothing is delivered at all.
        """
        delivered = True
        if self._uploader is not None and self._channel is not None:
            folder = self._job.folder
            self._uploader.sends_waiting = True
            self._deadline = min(self._deadline, monotonic() + seconds)
            last = asyncio.create_task(self._uploader.send_heartbeat(folder.run, self._progress, folder.saved_at))
            left = max(0.0, self._deadline - monotonic())
            delivered = await self._uploader.wait_until_delivered(left, refused) or self._uploader.is_unwanted
            if not self._uploader.is_done:
                where = "." if self._job.ephemeral else " yet; it reads them from this run's folder."
                log.info("The service does not have the last outputs%s", where)
            # A service that accepts the request and never answers must not use up the time for writing the result.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(LAST_HEARTBEAT_TIMEOUT, min(ASK_TIMEOUT, self._deadline - monotonic()))):
                    await last
            for task in self._tasks:
                task.cancel()
            self._channel.close()
        self.write_waiting()
        if self.spool is not None:
            self.spool.close()
        return delivered

    def _trimmable_spool(self, saved: int) -> Spool | None:
        """Return the spool if it is large, and the service and the notebook have all its pieces; None otherwise."""
        spool, uploader = self.spool, self._uploader
        if spool is None or uploader is None or not spool.is_large:
            return None
        return spool if uploader.is_done and saved == spool.last else None
