"""The lock on a state folder: one living service works in it.

Two services on one folder would take the database from each other for ever, each started again by a Hub of its own.
"""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from jupyter_gq.domain.errors import AdminError

_NAME = "lock"
#: Seconds for which a predecessor may take to end, and seconds between two attempts.
_PATIENCE, _PAUSE = 10.0, 0.2


@contextlib.contextmanager
def lock_folder(
    folder: Path, *, patience: float = _PATIENCE, sleep: Callable[[float], None] = time.sleep
) -> Iterator[None]:
    """Hold the lock of a state folder, which is made if it is missing; the lock ends with the process at the latest.

    Waits `patience` seconds for a predecessor that is ending. Raises `AdminError` with the number of the process that
    holds the lock after that, or if the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise AdminError(
            f"The state folder {folder} cannot be used: {error.strerror}. Make it writable for the account of the Hub, "
            "or set c.SchedulerService.state_dir to another folder."
        ) from error
    try:
        _wait_for_lock(file, folder, patience, sleep)
        os.ftruncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        yield
    finally:
        os.close(file)


def _wait_for_lock(file: int, folder: Path, patience: float, sleep: Callable[[float], None]) -> None:
    """Take the lock; raise `AdminError` if another process still holds it after `patience` seconds."""
    for _ in range(max(1, round(patience / _PAUSE))):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise AdminError(
                    f"The state folder {folder} cannot be locked: {error.strerror}. Use a folder on a local disk."
                ) from error
            sleep(_PAUSE)
        else:
            return
    holder = os.pread(file, 20, 0).decode(errors="replace").strip() or "of an unknown number"
    raise AdminError(
        f"Another scheduler service, process {holder}, works in the state folder {folder}. Stop the Hub that runs it, "
        "or give this Hub a folder of its own: c.SchedulerService.state_dir."
    )
