"""The deletion of folders that user code could write, however deep, wide or closed they are.

Rules
-----
At once: the folder is renamed into a folder of the service alone, so its old place is free, also if the service is
    killed before everything is deleted. The next deletion finds the rest there.
Any depth: a folder `_LEVELS` below the outermost one is renamed next to that one before it is emptied. So only some
    folders are open, and no path grows with the depth.
Any mode: a folder that its owner has closed is opened first.
No link is followed: each name is used relative to an open folder.
Nobody waits for long: the move, and each portion of a folder in the holding folder, have the deadline of `user_access`.
    A portion that is deleted for longer is deleted further, beside its caller; a folder that does not answer keeps no
    other waiting. Neither does one in which a program writes as fast as is deleted: after some portions with nothing
    but entries that are newer than the deletion, the rest stays for the next deletion.

See docs/decisions/0356-let-a-silent-folder-go-after-a-day.md.
"""

import errno
import logging
import os
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

from .accounts import UnixAccount, UnixAccounts
from .user_access import run_as

log = logging.getLogger(__name__)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Most entries that are deleted in one access.
_PORTION = 1_000
#: Most accesses of one deletion.
_MOST_PORTIONS = 10_000
#: Entries of a portion between two whose age is looked at.
_LOOKED_AT = 100
#: Most portions of a folder whose entries are newer than the deletion. A program that stands in the folder may write
#: there as fast as is deleted.
_MOST_NEW_PORTIONS = 5
#: Levels of folders that are emptied where they are: to move a folder takes longer than to delete it.
_LEVELS = 8


def delete_folder(folder: Path, holding: Path) -> None:
    """Delete a folder, and whatever earlier deletions left in `holding`, a folder of the service on the same disk.

    A file or link in the place of the folder is removed. What cannot be deleted stays in `holding` and is logged; a
    folder whose file system gives no answer stays in its place. A folder in which a program goes on to write is given
    up soon after everything is deleted that was there at first; the rest stays in `holding` for the next deletion.
    """
    holding.mkdir(mode=0o700, exist_ok=True)
    account = UnixAccounts(system_users=False).look_up("")
    try:
        run_as(account, folder / "any file", partial(_move_away, folder, holding))
    except TimeoutError as error:
        log.warning("%s cannot be deleted: %s", folder, error.strerror)
    _clear(holding, account)


def _move_away(folder: Path, holding: Path) -> None:
    """Move a folder into the holding folder; remove a file or link in its place."""
    with _opened(str(holding), None) as held:
        try:
            _move(str(folder), None, held)
        except NotADirectoryError:
            folder.unlink()
        except FileNotFoundError:
            pass  # an earlier deletion has moved the folder already


def _clear(holding: Path, account: UnixAccount) -> None:
    """Delete everything in the holding folder; log what cannot be deleted, or is too much, and leave it there."""
    stuck: set[str] = set()
    began = _read_clock(holding)
    first = frozenset(os.listdir(holding))
    new = Counter[str]()
    left = _MOST_PORTIONS
    while names := [name for name in os.listdir(holding) if stuck.isdisjoint({name, _find_source(name, first)})]:
        for name in names:
            if left == 0:
                log.warning("%s is not empty after %d portions; the next deletion goes on", holding, _MOST_PORTIONS)
                return
            left -= 1
            source = _find_source(name, first)
            try:
                new[source] += run_as(account, holding / name / "any file", partial(_delete_held, name, holding, began))
            except FileNotFoundError:
                continue  # another thread deletes the same folders
            except TimeoutError as error:
                stuck.add(name)
                log.warning("%s is not deleted yet: %s", holding / name, error.strerror)
            except OSError as error:
                stuck.add(name)
                log.warning("%s cannot be deleted: %s. Delete it by hand", holding / name, error.strerror or error)
            if new[source] == _MOST_NEW_PORTIONS:
                stuck.add(source)
                log.warning("%s: a program still writes there; the next deletion goes on", holding / source)
                break  # the other names may be of the same source


def _find_source(name: str, first: frozenset[str]) -> str:
    """Return the name itself if it was there at first, else "": what was moved out of some folder meanwhile."""
    return name if name in first else ""


def _read_clock(folder: Path) -> int:
    """Return the present time of the clock of a folder's file system, in nanoseconds: that of a server may differ."""
    os.utime(folder)
    return folder.stat().st_ctime_ns


def _delete_held(name: str, holding: Path, began: int) -> bool:
    # The holding folder is opened anew: an abandoned thread may outlive its caller.
    with _opened(str(holding), None) as held:
        return _delete(name, held, began)


def _delete(name: str, held: int, began: int) -> bool:
    """Delete a portion of a folder of the holding folder, and the folder itself once it is empty.

    Returns whether all entries whose age was looked at are newer than `began`.
    """
    portion = _Portion(held, began)
    with _opened(name, held) as folder:
        is_empty = portion.empty(folder, _LEVELS)
    if is_empty:
        _remove_empty(name, held)
    return portion.is_new


class _Portion:
    """The deletion of a portion of a folder. What is nested too deeply is moved into the holding folder."""

    def __init__(self, held: int, began: int) -> None:
        self._held = held
        #: When the deletion began, in nanoseconds of the clock of the file system.
        self._began = began
        self._left = _PORTION
        #: The number of entries that are left when the next age is looked at.
        self._next_look = _PORTION
        #: For each entry whose age was looked at, whether it is newer than the deletion.
        self._looks: list[bool] = []

    @property
    def is_new(self) -> bool:
        """Whether all entries whose age was looked at are newer than the deletion; False if none was."""
        return bool(self._looks) and all(self._looks)

    def empty(self, folder: int, levels: int) -> bool:
        """Delete what is in an open folder, with so many levels of folders below; return whether all is gone."""
        while entries := self._read(folder):
            for entry in entries:
                if self._left <= 0:
                    return False
                self._left -= 1
                if not self._remove_at_once(entry, folder, levels) and not self._remove(entry.name, folder, levels):
                    return False
        return True

    def _remove_at_once(self, entry: "os.DirEntry[str]", folder: int, levels: int) -> bool:
        """Delete a file or an empty folder, or move one that is nested too deeply; return whether it is gone.

        Only the ages of these count: what this deletion changes in a folder makes that folder newer.
        """
        is_looked_at = self._left < self._next_look
        is_new = is_looked_at and entry.stat(follow_symlinks=False).st_ctime_ns > self._began
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name, dir_fd=folder)
        elif levels == 0:
            _move(entry.name, folder, self._held)
        else:
            try:
                os.rmdir(entry.name, dir_fd=folder)
            except OSError:  # a folder with something in it, or a closed one
                return False
        if is_looked_at:
            self._looks.append(is_new)
            self._next_look = self._left - _LOOKED_AT + 1
        return True

    def _remove(self, name: str, folder: int, levels: int) -> bool:
        """Empty and delete a folder in an open one; return whether it is gone."""
        _unlock(name, folder)
        with _opened(name, folder) as inner:
            is_empty = self.empty(inner, levels - 1)
        return is_empty and _remove_empty(name, folder)

    def _read(self, folder: int) -> "list[os.DirEntry[str]]":
        with os.scandir(folder) as entries:
            return list(islice(entries, _PORTION))


def _remove_empty(name: str, folder: int) -> bool:
    """Delete a folder that was empty; return False if a program has put something into it since."""
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:  # POSIX allows both
            raise
        return False
    return True


def _move(name: str, folder: int | None, held: int) -> None:
    """Move a folder into the holding folder under a new name, and give it the mode 0700."""
    _unlock(name, folder)
    os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=held)


def _unlock(name: str, folder: int | None) -> None:
    """Give a folder the mode 0700: one that its owner may not write can neither be moved nor be emptied."""
    with _opened(name, folder, os.O_PATH) as handle:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)


@contextmanager
def _opened(name: str, folder: int | None, flags: int = 0) -> Iterator[int]:
    handle = os.open(name, _FOLDER | flags, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)
