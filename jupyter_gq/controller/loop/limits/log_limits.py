"""The limits on the kept logs of each job and of each user.

Rules
-----
Running jobs on this machine: the beginning of a log above `c.TrainingQueues.max_log_mib` is dropped every minute. Logs
    that pods send are cut when they arrive, and only then: a cut in a thread could undo the arrival of a part.

Users: once an hour, the logs of each user's jobs are added up. Above `c.TrainingQueues.max_user_logs_mib`, the logs of
    the jobs that ended first lose all but their end.

Told: the answer about a log has a sentence that says how much is dropped; see `controller.requests.logs`.

One job: a log that cannot be read or cut is named in the log of the service, and the sweep goes on with the others.

See docs/decisions/0150-read-and-search-logs-in-parts.md.
"""

import asyncio
import logging
from dataclasses import dataclass

from jupyter_gq.controller.context import Context
from jupyter_gq.controller.log_names import name_log, share_of_log
from jupyter_gq.controller.loop.beside import run_every
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.errors import BackendError, UnusableFile
from jupyter_gq.domain.workload import Kind, Workload

log = logging.getLogger(__name__)

#: Seconds between two looks at the logs of running jobs, and between two sweeps of the logs of all jobs.
EVERY, SWEEP_EVERY = 60.0, 3600.0
#: Bytes of each task's log that stay when the limit of a user is exceeded.
KEPT_END = 64 * 1024
_PAGE = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedLog:
    """The kept log of a job that has ended."""

    ended: float
    workload: Workload
    kept: int


class LogLimits:
    """The looks at the logs of running jobs, and the sweeps of the logs of all jobs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: The kept bytes of the logs of jobs that have ended, as the last sweep found or left them.
        self._known: dict[str, int] = {}
        self._swept_at: float | None = None

    async def run(self) -> None:
        """Cut the logs of running jobs every `EVERY` seconds, and sweep all logs every `SWEEP_EVERY`, until cancelled.

        Failures are logged.
        """
        await run_every(EVERY, "measuring the logs of jobs", self._look, self._context.failures)

    async def _look(self) -> None:
        """Cut the logs of running jobs, and sweep all logs if the last sweep was long ago."""
        now = self._context.clock.elapsed()
        await self.cut_running()
        if self._swept_at is None or now - self._swept_at >= SWEEP_EVERY:
            self._swept_at = now
            await self.sweep()

    async def cut_running(self) -> None:
        """Drop the beginning of each log of a running job on this machine that is above the limit."""
        if self._context.bundles.pod_files is None:
            for workload in self._list_running():
                await asyncio.to_thread(self._limit, workload)

    async def sweep(self) -> int:
        """Cut the logs of users above their limit, those of the jobs that ended first; return the dropped bytes."""
        kept = await asyncio.to_thread(self._measure_ended)
        users: dict[str, int] = {}
        for workload in self._list_running():
            users[workload.owner] = users.get(workload.owner, 0) + await asyncio.to_thread(
                self._limit_running, workload
            )
        for each in kept:
            users[each.workload.owner] = users.get(each.workload.owner, 0) + each.kept
        limit, dropped = self._context.settings.max_user_log_bytes, 0
        for each in sorted(kept, key=lambda each: (each.ended, each.workload.id)):
            owner = each.workload.owner
            if users[owner] > limit and each.kept > each.workload.tasks * KEPT_END:
                left = await asyncio.to_thread(self._cut, each.workload, KEPT_END)
                self._known[each.workload.id] = left
                # Measured again by `database_limit` at its next look: what is gone must refuse no new job.
                self._context.kept_sizes.forget(each.workload.id)
                users[owner] -= each.kept - left
                dropped += each.kept - left
        return dropped

    def _list_running(self) -> list[Workload]:
        """Return the jobs that hold devices for a run."""
        return [each.workload for each in self._context.records.holding() if each.workload.kind is Kind.TRAINING]

    def _measure_ended(self) -> list[EndedLog]:
        """Return the kept logs of all jobs that have ended; a log is measured once."""
        store, last = self._context.store, ""
        found: list[EndedLog] = []
        known: dict[str, int] = {}
        while page := store.finished(Instant(self._context.clock.now() + 1), last, _PAGE):
            last = page[-1].workload.id
            for workload in (record.workload for record in page):
                if workload.kind is Kind.TRAINING and workload.run:
                    size = self._known.get(workload.id)
                    known[workload.id] = kept = self._limit(workload) if size is None else size
                    ended = workload.submitted_at if workload.finished_at is None else workload.finished_at
                    found.append(EndedLog(ended=ended, workload=workload, kept=kept))
        self._known = known
        return found

    def _limit_running(self, workload: Workload) -> int:
        """Cut the logs of a running job to its limit, unless pods send them; return how many bytes are kept."""
        sent_by_pods = self._context.bundles.pod_files is not None
        return self._cut(workload, None) if sent_by_pods else self._limit(workload)

    def _limit(self, workload: Workload) -> int:
        """Cut the logs of a job to its limit, and return how many bytes are kept."""
        return self._cut(workload, share_of_log(self._context.settings.max_log_bytes, workload.tasks))

    def _cut(self, workload: Workload, keep: int | None) -> int:
        """Cut the log of each task of a job to little more than `keep` bytes, and return how many bytes are kept.

        With `keep` None, nothing is cut. A log that cannot be measured counts as nothing, and one that cannot be cut
        stays.
        """
        bundles, kept = self._context.bundles, 0
        for task in range(workload.tasks):
            name = name_log(workload, task)
            try:
                span = bundles.log_span(name)
                if span is None:
                    continue
                kept += span.kept
                if keep is not None and span.kept > keep:
                    kept -= bundles.cut_log(name, keep)
            except (UnusableFile, BackendError) as error:
                log.info("the log of %s cannot be cut: %s", workload.id, error, extra=workload.log_fields)
        return kept
