"""The forecasts that users were told, and what is learnt from how they turned out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from jupyter_gq.domain.amount import Instant, Seconds

from .calibration import Calibration, WaitRange


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedForecast:
    """The first forecast that was stated for one wait."""

    at: Instant
    expected: Seconds
    range: WaitRange


class Forecaster:
    """A forecaster that states a range for each expected wait (see `forecast`), and learns from actual waits."""

    def __init__(self, outcomes: Iterable[tuple[float, float]] = ()) -> None:
        """Begin with the outcomes of an earlier forecaster, as its `outcomes` has them."""
        self._calibration = Calibration()
        self._calibration.remember(outcomes)
        #: Forecasts of workloads that still wait, by id.
        self.stated: dict[str, StatedForecast] = {}

    @property
    def outcomes(self) -> list[tuple[float, float]]:
        """The outcomes so far: (expected seconds, actual wait divided by them), for the next forecaster."""
        return self._calibration.outcomes()

    def state_ranges(self, expected: Mapping[str, Seconds | None], now: Instant) -> dict[str, WaitRange]:
        """Return the range for each expected wait, by id of the workload; no range for a wait of None.

        The first range of each workload is kept until `record_start` or `forget_withdrawn`.
        """
        late = self._list_late(now)
        ranges: dict[str, WaitRange] = {}
        for name, wait in expected.items():
            if wait is not None:
                ranges[name] = self._calibration.range(wait, late)
                self.stated.setdefault(name, StatedForecast(at=now, expected=wait, range=ranges[name]))
        return ranges

    def range_of(self, wait: Seconds, now: Instant) -> WaitRange:
        """Return the range for an expected wait that is never compared with an actual one; nothing is kept."""
        return self._calibration.range(wait, self._list_late(now))

    def _list_late(self, now: Instant) -> list[tuple[Seconds, Seconds]]:
        """Return (expected seconds, waited seconds so far) of all forecasts whose waits have not ended."""
        return [(stated.expected, Seconds(now - stated.at)) for stated in self.stated.values()]

    def record_start(self, workload: str, at: Instant) -> StatedForecast | None:
        """Learn from a wait that has ended with a start at `at`, and forget its forecast.

        Returns the first forecast that was stated for the wait; None if none was.
        """
        stated = self.stated.pop(workload, None)
        if stated is not None:
            self._calibration.add(stated.expected, Seconds(max(0.0, at - stated.at)), stated.range)
        return stated

    def move(self, seconds: float) -> None:
        """Move the forecasts of waits that last by a jump of the clock, which is then no part of the waits."""
        moved = {name: replace(each, at=Instant(each.at + seconds)) for name, each in self.stated.items()}
        self.stated.update(moved)

    def forget_withdrawn(self, workload: str) -> None:
        """Forget the forecast of a wait that ended without a start; nothing is learnt."""
        self.stated.pop(workload, None)
