"""The times of runs that are stopping, which only this process knows: all by the clock of the time awake."""

from collections.abc import Callable
from dataclasses import dataclass, field

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.workload import RunKey, Stop

from .other_runs import STOP_AGAIN


@dataclass(frozen=True, kw_only=True, slots=True)
class _Told:
    """The stop that a run was told, with the first and the last time."""

    stop: Stop
    first: float
    last: float


@dataclass(kw_only=True, slots=True)
class StopTimes:
    """The times of one run that is stopping."""

    #: Since when this process knows that the share of the run was given back.
    given_back: float | None = None
    #: The stop in force, and when this process could first act on it.
    begun: tuple[Stop, float] | None = None
    told: _Told | None = None

    def count_given_back(self, now: float) -> Seconds:
        """Return the seconds since the first call. Call it only once the share of the run was given back."""
        if self.given_back is None:
            self.given_back = now
        return Seconds(now - self.given_back)

    def count(self, stop: Stop, now: float) -> Seconds:
        """Return the seconds since the first call with this stop; the first call with another stop returns 0 again."""
        if self.begun is None or self.begun[0] != stop:
            self.begun = (stop, now)
        return Seconds(now - self.begun[1])

    def find_start_of_grace(self, stop: Stop, grace: Seconds, now: float) -> float | None:
        """Return the start of the grace if the run must be told of this stop now; None if it need not be told.

        For a stop that the run was not told yet, the grace starts `now`. After the end of the grace the run is told
        again every `STOP_AGAIN` seconds, and the start stays that of the first time.
        """
        if self.told is None or self.told.stop != stop:
            return now
        is_due = now >= max(self.told.last, self.told.first + grace) + STOP_AGAIN
        return self.told.first if is_due else None

    def note_told(self, stop: Stop, first: float, now: float) -> None:
        """Record that the run was told of this stop, whose grace began at `first`."""
        self.told = _Told(stop=stop, first=first, last=now)


@dataclass(slots=True)
class StoppingRuns:
    """The times of all runs that are stopping."""

    _times: dict[RunKey, StopTimes] = field(default_factory=dict)

    def of(self, key: RunKey) -> StopTimes:
        """Return the times of a run, which are kept from now on; empty ones for a new run."""
        return self._times.setdefault(key, StopTimes())

    def drop(self, is_present_run: Callable[[str, int], bool]) -> None:
        """Forget each run for whose workload id and number `is_present_run` returns False."""
        self._times = {key: times for key, times in self._times.items() if is_present_run(*key)}
