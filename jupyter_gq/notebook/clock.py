"""The clocks of code in a kernel: the only module of this room that reads one."""

from __future__ import annotations

import time


def now() -> float:
    """Return the time in seconds since the epoch."""
    return time.time()


def monotonic() -> float:
    """Return seconds since an arbitrary point; changes of the system clock do not affect them."""
    return time.monotonic()
