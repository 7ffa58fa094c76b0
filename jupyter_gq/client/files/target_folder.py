"""A folder into which files of a job are copied: no copy leaves it, and no copy is ever seen half written.

Rules
-----
- Below the folder: each folder on the way is opened by its descriptor and without following links, so a link that is
  put there meanwhile leads nowhere.
- Whole files: the content goes into a temporary file beside its target, which is renamed at the end. A copy that
  fails or is cancelled leaves no file.
- Nothing is lost: a target that was absent is never overwritten, and a file that is to be replaced only as it was seen.

See docs/decisions/0158-copy-files-through-the-users-own-server.md.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from jupyter_gq.domain.amount import format_bytes
from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.plain_text import quoted

_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
# Without O_NONBLOCK a pipe in the place of the file would hold up the reader for ever.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
#: Bytes that a copy leaves free on the disk.
SPARE_BYTES = 16 * 1024 * 1024


class CopyRefused(UserError):
    """A copy that is not made. The text says why and what to do; nothing was changed at its target."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class PresentKind(StrEnum):
    """The kinds of objects at the target of a copy, in words."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    #: A pipe, a socket or a device.
    SPECIAL = "special file"


_KINDS = {stat.S_IFREG: PresentKind.FILE, stat.S_IFDIR: PresentKind.FOLDER, stat.S_IFLNK: PresentKind.LINK}


@dataclass(frozen=True, kw_only=True, slots=True)
class Present:
    """An object at the target of a copy. Two descriptions are equal if the object has not changed in between."""

    bytes: int
    #: Nanoseconds since the epoch.
    changed_ns: int
    kind: PresentKind
    identity: tuple[int, int]

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        """Return the description of what `stat` found."""
        return cls(
            bytes=found.st_size,
            changed_ns=found.st_mtime_ns,
            kind=_KINDS.get(stat.S_IFMT(found.st_mode), PresentKind.SPECIAL),
            identity=(found.st_dev, found.st_ino),
        )

    @property
    def version(self) -> str:
        """A text that is the same for equal descriptions alone."""
        return "-".join(map(str, (self.kind, self.bytes, self.changed_ns, *self.identity)))

    @property
    def is_file(self) -> bool:
        """Whether the object is a regular file: only such a one is compared and replaced."""
        return self.kind is PresentKind.FILE


class TargetFolder:
    """An open folder. Paths are relative to it, have slashes, and were checked with `explain_unsafe_path`.

    Every method raises `CopyRefused` if a folder on the way is a link or a file, or if the disk refuses.
    """

    def __init__(self, root: Path, path: str = "") -> None:
        """Open the folder `path` below `root`; only `root` itself may be reached through links."""
        with _disk_errors(path or str(root)):
            found = _open_root(root, path.split("/") if path else [])
        if found is None:
            raise CopyRefused(
                "not_found", f"There is no folder {quoted(path or str(root))} here, so nothing can be copied into it."
            )
        self._root = found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)

    def look(self, path: str) -> Present | None:
        """Return what is at a path; None if nothing is."""
        with _disk_errors(path), self._parent(path) as (parent, name):
            return None if parent is None else _look_at(parent, name)

    def open_file(self, path: str) -> int:
        """Return a descriptor for reading the file at a path."""
        with _disk_errors(path), self._parent(path) as (parent, name):
            if parent is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            return os.open(name, _READ, dir_fd=parent)

    def check_space(self, wanted: int) -> None:
        """Raise `CopyRefused` if the disk of the folder has no room for so many bytes."""
        with _disk_errors(""):
            disk = os.fstatvfs(self._root)
        free = disk.f_bavail * disk.f_frsize
        if wanted + SPARE_BYTES > free:
            raise CopyRefused(
                "disk_full",
                f"The files have {format_bytes(wanted)}, and the disk has {format_bytes(free)} left. Make room, or "
                "name the files that you need.",
            )

    def begin(self, path: str) -> "PartialFile":
        """Return an empty temporary file for the copy at a path."""
        folders = path.split("/")[:-1]
        with _disk_errors(path):
            # Beside its target if that folder exists, since a rename cannot leave its file system.
            for number in range(len(folders), -1, -1):
                found = _walk(self._root, folders[:number])
                if found is not None:
                    return PartialFile(found, folders[number:], path)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int | None, str]]:
        """Yield a descriptor of the folder of a path, None if there is none, and the last name of the path."""
        *folders, name = path.split("/")
        at = _walk(self._root, folders)
        try:
            yield at, name
        finally:
            if at is not None:
                os.close(at)


class PartialFile:
    """A temporary file that becomes the copy at `finish`, and is removed if that is never called."""

    def __init__(self, folder: int, missing: Sequence[str], path: str) -> None:
        """Create the file in an open folder, which this object closes; `missing` are the folders still to be made."""
        self._folder, self._missing, self._path = folder, missing, path
        self._name = f".gq-copy-{secrets.token_hex(8)}.part"
        try:
            self._file = os.open(self._name, _CREATE, 0o666, dir_fd=folder)
        except OSError:
            os.close(folder)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)
        with contextlib.suppress(OSError):  # the file was renamed, or its folder was deleted
            os.unlink(self._name, dir_fd=self._folder)
        os.close(self._folder)

    def write(self, content: bytes) -> None:
        """Append to the file."""
        view = memoryview(content)
        with _disk_errors(self._path):
            while view:
                view = view[os.write(self._file, view) :]

    def finish(self, replaced: Present | None) -> bool:
        """Put the file at its target; return False and change nothing if what is there is not `replaced`."""
        name = self._path.split("/")[-1]
        with _disk_errors(self._path):
            parent = _walk(self._folder, self._missing, make=True)
            if parent is None:  # a folder was deleted at this instant
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            try:
                if replaced is None:
                    return self._put(parent, name)
                if not replaced.is_file or _look_at(parent, name) != replaced:
                    return False
                os.replace(self._name, name, src_dir_fd=self._folder, dst_dir_fd=parent)
                return True
            finally:
                os.close(parent)

    def _put(self, parent: int, name: str) -> bool:
        """Give the file its name in a folder; return False if the name is taken."""
        try:
            os.link(self._name, name, src_dir_fd=self._folder, dst_dir_fd=parent, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            if _look_at(parent, name) is not None:
                return False
            os.rename(self._name, name, src_dir_fd=self._folder, dst_dir_fd=parent)
        return True


class _Blocked(Exception):
    """A link or a file in the place of a folder on the way; `way` is the path to it."""

    def __init__(self, way: str) -> None:
        super().__init__(way)
        self.way = way


def _open_root(root: Path, folders: Sequence[str]) -> int | None:
    """Return a descriptor of a folder below `root`, which may be reached through links; None if there is none."""
    try:
        at = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return _walk(at, folders)
    finally:
        os.close(at)


def _walk(start: int, folders: Sequence[str], *, make: bool = False) -> int | None:
    """Return a descriptor of a folder below another one; None if there is none and it is not to be made.

    Raises `_Blocked` if one of the names is a link or a file.
    """
    at = os.dup(start)
    try:
        for number, name in enumerate(folders):
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=at)
            try:
                below = os.open(name, _FOLDER, dir_fd=at)
            except FileNotFoundError:
                os.close(at)
                return None
            except OSError as error:
                if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                    raise _Blocked("/".join(folders[: number + 1])) from None
                raise
            os.close(at)
            at = below
    except BaseException:
        os.close(at)
        raise
    return at


def _look_at(parent: int, name: str) -> Present | None:
    """Return what has this name in an open folder, without following a link; None if nothing has."""
    try:
        return Present.of(os.stat(name, dir_fd=parent, follow_symlinks=False))
    except FileNotFoundError:
        return None


@contextmanager
def _disk_errors(path: str) -> Iterator[None]:
    """Raise an error of the disk, or a link on the way, as `CopyRefused` that names the path."""
    try:
        yield
    except _Blocked as error:
        about = "" if error.way == path else f"{quoted(path)}: "
        raise CopyRefused(
            "unsafe_path",
            f"{about}{quoted(error.way)} is a link or a file here, and files are copied only through real folders. "
            "Rename it, or download the files instead.",
        ) from None
    except OSError as error:
        said = error.strerror or str(error)
        if error.errno in _FULL:
            raise CopyRefused(
                "disk_full", f"{quoted(path)} cannot be written: {said}. Make room, then copy again."
            ) from error
        where = quoted(path) if path else "The folder"
        raise CopyRefused("not_writable", f"{where} cannot be written or read: {said}.") from error
