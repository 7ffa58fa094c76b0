"""The starts of tasks that go on beside the steps of the service, because files of their owner answer late.

Rules
-----
Nobody waits for long: a step waits for `PATIENCE` seconds for the starts of one owner. What has not ended then goes on.

One at a time: a run whose start goes on is not started again, and not observed until the start has ended.

See docs/decisions/0339-go-on-without-files-that-answer-late.md.
"""

import asyncio
import logging
from collections.abc import Coroutine

from jupyter_gq.domain.workload import RunKey

from .ledger import Run

log = logging.getLogger(__name__)

#: Seconds that a step waits for the starts of one owner.
PATIENCE = 1.0


class Starts:
    """The starts that go on now."""

    def __init__(self) -> None:
        """Begin without any."""
        self._works: dict[RunKey, asyncio.Task[None]] = {}
        #: Owners of the runs whose start no step waits for any more.
        self._late: dict[RunKey, str] = {}

    def goes_on(self, key: RunKey) -> bool:
        """Return whether a start of this run has not ended yet."""
        return key in self._works

    def is_late(self, key: RunKey) -> bool:
        """Return whether a start of this run goes on that no step waits for, so that its error would reach nobody."""
        return key in self._late

    async def begin(self, run: Run, work: Coroutine[None, None, None]) -> None:
        """Begin the work of a start, and wait for its end for at most `PATIENCE` seconds; raise its error.

        After that time the work is late: it goes on, this returns, and a later error is only logged. If another start
        of the same owner is late, the work is late at once.
        """
        task = asyncio.create_task(work, name=f"start of {run.job}")
        self._works[run.key] = task
        task.add_done_callback(lambda _: self._end(run))
        await asyncio.wait([task], timeout=0 if run.owner in self._late.values() else PATIENCE)
        if task.done():
            task.result()
        else:
            self._late[run.key] = run.owner
            log.info("files of %s answer late, so the start of %s goes on beside the steps", run.owner, run.job)

    def _end(self, run: Run) -> None:
        """Forget a start that has ended; log its error if it was late."""
        task = self._works.pop(run.key)
        if self._late.pop(run.key, None) is None or task.cancelled():
            return
        if error := task.exception():
            log.error("the late start of run %d of %s failed", run.number, run.job, exc_info=error)
