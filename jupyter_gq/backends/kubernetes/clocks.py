"""The backend's two clocks: one to count by, one to tell the time.

The threads that watch the API server measure with `monotonic`; no other module of this backend reads a clock.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Clocks:
    """Two clocks, so that waits, pauses and losses do not depend on who sets the clock of the machine."""

    #: Seconds since some moment in the past: nobody sets this clock. For all that is decided.
    elapsed: Callable[[], float]
    #: Seconds since the epoch. For what people read.
    now: Callable[[], float]


def monotonic() -> float:
    """Return seconds since an arbitrary point; changes of the system clock do not affect them."""
    return time.monotonic()
