"""The clocks of the Jupyter server: the only module of this room that reads one."""

import time

from jupyter_server._tz import utcnow


def now() -> float:
    """Return the time in seconds since the epoch, UTC, by the clock of the kernels' `last_activity`."""
    return utcnow().timestamp()


def monotonic() -> float:
    """Return seconds since an arbitrary point; changes of the system clock do not affect them."""
    return time.monotonic()
