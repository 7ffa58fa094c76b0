"""The disk space that the files of a job take, however many and deep its folders are.

Rules
-----
Any depth: a folder is opened relative to the one above, and left through its `..`. So two folders are open at most, and
    no path grows with the depth.
No link is followed.
Bounds: above `_MOST_ENTRIES` entries only a part is measured, so that a folder of millions keeps nobody waiting.
"""

import os
from contextlib import suppress
from pathlib import Path

from jupyter_gq.domain.amount import MiB

#: Files and folders that are counted.
_MOST_ENTRIES = 200_000
_BLOCK = 512
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Bytes without which no job is stored: a bundle with its folders.
_LEAST_ROOM = 64 * 1024
#: Device and inode of a folder.
_Identity = tuple[int, int]


def describe_shortage(folder: Path) -> str:
    """Return a sentence that says that the disk of a folder has no room for a new job; "" if it has, or if unknown."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return ""
    if disk.f_bavail * disk.f_frsize >= _LEAST_ROOM and (disk.f_favail > 0 or disk.f_files == 0):
        return ""
    return f"The disk of {folder} is full, so new jobs are refused. Running jobs continue. Free some space on it."


def measure_folder(folder: Path) -> MiB:
    """Return the space that a folder takes on the disk, rounded down.

    Only a part is counted if there are more than `_MOST_ENTRIES` entries, or if folders are moved meanwhile. What
    cannot be read counts as nothing. A file with several names counts once for each of them.
    """
    try:
        top = os.open(folder, _FOLDER & ~os.O_NOFOLLOW)
    except OSError:
        return MiB(0)
    walk = _Walk(top)
    try:
        while walk.enter_next():
            walk.count()
    finally:
        os.close(walk.here)
    return MiB(walk.blocks * _BLOCK // 2**20)


class _Walk:
    """A walk through all folders below one, which keeps only the folder open in which it stands."""

    def __init__(self, top: int) -> None:
        """Begin in the open folder `top` and count what is in it."""
        #: The open folder in which the walk stands.
        self.here = top
        #: Blocks of all entries that were counted.
        self.blocks = 0
        self._entries = 0
        #: For each folder from the top to `here`: which one it is, and the names of the folders in it still to enter.
        self._path: list[tuple[_Identity, list[str]]] = []
        self.count()

    def count(self) -> None:
        """Count the entries of the folder in which the walk stands, and remember the folders among them."""
        inner: list[str] = []
        self._path.append((_identity(self.here), inner))
        with suppress(OSError), os.scandir(self.here) as entries:
            for entry in entries:
                if self._entries >= _MOST_ENTRIES:
                    break
                self._entries += 1
                with suppress(OSError):  # deleted meanwhile
                    self.blocks += entry.stat(follow_symlinks=False).st_blocks
                    if entry.is_dir(follow_symlinks=False):
                        inner.append(entry.name)

    def enter_next(self) -> bool:
        """Go to a folder that was not counted yet; return False if there is none, or enough has been counted."""
        while self._path and self._entries < _MOST_ENTRIES:
            _, inner = self._path[-1]
            if inner:
                if self._enter(inner.pop()):
                    return True
            elif not self._leave():
                return False
        return False

    def _enter(self, name: str) -> bool:
        """Go into a folder; return False, without moving, if it cannot be read or could not be left again."""
        try:
            below = os.open(name, _FOLDER, dir_fd=self.here)
        except OSError:
            return False
        try:
            os.stat("..", dir_fd=below)
        except OSError:
            os.close(below)
            return False
        os.close(self.here)
        self.here = below
        return True

    def _leave(self) -> bool:
        """Go back to the folder above; return False at the top, and if the folder was moved elsewhere meanwhile."""
        self._path.pop()
        if not self._path:
            return False
        try:
            above = os.open("..", _FOLDER, dir_fd=self.here)
        except OSError:
            return False
        os.close(self.here)
        self.here = above
        return _identity(above) == self._path[-1][0]


def _identity(folder: int) -> _Identity:
    found = os.fstat(folder)
    return found.st_dev, found.st_ino
