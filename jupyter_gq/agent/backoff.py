"""How long to wait before the next attempt."""

from collections.abc import Callable

#: Seconds. The most is well below the time after which a reservation without a word of its agent is given up (30 s).
FIRST, MOST = 1.0, 10.0


class Backoff:
    """Twice as long after each failure, up to a most, and by chance between half and all of that.

    Agents that lost the service at the same moment should not come back at the same moment.
    """

    def __init__(self, draw: Callable[[], float], *, first: float = FIRST, most: float = MOST) -> None:
        """`draw` gives chance, from 0 to 1."""
        self._draw, self._first, self._most = draw, first, most
        self._next = first

    def next(self) -> float:
        """Return the seconds to wait after one more failure."""
        waits, self._next = self._next, min(self._most, self._next * 2)
        return waits * (0.5 + self._draw() / 2)

    def reset(self) -> None:
        """Begin again with the first pause, after a success."""
        self._next = self._first
