"""Baseline policies that the product is compared with.

In the first a queue uses its own GPUs only; in the second all queues share one line.
"""

from collections.abc import Mapping, Sequence

from jupyter_gq.domain.amount import Instant

from .replay import Start
from .trace import TraceJob


class Fifo:
    """A baseline policy: jobs start in order of submission, and each queue has GPUs of its own."""

    def __init__(self, milli: Mapping[str, int], *, backfill: bool = False) -> None:
        #: What is free, by line.
        self._free = dict(milli)
        self._lines: dict[str, list[TraceJob]] = {name: [] for name in milli}
        self._backfill = backfill
        self._changed: set[str] = set()

    def line(self, job: TraceJob) -> str:
        """Return the name of the line in which a job waits: its queue."""
        return job.queue

    def submitted(self, job: TraceJob) -> None:
        """Add a job to the end of its line."""
        line = self.line(job)
        self._lines[line].append(job)
        self._changed.add(line)

    def ended(self, job: TraceJob) -> None:
        """Add the GPUs of a job that has ended to the free ones of its line."""
        line = self.line(job)
        self._free[line] += job.milli
        self._changed.add(line)

    def decide(self, now: Instant) -> Sequence[Start]:
        """Return a start for the first job of each line as long as it fits; with backfill, for every job that fits.

        Started jobs leave their line, and their GPUs are no longer free.
        """
        moves: list[Start] = []
        for line in sorted(self._changed):
            rest: list[TraceJob] = []
            for place, job in enumerate(self._lines[line]):
                if job.milli <= self._free[line]:
                    self._free[line] -= job.milli
                    moves.append(Start(job=job.id))
                elif self._backfill:
                    rest.append(job)
                else:
                    rest = self._lines[line][place:]
                    break
            self._lines[line] = rest
        self._changed.clear()
        return moves

    def wake_at(self, now: Instant) -> Instant | None:
        """Return None: time alone changes nothing."""
        return None


class PooledFifo(Fifo):
    """A baseline policy: jobs of all queues start in order of submission, from one set of GPUs."""

    def __init__(self, milli: int) -> None:
        super().__init__({"": milli})

    def line(self, job: TraceJob) -> str:
        """Return the name of the only line."""
        return ""
