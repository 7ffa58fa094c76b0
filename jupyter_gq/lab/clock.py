"""The Jupyter server's own clock: the one in which its kernels' `last_activity` stands."""

from jupyter_server._tz import utcnow


def now() -> float:
    """Seconds since the epoch, UTC."""
    return utcnow().timestamp()
