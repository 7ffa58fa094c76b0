"""The times at which runs ended, also of runs that ended while no service watched.

Rules
-----
- A run ended when the last of its tasks wrote its result. The file system tells when that was: user code can write a
  file anew, but cannot make it look older.
- A run did not end before its launch, nor before it was last seen alive, nor later than now.
- Without a result of every task, a run ended when that was seen.
"""

from collections.abc import Callable

from jupyter_gq.domain.amount import Instant

from .ledger import Run
from .task_results import TaskResults


class RunEnds:
    """A memory of when each run was last seen alive, from which the end of a run follows."""

    def __init__(self, results: TaskResults, now: Callable[[], float]) -> None:
        """Create an empty memory; `now` returns the seconds since the epoch."""
        self._results, self._now = results, now
        self._alive: dict[tuple[str, int], float] = {}

    def see_alive(self, run: Run) -> None:
        """Record that the run has processes now."""
        self._alive[run.key] = self._now()

    def find_end(self, run: Run) -> Instant:
        """Return when a run without processes ended."""
        now = self._now()
        written = [self._results.written_at(run, task) for task in run.numbers]
        ended = max((now if at is None else at for at in written), default=now)
        return Instant(min(now, max(run.launched_at, self._alive.get(run.key, 0.0), ended)))

    def forget(self, key: tuple[str, int]) -> None:
        """Drop what is known of a run."""
        self._alive.pop(key, None)
