"""The only place of the runner that reads the wall clock."""

import time


def now() -> float:
    """Seconds since the epoch, UTC."""
    return time.time_ns() / 1e9
