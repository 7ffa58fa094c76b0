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
        """Return the seconds since the first call, which was made once the share of the run had been given back."""
        if self.given_back is None:
            self.given_back = now
        return Seconds(now - self.given_back)

    def count(self, stop: Stop, now: float) -> Seconds:
        """Return the seconds since the first call with this stop: another stop begins anew."""
        if self.begun is None or self.begun[0] != stop:
            self.begun = (stop, now)
        return Seconds(now - self.begun[1])

    def find_start_of_grace(self, stop: Stop, grace: Seconds, now: float) -> float | None:
        """Return when the grace of this stop begins or began; None if the run need not be told of the stop now.

        A run is told once, and after the grace again every `STOP_AGAIN` seconds.
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
        """Return the times of a run, which may be new."""
        return self._times.setdefault(key, StopTimes())

    def drop(self, is_present_run: Callable[[str, int], bool]) -> None:
        """Forget all runs that are not the present run of their workload."""
        self._times = {key: times for key, times in self._times.items() if is_present_run(*key)}
