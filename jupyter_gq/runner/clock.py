"""The only place of the runner that reads clocks."""

import time


def now() -> float:
    """Return the time in seconds since the epoch, UTC."""
    return time.time_ns() / 1e9


def monotonic() -> float:
    """Return seconds since an arbitrary point; changes of the system clock do not affect them."""
    return time.monotonic_ns() / 1e9
