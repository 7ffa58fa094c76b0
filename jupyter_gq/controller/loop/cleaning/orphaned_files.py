"""Garbage collection of orphaned files: the folders of jobs on this machine that no record names.

A restored database may lack the records of jobs whose folders are still there. A service that is killed while a job is
sent leaves a folder too.

Rules
-----
Grace: a folder is deleted once it has been without a record for as long as finished work is kept
    (`c.TrainingQueues.keep_finished_days`; 0 = for ever), and for a week at least. Until then another backup may be
    restored that has the record.

Counted anew: the time begins again if the job has a record or a run meanwhile, or if no sweep saw the folder for a day.
    So an old list of folders, which came with a restored database, deletes nothing.

Damaged records: a record that cannot be read counts as a record.

Bounded: a sweep deletes at most `_MOST_DELETED` folders.

See docs/decisions/0101-delete-orphaned-folders-after-a-grace-period.md.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from jupyter_gq.controller.context import Context
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.json_types import JsonObject

log = logging.getLogger(__name__)

#: The minimum time for which a folder without a record is kept.
LEAST_GRACE = Seconds(7 * 86400)
#: Time after which the list of the last sweep is not used any more.
_STALE = Seconds(86400)
#: Name of the setting with the folders without a record, and of its two fields.
_SETTING, _SINCE, _SWEPT = "orphaned_files", "since", "swept"
_MOST_DELETED = 100
#: Folders that are named in one line of the log.
_MOST_NAMED = 10


class OrphanedFiles:
    """The sweeps for folders of jobs that no record names."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def sweep(self) -> int:
        """List the folders without a record, and delete those whose grace has passed; return the number of these."""
        found = await asyncio.to_thread(self._find)
        now = self._context.clock.now()
        earlier = self._read_list(now)
        since = {job: earlier.get(job, now) for job in found}
        self._log_new(job for job in found if job not in earlier)
        deleted = [job for job in self._choose_due(since, now) if await self._delete(job, since[job])]
        remaining = {job: at for job, at in since.items() if job not in deleted}
        if remaining or earlier:
            document: JsonObject = {_SWEPT: now, _SINCE: remaining}
            await asyncio.to_thread(self._context.store.put_setting, _SETTING, document)
        return len(deleted)

    def _find(self) -> list[str]:
        """Return the jobs with files on this machine and with neither a record nor a run, sorted."""
        jobs = sorted(self._context.bundles.jobs())
        named = self._context.store.known_ids(jobs) | {job for job, _ in list(self._context.known_runs)}
        return [job for job in jobs if job not in named]

    def _read_list(self, now: Instant) -> Mapping[str, Instant]:
        """Return since when each folder has had no record, as the last sweep stored it; empty if that is too old."""
        document = self._context.store.setting(_SETTING) or {}
        if not now - _STALE <= document.get(_SWEPT, 0) <= now:
            return {}
        since: Mapping[str, Instant] = document[_SINCE]
        return since

    def _choose_due(self, since: Mapping[str, Instant], now: Instant) -> list[str]:
        """Return the jobs whose files are deleted now: those without a record for longest, a bounded number."""
        kept_for = self._context.settings.keep_finished
        if kept_for <= 0:
            return []
        grace = max(kept_for, LEAST_GRACE)
        due = [job for job, at in since.items() if now - at >= grace]
        return sorted(due, key=lambda job: (since[job], job))[:_MOST_DELETED]

    async def _delete(self, job: str, since: Instant) -> bool:
        """Delete the files of a job without a record and return True; if that fails, log the failure, return False."""
        ids = {"workload": job}
        days = (self._context.clock.now() - since) / 86400
        try:
            await asyncio.to_thread(self._context.bundles.delete, job, "")
        except Exception:  # a failure must not keep the other folders from deletion
            log.exception("the files of %s could not be deleted; it is tried again in an hour", job, extra=ids)
            return False
        log.warning("the files of %s, which no record has named for %.0f days, were deleted", job, days, extra=ids)
        return True

    def _log_new(self, jobs: Iterable[str]) -> None:
        """Log the folders that are without a record now and were not before."""
        if names := list(jobs):
            more = f" and {len(names) - _MOST_NAMED} others" if len(names) > _MOST_NAMED else ""
            log.warning(
                "%d folders of jobs have no record: %s%s. The folders are deleted after a while, unless a restored "
                "backup names them",
                len(names),
                ", ".join(names[:_MOST_NAMED]),
                more,
            )
