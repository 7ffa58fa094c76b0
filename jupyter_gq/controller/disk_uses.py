"""The disk space that the files of jobs take on this machine, as it was measured last: of each job and of each user."""

from collections import Counter
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field

from jupyter_gq.domain.amount import Instant, MiB


@dataclass(frozen=True, kw_only=True, slots=True)
class DiskUse:
    """The disk space of the files of one job."""

    #: The user; "" if no record names the job.
    owner: str
    used: MiB
    measured_at: Instant


@dataclass(kw_only=True, slots=True)
class DiskUses:
    """The last measurements of all jobs with files on this machine; empty on a cluster."""

    _jobs: dict[str, DiskUse] = field(default_factory=dict)

    def record(self, job: str, use: DiskUse) -> None:
        """Store a measurement in place of the earlier one of that job."""
        self._jobs[job] = use

    def forget(self, job: str) -> None:
        """Delete the measurement of a job, if there is one."""
        self._jobs.pop(job, None)

    def forget_others(self, jobs: Collection[str]) -> None:
        """Delete the measurements of all jobs but these."""
        self._jobs = {job: use for job, use in self._jobs.items() if job in jobs}

    def least_recent(self, jobs: Collection[str], most: int) -> list[str]:
        """Return at most `most` of these jobs: first jobs that were never measured, then jobs measured longest ago."""
        return sorted(jobs, key=lambda job: (self._jobs[job].measured_at if job in self._jobs else -1, job))[:most]

    def of_user(self, user: str) -> MiB:
        """Return the space of all measured files of a user's jobs."""
        return MiB(sum(use.used for use in self._jobs.values() if use.owner == user))

    def largest_job(self, user: str, besides: Container[str]) -> tuple[str, MiB] | None:
        """Return the id of the user's job whose files take most space, and that space.

        The jobs in `besides` are left out. Returns None if no other job of the user was measured.
        """
        own = [(use.used, job) for job, use in self._jobs.items() if use.owner == user and job not in besides]
        if not own:
            return None
        used, job = max(own)
        return job, used

    def of_users(self) -> Mapping[str, int]:
        """Return the bytes that all measured files of each user's jobs take."""
        totals: Counter[str] = Counter()
        for use in self._jobs.values():
            if use.owner:
                totals[use.owner] += use.used * 2**20
        return totals
