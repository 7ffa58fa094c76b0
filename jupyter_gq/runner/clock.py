"""The only place of the runner that reads clocks."""

import time


def now() -> float:
    """Seconds since the epoch, UTC."""
    return time.time_ns() / 1e9


def steady() -> float:
    """Seconds that go on steadily, from some point."""
    return time.monotonic_ns() / 1e9
