"""Files in a job's folder: written atomically, readable by their owner, read as `client.files.user_files` does."""

import errno
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from jupyter_gq.client.files import user_files
from jupyter_gq.domain import output_bounds
from jupyter_gq.domain.errors import UnansweredFile
from jupyter_gq.domain.json_types import JsonObject

from .accounts import UnixAccount
from .user_access import NotAskedError, run_as

Content = TypeVar("Content")

#: Errors of the operating system for a full disk or an exhausted disk quota.
DISK_FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})


def read_owned_json(path: Path, account: UnixAccount, *, limit: int) -> JsonObject | None:
    """Return the JSON object in a file of this account, of at most `limit` bytes; None if there is no such file.

    Raises `UnusableFile` for a link, a larger file, a file of another user, and anything but a JSON object.
    """
    content = _read(path, account, lambda: user_files.read_file(path, limit=limit, uid=account.uid))
    return None if content is None else user_files.parse_object(path.name, content)


def read_owned_notebook(path: Path, account: UnixAccount) -> JsonObject | None:
    """Return the executed notebook in a file of this account; None if there is no such file.

    Raises `UnusableFile` as `read_owned_json` does.
    """
    limit = output_bounds.NOTEBOOK_SIZE
    content = _read(path, account, lambda: user_files.read_file(path, limit=limit, uid=account.uid))
    if content is None:
        return None
    return user_files.parse_object(path.name, content, max_nodes=output_bounds.NOTEBOOK_VALUES)


def read_owned_end(path: Path, account: UnixAccount, *, size: int) -> bytes | None:
    """Return the last `size` bytes of a file of this account; None if there is no such file.

    Raises `UnusableFile` for a link, or anything else than a regular file of this account.
    """
    return _read(path, account, lambda: user_files.read_end(path, size=size, uid=account.uid))


def read_owned_part(folder: Path, path: str, account: UnixAccount, *, start: int, size: int) -> bytes:
    """Return at most `size` bytes of the file `path` below a folder of this account, from byte `start` on.

    Empty if there are none. Raises `UnusableFile` as `client.files.user_files` does.
    """
    part = partial(user_files.read_part, folder, path, start=start, size=size, uid=account.uid)
    return _read(folder / path, account, part)


def find_owned_extent(path: Path, account: UnixAccount) -> tuple[int, int] | None:
    """Return the first kept byte and the size of a file of this account; see `client.files.user_files.find_extent`."""
    return _read(path, account, lambda: user_files.find_extent(path, uid=account.uid))


def cut_owned_beginning(path: Path, account: UnixAccount, *, keep: int) -> int:
    """Free the beginning of a file of this account; see `client.files.user_files.cut_beginning`."""
    return _read(path, account, lambda: user_files.cut_beginning(path, keep=keep, uid=account.uid))


def is_missing(path: Path, account: UnixAccount) -> bool:
    """Return whether the account finds nothing at this path; False if it cannot be told."""
    try:
        run_as(account, path, path.lstat)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def find_change_time(path: Path, account: UnixAccount) -> float | None:
    """Return when the file system last changed the file at this path; None if that cannot be told.

    In seconds since the epoch. A user can set the time of the last writing, but not this one.
    """
    try:
        return run_as(account, path, path.lstat).st_ctime
    except OSError:
        return None


def write_private(path: Path, content: bytes, account: UnixAccount) -> None:
    """Make or replace a file of mode 0600 of this account atomically; raise `OSError` if the disk refuses."""
    run_as(account, path, lambda: _write(path, content))


def make_private_folder(path: Path, account: UnixAccount) -> None:
    """Make a folder of mode 0700 of this account, with missing parent folders; do nothing if it exists."""
    run_as(account, path, lambda: path.mkdir(mode=0o700, parents=True, exist_ok=True))


def remove_file(path: Path, account: UnixAccount) -> None:
    """Remove a file of this account; do nothing if there is none."""
    run_as(account, path, lambda: path.unlink(missing_ok=True))


def open_log(path: Path, account: UnixAccount) -> int:
    """Return a file descriptor that appends to this account's file, which is made with mode 0600 if it is missing.

    Raise `OSError` if there is something else than a regular file.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    handle = run_as(account, path, lambda: os.open(path, flags, 0o600), discard=os.close)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    os.set_blocking(handle, True)
    return handle


def _read(path: Path, account: UnixAccount, read: Callable[[], Content]) -> Content:
    """Return the result of `read` with the rights of the account; raise `UnansweredFile` if it does not end in time."""
    try:
        return run_as(account, path, read)
    except TimeoutError as error:
        asked = not isinstance(error, NotAskedError)
        raise UnansweredFile(path.name, error.strerror or str(error), asked=asked) from error


def _write(path: Path, content: bytes) -> None:
    """Make or replace a file of mode 0600 atomically; raise `OSError` if the disk refuses."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(handle, "wb") as file:
            file.write(content)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
