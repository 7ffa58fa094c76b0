"""Calibration: from an expected wait to a range that holds as often as it says."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jupyter_gq.domain.amount import Seconds

#: So many recent outcomes are remembered, and so many of the most similar ones asked.
REMEMBERED, ASKED = 1000, 100
#: Below so many outcomes the range is a guess: from the expected wait to three times that.
ENOUGH = 20
_GUESS = 3.0
#: How far one outcome moves a quantile.
_RATE = 0.03
#: Added to both sides of a ratio, in seconds: nobody cares whether it is one second or ten.
_MOMENT = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitRange:
    """Half of those who are told this start before `p50`, nine of ten before `p90`: seconds from now."""

    p50: Seconds
    p90: Seconds
    #: Outcomes that it rests on; 0 = a guess.
    outcomes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Outcome:
    expected: float
    ratio: float


class Calibration:
    """Remembers how forecasts turned out."""

    def __init__(self) -> None:
        self._outcomes: deque[_Outcome] = deque(maxlen=REMEMBERED)
        #: The quantiles of the similar outcomes that are stated as p50 and p90.
        self._part50, self._part90 = 0.5, 0.9

    def outcomes(self) -> list[tuple[float, float]]:
        """(expected, ratio) of each, oldest first: what `remember` takes up."""
        return [(outcome.expected, outcome.ratio) for outcome in self._outcomes]

    def remember(self, outcomes: Iterable[tuple[float, float]]) -> None:
        """Take up what an earlier one knew."""
        self._outcomes.extend(_Outcome(expected=expected, ratio=ratio) for expected, ratio in outcomes)

    def add(self, expected: Seconds, actual: Seconds, stated: WaitRange | None = None) -> None:
        """A wait that was expected to last so long lasted so long; `stated` is the range that had been told of it."""
        if stated is not None and stated.outcomes:
            self._part50 = _moved(self._part50, 0.5, within=actual <= stated.p50)
            self._part90 = max(self._part50, _moved(self._part90, 0.9, within=actual <= stated.p90))
        self._outcomes.append(_Outcome(expected=expected, ratio=(actual + _MOMENT) / (expected + _MOMENT)))

    def range(self, expected: Seconds, still_waiting: Sequence[tuple[Seconds, Seconds]] = ()) -> WaitRange:
        """The range for an expected wait.

        `still_waiting`: (expected, waited so far) of forecasts without an outcome yet. Those that have outlasted what
        was expected count as if they ended now; without them long waits would be forgotten.
        """
        late = [
            _Outcome(expected=before, ratio=(waited + _MOMENT) / (before + _MOMENT))
            for before, waited in still_waiting
            if waited > before
        ]
        similar = sorted([*self._outcomes, *late], key=lambda outcome: _distance(outcome.expected, expected))[:ASKED]
        if len(similar) < ENOUGH:
            return WaitRange(p50=expected, p90=Seconds(expected * _GUESS), outcomes=0)
        ratios = sorted(outcome.ratio for outcome in similar)
        return WaitRange(
            p50=_stretched(expected, _quantile(ratios, self._part50)),
            p90=_stretched(expected, _quantile(ratios, self._part90)),
            outcomes=len(similar),
        )


def _moved(part: float, target: float, *, within: bool) -> float:
    return min(0.99, max(0.01, part + _RATE * (target - within)))


def _distance(one: float, other: float) -> float:
    return abs(math.log((one + _MOMENT) / (other + _MOMENT)))


def _stretched(expected: float, ratio: float) -> Seconds:
    return Seconds(max(0.0, (expected + _MOMENT) * ratio - _MOMENT))


def _quantile(ascending: Sequence[float], part: float) -> float:
    """With the finite-sample correction: the next one up."""
    return ascending[min(len(ascending) - 1, math.ceil(part * (len(ascending) + 1)) - 1)]
