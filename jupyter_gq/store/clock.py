"""The clock of the commands on a database: the only module of this room that reads one."""

import time

from jupyter_gq.domain.amount import Instant


def now() -> Instant:
    """Return the time in seconds since the epoch, UTC."""
    return Instant(time.time())
