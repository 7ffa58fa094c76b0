"""The disk space that the files of jobs take on this machine, as it was measured last: of each job and of each user."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from jupyter_gq.domain.amount import Instant, MiB, format_memory

#: Users that are named in the description of all users.
_MOST_NAMED = 10


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

    def forget_others(self, jobs: Collection[str]) -> None:
        """Delete the measurements of all jobs but these."""
        self._jobs = {job: use for job, use in self._jobs.items() if job in jobs}

    def least_recent(self, jobs: Collection[str], most: int) -> list[str]:
        """Return at most `most` of these jobs: first jobs that were never measured, then jobs measured longest ago."""
        return sorted(jobs, key=lambda job: (self._jobs[job].measured_at if job in self._jobs else -1, job))[:most]

    def of_user(self, user: str) -> MiB:
        """Return the space of all measured files of a user's jobs."""
        return MiB(sum(use.used for use in self._jobs.values() if use.owner == user))

    def largest_job(self, user: str) -> tuple[str, MiB]:
        """Return the id of the user's job whose files take most space, and that space.

        Raises `ValueError` if no job of the user was measured.
        """
        own = [(use.used, job) for job, use in self._jobs.items() if use.owner == user]
        used, job = max(own)
        return job, used

    def describe_user(self, user: str, limit: MiB) -> str:
        """Return a phrase such as "12 GiB of at most 500 GiB"; "" below 1 MiB. A `limit` of 0 is none."""
        used = self.of_user(user)
        if not used:
            return ""
        return format_memory(used) + (f" of at most {format_memory(limit)}" if limit else "")

    def describe_users(self, limit: MiB) -> str:
        """Return a phrase with the users whose jobs take most, for admins; "" below 1 MiB."""
        totals: Counter[str] = Counter()
        for use in self._jobs.values():
            if use.owner and use.used:
                totals[use.owner] += use.used
        ranked = sorted(totals, key=lambda user: (-totals[user], user))
        named = [f"{user} {format_memory(MiB(totals[user]))}" for user in ranked[:_MOST_NAMED]]
        if len(ranked) > _MOST_NAMED:
            named.append(f"{len(ranked) - _MOST_NAMED} others with less")
        return ", ".join(named) + (f"; at most {format_memory(limit)} each" if named and limit else "")
