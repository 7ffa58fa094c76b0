"""The clocks of the agent: the only module of this room that reads one."""

import time


def now() -> float:
    """Return the time in seconds since the epoch, UTC."""
    return time.time()


def monotonic() -> float:
    """Return seconds since an arbitrary point; changes of the system clock do not affect them."""
    return time.monotonic()
