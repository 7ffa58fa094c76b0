"""The backoff of the agent: how long to wait before the next attempt."""

from collections.abc import Callable

#: First and longest wait in seconds. A reservation pod whose agent is silent for 30 s is given up, so the longest wait
#: must be much shorter.
FIRST_WAIT, MAX_WAIT = 1.0, 10.0


class ExponentialBackoff:
    """A wait that doubles after each failure, up to a maximum. Each one is shortened at random, at most to its half.

    The random part keeps agents that lost the service at the same moment from coming back at the same moment.
    """

    def __init__(
        self, random_fraction: Callable[[], float], *, first: float = FIRST_WAIT, longest: float = MAX_WAIT
    ) -> None:
        """Create a backoff with waits from `first` to `longest` seconds.

        `random_fraction` returns a random number from 0 to 1.
        """
        self._random_fraction, self._first, self._longest = random_fraction, first, longest
        self._next = first

    def next(self) -> float:
        """Record a failure; return the seconds to wait after it."""
        wait, self._next = self._next, min(self._longest, self._next * 2)
        return wait * (0.5 + self._random_fraction() / 2)

    def reset(self) -> None:
        """Record a success: the next failure is followed by the first, shortest wait."""
        self._next = self._first
