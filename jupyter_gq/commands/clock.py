"""The clock of the commands: the only module of this room that reads one."""

import time


def now() -> float:
    """Return the time in seconds since the epoch, UTC."""
    return time.time()


def monotonic() -> float:
    """Return the seconds since an unknown instant, which nobody sets."""
    return time.monotonic()
