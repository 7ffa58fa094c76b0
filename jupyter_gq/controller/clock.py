"""The clock of the service: the only module of its process that reads the clocks of the machine."""

import time
from typing import Protocol

from jupyter_gq.domain.amount import Instant


class Clock(Protocol):
    """A source of time, which tests replace."""

    def now(self) -> Instant:
        """Return the time in seconds since the epoch, UTC. Use it for times that people read or that are stored."""
        ...

    def elapsed(self) -> float:
        """Return seconds since some moment in the past. Use it to wait and to measure: nobody can set this clock."""
        ...


#: A clock that nobody sets. On Linux it also counts while the machine sleeps.
_NEVER_SET = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The clock that reads the clocks of the machine."""

    def now(self) -> Instant:
        """Return the time in seconds since the epoch, UTC."""
        return Instant(time.time())

    def elapsed(self) -> float:
        """Return seconds since some moment in the past, including the time for which the machine slept."""
        return time.clock_gettime(_NEVER_SET)
