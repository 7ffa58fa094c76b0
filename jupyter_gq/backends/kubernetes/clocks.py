"""The backend's two clocks: one to count by, one to tell the time."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Clocks:
    """Two clocks, so that waits, pauses and losses do not depend on who sets the clock of the machine."""

    #: Seconds since some moment in the past: nobody sets this clock. For all that is decided.
    elapsed: Callable[[], float]
    #: Seconds since the epoch. For what people read.
    now: Callable[[], float]
