"""The only place that reads the clock."""

import time
from typing import Protocol

from jupyter_gq.domain.amount import Instant


class Clock(Protocol):
    """Tells the time; tests pass one of their own."""

    def now(self) -> Instant:
        """Seconds since the epoch, UTC."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> Instant:
        """Seconds since the epoch, UTC."""
        return Instant(time.time())
