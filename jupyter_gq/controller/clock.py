"""The only place that reads the clock."""

import time
from typing import Protocol

from jupyter_gq.domain.amount import Instant


class Clock(Protocol):
    """Tells the time; tests pass one of their own."""

    def now(self) -> Instant:
        """Seconds since the epoch, UTC."""
        ...


#: Linux has one that counts what the machine has slept.
_NEVER_SET = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The clock of the machine."""

    def now(self) -> Instant:
        """Seconds since the epoch, UTC."""
        return Instant(time.time())

    def elapsed(self) -> float:
        """Seconds since some moment in the past: nobody sets this clock, and it goes on while the machine sleeps."""
        return time.clock_gettime(_NEVER_SET)
