"""The limits on the disk space of each job and of each user.

Rules
-----
Running jobs: each is measured every minute, and ended above `c.TrainingQueues.max_job_disk`.

Other jobs: at most `_MOST_OTHERS` of them are measured in each round, for at most `_LONGEST_ROUND` seconds, beginning
    with jobs that were measured longest ago. So a deletion by their owner is noticed after some minutes.

Users: a user whose jobs take more than `c.TrainingQueues.max_user_disk` can send no new job. Jobs that wait or run are
    not touched, since their files are needed.

See docs/decisions/0102-refuse-new-jobs-above-the-disk-limit-of-a-user.md.
"""

import asyncio
import logging
from collections.abc import Collection

from jupyter_gq.controller.context import Context
from jupyter_gq.controller.disk_uses import DiskUse
from jupyter_gq.controller.loop.act import make_stop_change
from jupyter_gq.controller.loop.beside import run_every
from jupyter_gq.controller.records.acts import act_of_scheduler
from jupyter_gq.controller.records.changes import DetailChange
from jupyter_gq.domain.amount import MiB, format_memory
from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Kind, Stop
from jupyter_gq.store.protocol import Record

log = logging.getLogger(__name__)

#: Seconds between two measurements.
EVERY = 60.0
#: The maximum number of jobs that do not run and are measured in one round, and the maximum time for them in seconds.
_MOST_OTHERS, _LONGEST_ROUND = 50, 20.0


class DiskLimit:
    """The measurement of the files of jobs, which ends running jobs whose files take too much space."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        """Measure running jobs, and some others, every `EVERY` seconds until cancelled. Failures are logged."""
        await run_every(EVERY, "measuring the disk space of jobs", self.measure, self._context.failures)

    async def measure(self) -> None:
        """Measure each running job once, and tell those above the limit to end; then measure some of the others."""
        running = [record for record in self._context.records.holding() if record.workload.kind is Kind.TRAINING]
        names = {record.workload.id for record in running}
        self._context.disk_use = {name: use for name, use in self._context.disk_use.items() if name in names}
        for record in running:
            use = await self._measure_job(record.workload.id, record.workload.owner)
            if use is not None:
                self._context.disk_use[record.workload.id] = use
                self._end_above_limit(record.workload.id, use)
        await self._measure_others(names)

    async def _measure_others(self, running: Collection[str]) -> None:
        """Measure some of the jobs that do not run, and forget those without files."""
        jobs = await asyncio.to_thread(self._context.bundles.jobs)
        uses, began = self._context.disk_uses, self._context.clock.elapsed()
        uses.forget_others(jobs)
        for job in uses.least_recent(set(jobs) - set(running), _MOST_OTHERS):
            if self._context.clock.elapsed() - began > _LONGEST_ROUND:
                break
            record = await asyncio.to_thread(self._context.store.get, job)
            await self._measure_job(job, "" if record is None else record.workload.owner)

    async def _measure_job(self, job: str, owner: str) -> MiB | None:
        """Measure and record the disk space of a job's files, and return it; None if that is not known now."""
        # In a thread: a folder of many files, or on a slow disk, must not keep requests waiting.
        used = await asyncio.to_thread(self._context.bundles.disk_use, job)
        if used is not None:
            now = self._context.clock.now()
            self._context.disk_uses.record(job, DiskUse(owner=owner, used=used, measured_at=now))
        return used

    def _end_above_limit(self, job: str, use: MiB) -> None:
        """Tell a job to end if its files take more space than the limit; do nothing if it is ending already."""
        limit = self._context.settings.max_job_disk
        record = self._context.records.find_unfinished(job)
        if limit and use > limit and record is not None and record.workload.holds and record.workload.stop is None:
            self._end(record, use, limit)

    def _end(self, record: Record, use: MiB, limit: MiB) -> None:
        """Record the intent to end a job for good, with a sentence for its owner."""
        told = (
            f"Ended: its files take {format_memory(use)} of disk, and at most {format_memory(limit)} are allowed. "
            "Keep fewer checkpoints, or ask your administrator for c.TrainingQueues.max_job_disk."
        )
        workload, now = record.workload, self._context.clock.now()
        stop = Stop(reason=EvictReason.STOPPED_BY_USER, sentence=told, by=None, at=now, requeue=False)
        audit = act_of_scheduler(Action.JOB_EVICT, workload, now, reason="DISK", sentence=told)
        self._context.records.commit([make_stop_change(workload, stop, DetailChange(sentence=told), audit)])
        self._context.wake()
