"""The work that is being deleted, and the jobs of which somebody asked for that, kept across restarts.

Rules
-----
Hidden: requests and lists do not see work that is being deleted, so that nobody gets a part of its output.

Asked for: a request is stored before anything is deleted. Such a job stays hidden until it is gone, also after a
    restart of the service and while its files cannot be deleted.

See docs/decisions/0410-let-users-delete-ended-jobs.md.
"""

import asyncio

from jupyter_gq.domain.audit import AuditEntry
from jupyter_gq.store.protocol import Store

#: Name of the setting with the jobs whose deletion was asked for, and of its only field.
_SETTING, _JOBS = "deletions", "jobs"


class Deletions:
    """The ids of the work that is being deleted."""

    def __init__(self, store: Store) -> None:
        """Load the jobs whose deletion was asked for and has not been completed."""
        self._store = store
        self._requested: list[str] = list((store.setting(_SETTING) or {}).get(_JOBS, ()))
        self._hidden = set(self._requested)
        #: Set when a deletion is asked for.
        self.asked = asyncio.Event()

    def __contains__(self, workload: object) -> bool:
        """Return whether the workload is being deleted, so that requests must not see it."""
        return workload in self._hidden

    @property
    def requested(self) -> tuple[str, ...]:
        """The jobs whose deletion was asked for, in the order of the requests."""
        return tuple(self._requested)

    def request(self, job: str, audit: AuditEntry) -> None:
        """Store that a job is to be deleted, with an entry of the audit log, and hide the job.

        The caller must not request a job that is requested already.
        """
        self._store.put_setting(_SETTING, {_JOBS: [*self._requested, job]}, [audit])
        self._requested.append(job)
        self._hidden.add(job)
        self.asked.set()

    def begin(self, workload: str) -> None:
        """Hide a workload of which something is about to be deleted, until `give_up` or `finish`.

        Nothing is stored: after a restart the workload is shown again, unless its deletion was asked for.
        """
        self._hidden.add(workload)

    def give_up(self, workload: str) -> None:
        """Show a workload again, of which nothing could be deleted, unless its deletion was asked for."""
        if workload not in self._requested:
            self._hidden.discard(workload)

    def finish(self, workload: str) -> None:
        """Forget a workload that is deleted, also in the stored requests."""
        if workload in self._requested:
            left = [job for job in self._requested if job != workload]
            self._store.put_setting(_SETTING, {_JOBS: left})
            self._requested = left
        self._hidden.discard(workload)
