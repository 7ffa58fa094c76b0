"""The limit on what the database keeps of the jobs of one user: their outputs, and on Kubernetes their cells and logs.

Rules
-----
Unfinished jobs: each is measured once a minute if it has new output, and once after its end. A job counts as
    unfinished as long as the service stores what its last run has left.

Ended jobs: after a start of the service, those of earlier times are measured for at most `_LONGEST_ROUND` seconds of
    each minute, until all are known. Once an hour, jobs that were deleted are forgotten.

Alone: a job that cannot be measured is logged, and left out until its next turn.

Users: a user whose jobs take more than `c.TrainingQueues.max_user_database_mib` can send no new job. Jobs that wait or
    run are not touched.

See docs/decisions/0381-refuse-new-jobs-of-a-user-who-fills-the-database.md.
"""

import asyncio
import logging
from collections.abc import Mapping

from jupyter_gq.controller.context import Context
from jupyter_gq.controller.loop.beside import run_every
from jupyter_gq.domain.errors import StatementCancelled
from jupyter_gq.domain.workload import Kind

log = logging.getLogger(__name__)

#: Seconds between two measurements, and between two looks for jobs that were deleted.
EVERY, LOOK_EVERY = 60.0, 3600.0
#: The maximum time in seconds for the ended jobs that are measured in one round.
_LONGEST_ROUND = 20.0


class DatabaseLimit:
    """The measurement of what the database keeps of each job."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._looked_at: float | None = None
        #: Jobs that have ended and are not measured since, with their owners.
        self._unmeasured: dict[str, str] = {}
        #: Jobs that were unfinished in the last round, with their owners.
        self._unfinished: dict[str, str] = {}
        #: The last piece of output of each unfinished job when it was measured.
        self._seen: dict[str, int] = {}

    async def run(self) -> None:
        """Measure every `EVERY` seconds until cancelled. Failures are logged."""
        await run_every(EVERY, "measuring the database", self.measure, self._context.failures)

    async def measure(self) -> None:
        """Measure unfinished jobs with new output, and ended jobs that were not measured since their end.

        The results are in `Context.kept_sizes`. A job that cannot be measured is logged.
        """
        context, began = self._context, self._context.clock.elapsed()
        unfinished = self._find_unfinished()
        self._unmeasured |= {job: owner for job, owner in self._unfinished.items() if job not in unfinished}
        self._unfinished = unfinished
        if self._looked_at is None or began - self._looked_at >= LOOK_EVERY:
            await self._look_for_ended(unfinished)
            self._looked_at = began
        await self._measure_unfinished(unfinished)
        began = context.clock.elapsed()
        for job, owner in tuple(self._unmeasured.items()):
            if context.clock.elapsed() - began > _LONGEST_ROUND:
                break
            await self._measure_job(job, owner)
            del self._unmeasured[job]

    def _find_unfinished(self) -> dict[str, str]:
        """Return the jobs that may have more output, with their owners."""
        records = self._context.records
        left = [record for job, _ in self._context.ended_runs if (record := records.get(job)) is not None]
        found = (record.workload for record in (*records.unfinished(), *left))
        return {workload.id: workload.owner for workload in found if workload.kind is Kind.TRAINING}

    async def _measure_unfinished(self, unfinished: Mapping[str, str]) -> None:
        """Measure the unfinished jobs that have output which was not there at their last measurement."""
        last = await asyncio.to_thread(self._context.store.last_seqs, list(unfinished))
        self._seen = {job: seq for job, seq in self._seen.items() if job in unfinished}
        for job, owner in unfinished.items():
            if self._seen.get(job) != last[job] and await self._measure_job(job, owner):
                self._seen[job] = last[job]

    async def _look_for_ended(self, unfinished: dict[str, str]) -> None:
        """Forget the jobs that were deleted, and note the ended ones that were never measured."""
        ended = await asyncio.to_thread(self._context.store.finished_owners, Kind.TRAINING)
        sizes = self._context.kept_sizes
        sizes.forget_others(ended.keys() | unfinished.keys())
        self._unmeasured = {job: owner for job, owner in ended.items() if job in self._unmeasured or job not in sizes}

    async def _measure_job(self, job: str, owner: str) -> bool:
        """Measure a job in a thread: long outputs must not keep requests waiting. Return whether that succeeded."""
        try:
            size = await asyncio.to_thread(self._context.store.kept_size, job)
        except StatementCancelled as error:
            log.warning("what the database keeps of %s could not be measured: %s", job, error, extra={"workload": job})
            return False
        if self._context.store.known_ids([job]):  # the job may have been deleted meanwhile
            self._context.kept_sizes.record(job, owner, size)
        return True
