"""The only place of the agent that reads the wall clock."""

import time


def now() -> float:
    """Seconds since the epoch, UTC."""
    return time.time_ns() / 1e9
