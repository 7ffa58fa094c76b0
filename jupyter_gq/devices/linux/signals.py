"""The sending of a signal to exactly one process of this machine.

Rules
-----
- Exactly this process: the process is held by a handle while its start time is compared, so the signal never reaches
  a later process with the same id.
"""

import errno
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from .processes import ProcessId, read_process


def _is_wanted() -> bool:
    return True


def send_signal(pid: int, ticks: int, number: signal.Signals) -> bool:
    """Send a signal to exactly this process, and return True; return False if it is gone or may not be signalled."""
    with suppress(PermissionError):
        return deliver_signal(ProcessId(pid, ticks), number)
    return False


def deliver_signal(process: ProcessId, number: signal.Signals, is_wanted: Callable[[], bool] = _is_wanted) -> bool:
    """Send a signal to exactly this process; return False if the process is gone or `is_wanted` returns False.

    `is_wanted` is called while the process is held. Raises `PermissionError` if this program may not signal it.
    """
    with suppress(ProcessLookupError):
        handle = _open_handle(process.pid)
        try:
            # Checked while the handle is open: the id cannot be given to another process in between.
            found = read_process(process.pid)
            if found is None or found.ticks != process.ticks or not is_wanted():
                return False
            if handle is None:
                os.kill(process.pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
            return True
        finally:
            if handle is not None:
                os.close(handle)
    return False


def _open_handle(pid: int) -> int | None:
    """Open a pidfd of a process; return None if the kernel, or the filter of a container, does not allow it."""
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM):
            return None
        raise
