"""Files in a job's folder: written atomically, readable by their owner alone, and read without following a link."""

import errno
import os
import stat
from pathlib import Path

from .accounts import Account, acting_as

#: Errors of the operating system for a full disk or an exhausted disk quota.
DISK_FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})


def read_owned(path: Path, account: Account, *, tail: int | None = None) -> bytes | None:
    """Return the content of a regular file of this account, or its last `tail` bytes.

    Return None if the file is missing, is no regular file, or belongs to another user.
    """
    with acting_as(account):
        try:
            # Without O_NONBLOCK a pipe in place of the file would block the whole service.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != account.uid:
        os.close(handle)
        return None
    with open(handle, "rb") as file:
        if tail is not None:
            file.seek(max(0, found.st_size - tail))
        try:
            return file.read(tail if tail is not None else -1)
        except OSError:
            return None


def write_private(path: Path, content: bytes, account: Account) -> None:
    """Make or replace a file of mode 0600 of this account atomically; raise `OSError` if the disk refuses."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with acting_as(account):
        try:
            temporary.unlink(missing_ok=True)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with open(handle, "wb") as file:
                file.write(content)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def make_private_folder(path: Path, account: Account) -> None:
    """Make a folder of mode 0700 of this account, with missing parent folders; do nothing if it exists."""
    with acting_as(account):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)


def open_log(path: Path, account: Account) -> int:
    """Return a file descriptor that appends to this account's file, which is made with mode 0600 if it is missing.

    Raise `OSError` if there is something else than a regular file.
    """
    with acting_as(account):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        handle = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    os.set_blocking(handle, True)
    return handle
