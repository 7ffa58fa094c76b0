"""The clocks of the Hub's room: the only module of this room that reads one."""

import time


def monotonic() -> float:
    """Return seconds since an arbitrary point; changes of the system clock do not affect them."""
    return time.monotonic()
