"""The clock of the service: the only module of this room that reads the clocks of the machine."""

import time
from typing import Protocol

from jupyter_gq.domain.amount import Instant


class Clock(Protocol):
    """A source of time, which tests replace."""

    def now(self) -> Instant:
        """Return the time in seconds since the epoch, UTC. Use it for times that people read or that are stored."""
        ...

    def elapsed(self) -> float:
        """Return the seconds since some fixed moment, to wait and to measure; nobody can set this clock."""
        ...

    def awake(self) -> float:
        """Return the seconds for which the machine has been awake since some fixed moment; nobody can set this clock.

        Use it for the time that others have to act, such as the grace of a run: while the machine sleeps, so do they.
        See docs/decisions/0215-measure-what-lasts-by-a-clock-that-nobody-sets.md.
        """
        ...


#: A clock that nobody sets. On Linux it also counts while the machine sleeps.
_NEVER_SET = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The clock that reads the clocks of the machine."""

    def now(self) -> Instant:
        """Return the time in seconds since the epoch, UTC."""
        return Instant(time.time())

    def elapsed(self) -> float:
        """Return the seconds since some fixed moment; nobody can set this clock. On Linux, time asleep counts too."""
        return time.clock_gettime(_NEVER_SET)

    def awake(self) -> float:
        """Return the seconds for which the machine has been awake since some fixed moment."""
        return time.monotonic()
