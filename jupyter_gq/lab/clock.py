"""The clock of the Jupyter server, which its kernels' `last_activity` uses too."""

from jupyter_server._tz import utcnow


def now() -> float:
    """Return the time in seconds since the epoch, UTC."""
    return utcnow().timestamp()
