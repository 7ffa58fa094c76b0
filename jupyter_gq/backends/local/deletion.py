"""The deletion of folders that user code could write, however deep, wide or closed they are.

Rules
-----
At once: the folder is renamed into a folder of the service alone, so its old place is free, also if the service is
    killed before everything is deleted. The next deletion finds the rest there.
Any depth: a folder inside is renamed next to its outermost folder before it is emptied. So at most three folders are
    open, and no path grows with the depth.
Any mode: a folder that its owner has closed is opened first.
No link is followed: each name is used relative to an open folder.
Nobody waits for long: the move and each folder in the holding folder have the deadline of `user_access`. A folder that
    is deleted for longer is deleted further, beside its caller; one that does not answer keeps no other waiting.

See docs/decisions/0356-let-a-silent-folder-go-after-a-day.md.
"""

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

from .accounts import UnixAccount, UnixAccounts
from .user_access import run_as

log = logging.getLogger(__name__)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Names that are read from a folder at once.
_NAMES = 10_000


def delete_folder(folder: Path, holding: Path) -> None:
    """Delete a folder, and whatever earlier deletions left in `holding`, a folder of the service on the same disk.

    A file or link in the place of the folder is removed. What cannot be deleted stays in `holding` and is logged; a
    folder whose file system gives no answer stays in its place.
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
    """Delete everything in the holding folder; log what cannot be deleted, and leave it there."""
    stuck: set[str] = set()
    while names := [name for name in os.listdir(holding) if name not in stuck]:
        for name in names:
            try:
                run_as(account, holding / name / "any file", partial(_delete_held, name, holding))
            except FileNotFoundError:
                continue  # another thread deletes the same folders
            except TimeoutError as error:
                stuck.add(name)
                log.warning("%s is not deleted yet: %s", holding / name, error.strerror)
            except OSError as error:
                stuck.add(name)
                log.warning("%s cannot be deleted: %s. Delete it by hand", holding / name, error.strerror or error)


def _delete_held(name: str, holding: Path) -> None:
    # The holding folder is opened anew: an abandoned thread may outlive its caller.
    with _opened(str(holding), None) as held:
        _delete(name, held)


def _delete(name: str, held: int) -> None:
    """Delete a folder of the holding folder; the folders inside are moved into the holding folder."""
    with _opened(name, held) as folder:
        while entries := _entries(folder):
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _move(entry.name, folder, held)
                else:
                    os.unlink(entry.name, dir_fd=folder)
    os.rmdir(name, dir_fd=held)


def _entries(folder: int) -> "list[os.DirEntry[str]]":
    with os.scandir(folder) as entries:
        return list(islice(entries, _NAMES))


def _move(name: str, folder: int | None, held: int) -> None:
    """Move a folder into the holding folder under a new name, and give it the mode 0700."""
    with _opened(name, folder, os.O_PATH) as handle:
        # A folder that its owner may not write cannot be moved, nor can it be read later.
        os.chmod(f"/proc/self/fd/{handle}", 0o700)
    os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=held)


@contextmanager
def _opened(name: str, folder: int | None, flags: int = 0) -> Iterator[int]:
    handle = os.open(name, _FOLDER | flags, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)
