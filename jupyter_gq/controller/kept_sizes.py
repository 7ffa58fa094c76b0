"""The sizes of what the database keeps of each job, as they were measured last."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(kw_only=True, slots=True)
class KeptSizes:
    """The last measurements of all jobs that were measured since the start of the service."""

    #: The owner of each job, and bytes.
    _jobs: dict[str, tuple[str, int]] = field(default_factory=dict)

    def __contains__(self, job: object) -> bool:
        """Return whether the job was measured."""
        return job in self._jobs

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the jobs that were measured."""
        return iter(self._jobs)

    def record(self, job: str, owner: str, size: int) -> None:
        """Store a measurement in bytes in place of the earlier one of that job."""
        self._jobs[job] = owner, size

    def forget(self, job: str) -> None:
        """Delete the measurement of a job, if there is one."""
        self._jobs.pop(job, None)

    def forget_others(self, jobs: Container[str]) -> None:
        """Delete the measurements of all jobs except those in `jobs`."""
        self._jobs = {job: kept for job, kept in self._jobs.items() if job in jobs}

    def of_users(self) -> Mapping[str, int]:
        """Return the bytes that the database keeps of the measured jobs of each user."""
        totals: Counter[str] = Counter()
        for owner, size in self._jobs.values():
            totals[owner] += size
        return totals

    def largest(self, user: str, besides: Container[str]) -> tuple[str, int] | None:
        """Return the user's measured job of which the database keeps most, and the bytes that it keeps.

        The jobs in `besides` are left out, and so are those of which nothing is kept. Returns None if none is left.
        """
        known = self._jobs.items()
        own = [(size, job) for job, (owner, size) in known if owner == user and size and job not in besides]
        if not own:
            return None
        size, job = max(own)
        return job, size
