"""The lock on a state folder: only one service at a time works in the folder.

Two services on one folder would take the database from each other for ever, since the Hub of each starts it again.
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
#: Seconds that a service which ends may still hold the lock, and seconds between two attempts.
_TIMEOUT, _PAUSE = 10.0, 0.2


@contextlib.contextmanager
def lock_folder(
    folder: Path, *, timeout: float = _TIMEOUT, sleep: Callable[[float], None] = time.sleep
) -> Iterator[None]:
    """Hold the lock of a state folder during the block, or until the process ends. Make the folder if it is missing.

    Waits at most `timeout` seconds for an earlier service that is ending. Raises `AdminError` with the id of the
    process that still holds the lock then; at once if the folder cannot be written, or locked as on some network file
    systems.
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
        _wait_for_lock(file, folder, timeout, sleep)
        os.ftruncate(file, 0)
        with contextlib.suppress(OSError):  # on a full disk the lock works too, and only does not say who holds it
            os.write(file, str(os.getpid()).encode())
        yield
    finally:
        os.close(file)


def is_locked(folder: Path) -> bool:
    """Return whether a service works in a state folder; False if the folder is missing."""
    try:
        file = os.open(folder / _NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def _wait_for_lock(file: int, folder: Path, timeout: float, sleep: Callable[[float], None]) -> None:
    """Take the lock; raise `AdminError` if another process still holds it after `timeout` seconds."""
    for _ in range(max(1, round(timeout / _PAUSE))):
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
