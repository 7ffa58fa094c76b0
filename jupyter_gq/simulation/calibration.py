"""Calibration of forecasts: it makes of an expected wait a range that holds as often as the range says."""

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
    """The range of a wait, in seconds from now: half of such waits end before `p50`, nine of ten before `p90`."""

    p50: Seconds
    p90: Seconds
    #: Outcomes that it rests on; 0 = a guess.
    outcomes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Outcome:
    """How one forecast turned out: the expected wait in seconds, and the actual wait divided by it."""

    expected: float
    ratio: float


class Calibration:
    """The outcomes of earlier forecasts, and the ranges of new ones that follow from them."""

    def __init__(self) -> None:
        self._outcomes: deque[_Outcome] = deque(maxlen=REMEMBERED)
        #: The quantiles of the similar outcomes that are stated as p50 and p90.
        self._part50, self._part90 = 0.5, 0.9

    def outcomes(self) -> list[tuple[float, float]]:
        """Return (expected seconds, actual wait divided by them) of each outcome, oldest first, for `remember`."""
        return [(outcome.expected, outcome.ratio) for outcome in self._outcomes]

    def remember(self, outcomes: Iterable[tuple[float, float]]) -> None:
        """Add the outcomes of an earlier calibration, as its `outcomes` returned them."""
        self._outcomes.extend(_Outcome(expected=expected, ratio=ratio) for expected, ratio in outcomes)

    def add(self, expected: Seconds, actual: Seconds, stated: WaitRange | None = None) -> None:
        """Add the outcome of a wait: its expected and actual seconds, and the range that was stated, if any.

        A stated range that rests on outcomes also moves the quantiles of later ranges.
        """
        if stated is not None and stated.outcomes:
            self._part50 = _moved(self._part50, 0.5, within=actual <= stated.p50)
            self._part90 = max(self._part50, _moved(self._part90, 0.9, within=actual <= stated.p90))
        self._outcomes.append(_Outcome(expected=expected, ratio=(actual + _MOMENT) / (expected + _MOMENT)))

    def range(self, expected: Seconds, still_waiting: Sequence[tuple[Seconds, Seconds]] = ()) -> WaitRange:
        """Return the range for an expected wait, from the outcomes of the `ASKED` most similar expected waits.

        With fewer than `ENOUGH` of them, the range is a guess from the expected wait to three times that.
        `still_waiting` holds (expected, waited so far) of forecasts without an outcome yet. A wait that has outlasted
        its forecast counts as if it ended now; without such waits, long ones would be forgotten.
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
    """Return the quantile after one more outcome: a little lower if the wait was within the range, else higher.

    The result is at least 0.01 and at most 0.99.
    """
    return min(0.99, max(0.01, part + _RATE * (target - within)))


def _distance(one: float, other: float) -> float:
    """Return how unlike two expected waits in seconds are: the absolute logarithm of their ratio."""
    return abs(math.log((one + _MOMENT) / (other + _MOMENT)))


def _stretched(expected: float, ratio: float) -> Seconds:
    """Return the expected wait times the ratio, in seconds, at least 0."""
    return Seconds(max(0.0, (expected + _MOMENT) * ratio - _MOMENT))


def _quantile(ascending: Sequence[float], part: float) -> float:
    """Return the value of rank ceil(part * (n + 1)) among n ascending values, or the largest if that rank exceeds n.

    There must be at least one value. The + 1 corrects for a small number of values.
    """
    return ascending[min(len(ascending) - 1, math.ceil(part * (len(ascending) + 1)) - 1)]
