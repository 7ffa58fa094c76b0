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
        #: By workload; of those that still wait.
        self.told: dict[str, Told] = {}

    @property
    def outcomes(self) -> list[tuple[float, float]]:
        """What it has learnt: give it to the next one."""
        return self._calibration.outcomes()

    def tell(self, expected: Mapping[str, Seconds | None], now: Instant) -> dict[str, WaitRange]:
        """The range for each expected wait; nothing is told where nothing could be seen."""
        late = [(told.expected, Seconds(now - told.at)) for told in self.told.values()]
        ranges: dict[str, WaitRange] = {}
        for name, wait in expected.items():
            if wait is not None:
                ranges[name] = self._calibration.range(wait, late)
                self.told.setdefault(name, Told(at=now, expected=wait, range=ranges[name]))
        return ranges

    def started(self, workload: str, at: Instant) -> Told | None:
        """Its wait is over: learn from it. What had been told, if anything was."""
        told = self.told.pop(workload, None)
        if told is not None:
            self._calibration.add(told.expected, Seconds(max(0.0, at - told.at)), told.range)
        return told

    def withdrawn(self, workload: str) -> None:
        """It does not wait any more and has not started: nothing is learnt."""
        self.told.pop(workload, None)
