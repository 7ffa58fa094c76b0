"""Garbage collection: after a while finished work is deleted, with its output and files, and so are audit entries.

Rules
-----
Orphaned files: see `orphaned_files` and, for contents outside the database, `orphaned_contents`.

Parts of files: a part is deleted if no job has it and its owner has not wanted it for a day.

Audit entries: an entry is deleted if it is older than `c.AuditLog.keep_days`, whatever became of the work.

Requests: a job whose deletion its owner or an administrator asked for is deleted at once. If that fails, it is tried
again every hour, and whenever the deletion of another job is asked for.

Old work only: any other workload is deleted if it has been final for longer than `c.TrainingQueues.keep_finished_days`
and no backend knows a run of it. A job stays as long as another one waits to begin with its checkpoints.

Order: files are deleted first, then the output in small pieces, and the record last. So the next sweep finds whatever a
killed service left.

Hidden at once: a job is hidden from requests and lists before anything of it is deleted. A lab that read a part of its
output would write that part under the cell. A job whose files cannot be deleted is shown again, with all of its output.

One record: a record that cannot be deleted is named in the log, once for each cause, and the sweep goes on with the
others.

Wrong clocks: after a leap of the wall clock nothing is deleted for a day; see `deletion_hold`. The clock is looked at
more often than old work, so that services which never run for an hour end that wait as well.

Short transactions: the work is done in a thread, in short transactions, so that requests and the loop go on.
"""

import asyncio
import logging

from jupyter_gq.controller.context import Context
from jupyter_gq.controller.continuations import find_continuing_job
from jupyter_gq.controller.loop.beside import run_every
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.errors import StoreUnavailable
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.store.protocol import Record

from .deletion_hold import LOOK_EVERY, DeletionHold
from .orphaned_contents import OrphanedContents
from .orphaned_files import OrphanedFiles

log = logging.getLogger(__name__)

#: Time between two sweeps.
EVERY = Seconds(3600)
#: How long a part of a file is kept that no job has.
UNUSED_KEPT = Seconds(24 * 3600)
#: Number of records that are read together.
_PAGE = 100


class Retention:
    """The sweeps for finished work, unused files and audit entries that are old enough.

    After a leap of the clock, no sweep deletes anything for a while; see `deletion_hold`.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.orphans = OrphanedFiles(context)
        self.contents = OrphanedContents(context)
        self._hold = DeletionHold(context.clock, context.store)
        #: The last failure to delete each workload that is still to be deleted.
        self._failures: dict[str, str] = {}

    async def run(self) -> None:
        """Sweep every `EVERY` seconds, until cancelled. A sweep that fails keeps no other one from its work."""
        sweeps = {
            "the deletion of finished work": self.sweep,
            "the deletion of unused parts of files": self.sweep_parts,
            "the deletion of old audit entries": self.sweep_audit,
            "the deletion of files without a record": self.sweep_orphans,
            "the deletion of contents outside the database": self.sweep_contents,
        }
        failures, asked = self._context.failures, self._context.deletions.asked
        await asyncio.gather(
            run_every(LOOK_EVERY, "the look at the clock", self.look_at_clock, failures),
            run_every(EVERY, "the deletion of jobs on request", self.sweep_requested, failures, asked=asked),
            *(run_every(EVERY, what, sweep, failures) for what, sweep in sweeps.items()),
        )

    async def look_at_clock(self) -> None:
        """Notice a leap of the clock, or count the time since one."""
        self._hold.may_delete()

    async def sweep_requested(self) -> None:
        """Delete the jobs whose deletion was asked for; one that cannot be read or deleted now stays hidden."""
        store, deletions = self._context.store, self._context.deletions
        for job in deletions.requested:
            record = await asyncio.to_thread(store.get, job)
            if record is not None:
                await self._delete_alone(record)
            elif not await asyncio.to_thread(store.known_ids, [job]):
                deletions.finish(job)  # a service was killed when only that was left to do

    async def sweep_orphans(self) -> None:
        """Delete the files of jobs that have no record."""
        if self._hold.may_delete():
            await self.orphans.sweep()

    async def sweep_contents(self) -> None:
        """Delete the contents outside the database that the database does not name any more.

        After a leap of the clock the place is looked at all the same: a copy of the database must not go unnoticed.
        """
        await self.contents.sweep(may_delete=self._hold.may_delete())

    async def sweep_parts(self) -> int:
        """Delete the parts of files that no job has and no user wanted for `UNUSED_KEPT`; return their number.

        Deletes in short transactions.
        """
        if not self._hold.may_delete():
            return 0
        before, deleted = Instant(self._context.clock.now() - UNUSED_KEPT), 0
        while portion := await asyncio.to_thread(self._context.store.delete_unused_parts, before):
            deleted += portion
        return deleted

    async def sweep_audit(self) -> int:
        """Delete all audit entries that are due, in short transactions; return their number.

        Returns 0 and deletes nothing if audit entries are kept for ever.
        """
        kept_for = self._context.settings.keep_audit
        if kept_for <= 0 or not self._hold.may_delete():
            return 0
        before, deleted = Instant(self._context.clock.now() - kept_for), 0
        while portion := await asyncio.to_thread(self._context.store.delete_audit_before, before):
            deleted += portion
        return deleted

    async def sweep(self) -> int:
        """Delete all work that ended longer ago than the settings keep it; return the number of deleted workloads.

        Work is left out if a backend still knows a run of it, or if its deletion fails, which is logged. Returns 0 and
        deletes nothing if finished work is kept for ever.
        """
        kept_for = self._context.settings.keep_finished
        if kept_for <= 0 or not self._hold.may_delete():
            return 0
        before, last, deleted = Instant(self._context.clock.now() - kept_for), "", 0
        while page := await asyncio.to_thread(self._context.store.finished, before, last, _PAGE):
            last = page[-1].workload.id
            for record in page:
                if self._is_due(record, before):
                    deleted += await self._delete_alone(record)
        if deleted:
            log.info("%d jobs and servers that ended more than %.0f days ago were deleted", deleted, kept_for / 86400)
        return deleted

    def _is_due(self, record: Record, before: Instant) -> bool:
        """Return whether a workload ended before that time, no backend knows a run of it, and no job waits for it.

        The submission counts as the end of a workload without a recorded end.
        """
        workload = record.workload
        ended = workload.submitted_at if workload.finished_at is None else workload.finished_at
        if self._hold.count_from(ended) >= before:
            return False
        if any(known == workload.id for known, _ in self._context.known_runs):
            return False
        return find_continuing_job(self._context.records, workload.id) is None

    async def _delete_alone(self, record: Record) -> bool:
        """Delete a finished workload, and return True; if that fails, log the failure once and return False.

        Raises `StoreUnavailable`, because then no other record can be deleted either.
        """
        try:
            await self._delete(record)
        except StoreUnavailable:
            raise  # the other records cannot be deleted either
        except Exception as error:  # noqa: BLE001 - the defect of one record must not keep the others
            self._record_failure(record.workload, error)
            return False
        self._failures.pop(record.workload.id, None)
        return True

    def _record_failure(self, workload: Workload, error: Exception) -> None:
        """Log why a workload could not be deleted, unless that is the same as before: each request begins a sweep."""
        told = f"{type(error).__name__}: {error}"
        if self._failures.get(workload.id) != told:
            sentence = "%s could not be deleted; it is tried again within an hour"
            log.error(sentence, workload.id, exc_info=error, extra=workload.log_fields)
        self._failures[workload.id] = told

    async def _delete(self, record: Record) -> None:
        """Hide a workload from requests and lists, and delete its files, its output and its record, in this order."""
        workload, context = record.workload, self._context
        context.deletions.begin(workload.id)
        if workload.kind is Kind.TRAINING:
            try:
                await asyncio.to_thread(context.bundles.delete, workload.id, workload.owner)
            except Exception:
                context.deletions.give_up(workload.id)
                raise
        while not await asyncio.to_thread(context.store.delete_portion, workload.id):
            pass  # each call deletes a few pieces of output; between two calls other requests may write
        context.last_seqs.pop(workload.id, None)
        context.kept_sizes.forget(workload.id)
        context.disk_uses.forget(workload.id)
        context.set_aside.forget(workload.id)
        context.deletions.finish(workload.id)
