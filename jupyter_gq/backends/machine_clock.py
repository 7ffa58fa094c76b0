"""The clock of this machine, as the backends of one machine need it."""

from typing import Protocol


class MachineClock(Protocol):
    """A clock of which one hand tells the time, and the other one counts and is set by nobody."""

    def now(self) -> float:
        """Return the time in seconds since the epoch."""
        ...

    def awake(self) -> float:
        """Return the seconds for which the machine has been awake since some fixed moment; for all deadlines."""
        ...
