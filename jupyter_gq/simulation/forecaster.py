"""Forecasts that are told, and what is learnt from how they turned out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jupyter_gq.domain.amount import Instant, Seconds

from .calibration import Calibration, WaitRange


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """The first forecast of one wait."""

    at: Instant
    expected: Seconds
    range: WaitRange


class Forecaster:
    """Makes ranges of expected waits (see `forecast`), and is told what happened."""

    def __init__(self, outcomes: Iterable[tuple[float, float]] = ()) -> None:
        self._calibration = Calibration()
        self._calibration.remember(outcomes)
        #: Forecasts of workloads that still wait, by id.
        self.told: dict[str, Told] = {}

    @property
    def outcomes(self) -> list[tuple[float, float]]:
        """Return what was learnt, for the next forecaster."""
        return self._calibration.outcomes()

    def tell(self, expected: Mapping[str, Seconds | None], now: Instant) -> dict[str, WaitRange]:
        """Return the range for each expected wait; no range for a wait that could not be foreseen."""
        late = [(told.expected, Seconds(now - told.at)) for told in self.told.values()]
        ranges: dict[str, WaitRange] = {}
        for name, wait in expected.items():
            if wait is not None:
                ranges[name] = self._calibration.range(wait, late)
                self.told.setdefault(name, Told(at=now, expected=wait, range=ranges[name]))
        return ranges

    def started(self, workload: str, at: Instant) -> Told | None:
        """Learn from a wait that is over; return what had been told of it, if anything was."""
        told = self.told.pop(workload, None)
        if told is not None:
            self._calibration.add(told.expected, Seconds(max(0.0, at - told.at)), told.range)
        return told

    def withdrawn(self, workload: str) -> None:
        """Forget a wait that ended without a start; nothing is learnt."""
        self.told.pop(workload, None)
