"""The clocks of the Jupyter server: the only module of this room that reads one."""

import time
from collections.abc import Callable

from jupyter_server._tz import utcnow


def now() -> float:
    """Return the time in seconds since the epoch, UTC, by the clock of the kernels' `last_activity`."""
    return utcnow().timestamp()


def monotonic() -> float:
    """Return seconds since an arbitrary point; changes of the system clock do not affect them."""
    return time.monotonic()


#: Seconds below which two clocks have only drifted apart between two measurements.
_LEAST_JUMP = 2.0


class JumpMeter:
    """A meter of the jumps of the wall clock, by the clock that nobody sets."""

    def __init__(self, wall: Callable[[], float] = now, steady: Callable[[], float] = monotonic) -> None:
        """Begin with the clocks as they are; `wall` and `steady` return seconds."""
        self._wall, self._steady = wall, steady
        self._ahead = wall() - steady()

    def measure(self) -> float:
        """Return by how many seconds the wall clock was set since the last call or the beginning; + = forward.

        0.0 for less than `_LEAST_JUMP`, which is a drift, and if this process was held up meanwhile: the next call then
        tells the jump. The time for which the machine slept counts too, where the other clock stands still meanwhile.
        """
        before, ahead = self._steady(), self._wall() - self._steady()
        if self._steady() - before >= _LEAST_JUMP / 2:  # this process was held up between the readings
            return 0.0
        jump, self._ahead = ahead - self._ahead, ahead
        return jump if abs(jump) >= _LEAST_JUMP else 0.0
