"""The copy of the checkpoints of an earlier job, with which a job begins that has none of its own.

Rules
-----
Own ones first: a run copies only into a folder without checkpoints. So a paused job goes on from its own.
Whole or marked: the file `COPYING` is in the folder from before the first copied file until all of them are on the
    disk, and again from before the first deletion of a copy that is given up. Without that mark nothing is deleted, so
    the copy is whole. No cell runs meanwhile, so a run that finds the file deletes all and copies anew.
One copies: tasks may share the folder. Task 0 copies, and the other tasks wait until the folder has checkpoints.
Earlier job untouched: its folder is only read, with the rights of the user whose job this is.
Never from nothing: a run whose copy fails ends with a sentence, and leaves no part of it.
No leftovers: a run whose copy fails or is stopped deletes its part of it. After a request to stop it has
    `_STOP_SECONDS` for that, also if the request comes while the part of a failed copy is deleted. What is left then,
    or by a run that was killed, is deleted by the next run of the job, or with the files of a job that has ended.
No larger than the original: a hole in a file stays a hole, and several names of one file stay names of one copy. On
    file systems that do not tell their holes, zeros of a file with less room than its size are no part of its copy. Of
    a file that grows meanwhile, as much is copied as it had at first.
Files, folders and links only: nothing else is opened, so the copy waits for no pipe and reads from no device.

See docs/decisions/0493-continue-a-job-from-the-checkpoints-of-another.md.
"""

import ctypes
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from math import inf
from pathlib import Path

from jupyter_gq.client.files.checkpoint_folder import COPYING, OWN_PREFIX, has_checkpoints
from jupyter_gq.domain.amount import format_bytes
from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.runner.clock import monotonic
from jupyter_gq.runner.problems import RunError, is_disk_full

#: Number of bytes that are copied between two looks at a request to stop.
_CHUNK = 16 * 1024 * 1024
#: Zeros, and the bytes that are compared with them at once where a file system does not tell its holes: the blocks of
#: nearly all file systems have this size.
_BLOCK = 4096
_ZEROS = bytes(_CHUNK)
#: Number of files and folders of which each is written to the disk alone. More of them are written together: a disk
#: takes some milliseconds for each.
_SYNCED_ALONE = 500
#: Seconds that a run may take after a request to stop to delete its part of a copy: less than the grace of each stop.
_STOP_SECONDS = 3.0
#: Seconds between two looks of a task that waits for the copy.
_INTERVAL = 0.2


class StoppedWhileCopying(UserError):
    """A request to stop the run that came before the copy was complete."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierJob:
    """A job whose checkpoints are copied."""

    id: str
    #: The folder of its checkpoints.
    checkpoint: Path


@dataclass(kw_only=True, slots=True)
class _Copied:
    """The numbers of what was copied."""

    files: int = 0
    #: The bytes that take room on the disk.
    bytes: int = 0
    #: The copies of files with several names, by device and inode of the original.
    linked: dict[tuple[int, int], Path] = field(default_factory=dict)
    #: How many files and folders are to be on the disk at the end.
    synced: int = 0

    def sync(self, handle: int) -> None:
        """Write an open file or folder to the disk, or leave it to the end if there are many."""
        self.synced += 1
        if self.synced <= _SYNCED_ALONE:
            _sync_handle(handle)


def continue_from_job(earlier: EarlierJob, folder: Path, *, task: int, look: Callable[[], None]) -> str:
    """Let the folder have checkpoints: its own, or else a copy of those of the earlier job.

    Returns a sentence about what was copied; "" if nothing was. A task other than 0 waits for the copy of task 0.
    `look` is called again and again, and may raise an error of its own to end the work. Raises `RunError` with a
    sentence if the earlier job has no checkpoints or the copy fails; what was copied is then deleted.
    """
    if has_checkpoints(folder):
        return ""
    if task != 0:
        while not has_checkpoints(folder):
            look()
            time.sleep(_INTERVAL)
        return ""
    try:
        is_kept = has_checkpoints(earlier.checkpoint)
    except (FileNotFoundError, NotADirectoryError):
        is_kept = False
    except OSError as error:
        raise RunError(_describe_failure(earlier, error, _Copied())) from error
    if not is_kept:
        if (folder / COPYING).exists():
            _take_back(folder)  # of a run that was killed
        raise RunError(describe_missing(earlier.id))
    return _copy(earlier, folder, look)


def describe_missing(job: str) -> str:
    """Return the sentence for the owner of a job that continues from a job without checkpoints."""
    return (
        f"The job {job} has no checkpoints any more, or it wrote none, so nothing was run. Send this job again without "
        "continuing from that one."
    )


def _copy(earlier: EarlierJob, folder: Path, look: Callable[[], None]) -> str:
    """Copy the checkpoints of the earlier job into the folder, whatever is there; return a sentence about the copy."""
    copied = _Copied()
    failure: OSError | RunError
    try:
        try:
            _fill(earlier, folder, copied, look)
            return describe_copy(earlier.id, copied.files, copied.bytes)
        except (OSError, RunError) as error:
            failure = error
        _take_back(folder)
    except BaseException:  # a request to stop, which in a pod comes once at any line, also while a part is taken back
        _take_back(folder, seconds=_STOP_SECONDS)
        raise
    if isinstance(failure, RunError):
        raise failure
    raise RunError(_describe_failure(earlier, failure, copied)) from failure


def _fill(earlier: EarlierJob, folder: Path, copied: _Copied, look: Callable[[], None]) -> None:
    """Copy the checkpoints of the earlier job into the folder; raise `RunError` if it has none."""
    _mark(folder)
    _clear(folder, look)
    _copy_tree(earlier.checkpoint, folder, copied, look)
    if copied.synced > _SYNCED_ALONE:
        _sync_all(folder)
    (folder / COPYING).unlink()
    _sync(folder)
    if not has_checkpoints(folder):  # there were only pipes and sockets
        raise RunError(describe_missing(earlier.id))


def _mark(folder: Path) -> None:
    """Let the folder say that it holds no whole copy, also after a loss of power."""
    (folder / COPYING).touch()
    _sync(folder)


def _take_back(folder: Path, seconds: float = inf) -> None:
    """Delete the copy, or the part of one, that is in the folder, for at most `seconds`.

    If that fails or takes longer, a part keeps its mark, and the next run deletes it. If the folder cannot be marked,
    nothing is deleted: without a mark the copy is whole.
    """
    end = monotonic() + seconds

    def look() -> None:
        if monotonic() >= end:
            raise TimeoutError

    with suppress(OSError):
        _mark(folder)  # a whole copy has lost its mark already
        _clear(folder, look)
        _sync(folder)
        (folder / COPYING).unlink(missing_ok=True)


def describe_copy(job: str, files: int, size: int) -> str:
    """Return the sentence of the log about the copied checkpoints of a job; `size` in bytes."""
    counted = "1 file" if files == 1 else f"{files} files"
    return f"Continues from the checkpoints of {job}: {counted}, {format_bytes(size)}, copied."


def _describe_failure(earlier: EarlierJob, error: OSError, copied: _Copied) -> str:
    """Return the sentence for the owner of a job whose copy failed."""
    if is_disk_full(error):
        return (
            f"The checkpoints of the job {earlier.id} could not be copied: the disk was full after "
            f"{format_bytes(copied.bytes)}, so nothing was run. Free some space, or ask your administrator for more, "
            "and send the job again."
        )
    name = "" if error.filename is None else f"{quoted(Path(os.fsdecode(error.filename)).name)}: "
    return (
        f"The checkpoints of the job {earlier.id} could not be copied ({name}{error.strerror or error}), so nothing "
        "was run. Send the job again, or send it without continuing from that job."
    )


def _clear(folder: Path, look: Callable[[], None]) -> None:
    """Delete all that is in the folder but the product's own files, which other tasks may make there at this moment.

    `look` is called before each step, and may raise an error of its own to end the work.
    """
    found = []
    for path in _walk(folder):
        if not path.relative_to(folder).parts[0].startswith(OWN_PREFIX):
            look()
            found.append(path)
    for path in sorted(found, reverse=True):  # what is in a folder comes before that folder
        look()
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield all paths below the folder, each folder before what is in it; links are not followed."""
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                yield Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))


def _copy_tree(source: Path, target: Path, copied: _Copied, look: Callable[[], None]) -> None:
    """Copy files, folders and links with their times and modes; sockets and pipes, and the product's own, stay."""
    folders = []
    for path in _walk(source):
        inner = path.relative_to(source)
        if inner.parts[0].startswith(OWN_PREFIX):
            continue
        look()
        place, kind = target / inner, stat.S_IFMT(path.lstat().st_mode)
        if kind == stat.S_IFLNK:
            place.symlink_to(_redirect(path, source))
        elif kind == stat.S_IFDIR:
            place.mkdir(mode=0o700)
            folders.append((path, place))
        elif kind == stat.S_IFREG:
            _copy_file(path, place, copied, look)
    for path, place in reversed(folders):  # the times of a folder change with what is put into it
        _sync(place, copied.sync)
        _copy_marks(path.stat(), place, least=0o700)  # else what is in it could not be deleted


def _redirect(link: Path, source: Path) -> str:
    """Return where a copy of the link leads: an absolute path into `source` becomes a relative one, for the copy."""
    leads = os.readlink(link)
    # The first path may be one that leaves the folder by "..", and the second one that comes back over another link.
    is_inside = all(Path(path).is_relative_to(source) for path in (leads, os.path.normpath(leads)))
    return os.path.relpath(leads, link.parent) if is_inside else leads


def _copy_file(source: Path, target: Path, copied: _Copied, look: Callable[[], None]) -> None:
    """Copy a regular file; a further name of a file that was copied becomes another name of that copy."""
    with _opened(source) as reading:
        about = os.fstat(reading)
        if not stat.S_ISREG(about.st_mode):
            return  # replaced since the listing of its folder
        known = copied.linked.get((about.st_dev, about.st_ino))
        if known is None or not _link(known, target):
            with target.open("xb", buffering=0) as writing:
                _copy_content(reading, writing.fileno(), about, copied, look)
                copied.sync(writing.fileno())
            _copy_marks(about, target)
            if about.st_nlink > 1:
                copied.linked[about.st_dev, about.st_ino] = target
    copied.files += 1


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a file within the block, without following a link or waiting for a pipe; yield its descriptor."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def _link(known: Path, target: Path) -> bool:
    """Make `target` another name of a copied file; return False if the file system makes no more names of it."""
    with suppress(OSError):
        os.link(known, target)
        return True
    return False


def _copy_content(reading: int, writing: int, about: os.stat_result, copied: _Copied, look: Callable[[], None]) -> None:
    """Copy between two open files as much as `about` tells, without the holes; raise `OSError` if there is less."""
    size, room = about.st_size, about.st_blocks * 512
    os.ftruncate(writing, size)
    at = 0
    while part := _find_data(reading, at, size):
        at, end = part
        copy = _copy_chunk if end - at <= room else _copy_without_zeros  # more than that is not only data
        os.lseek(reading, at, os.SEEK_SET)
        os.lseek(writing, at, os.SEEK_SET)
        while at < end:
            look()
            done, written = copy(reading, writing, min(_CHUNK, end - at))
            if not done:
                raise _became_shorter()
            at += done
            copied.bytes += written
    if os.fstat(reading).st_size < size:
        raise _became_shorter()


def _became_shorter() -> OSError:
    return OSError(errno.EBUSY, "a file became shorter while it was copied")


def _find_data(handle: int, at: int, size: int) -> tuple[int, int] | None:
    """Return begin and end of the next bytes of a file that are no hole; None if there are none before `size`."""
    try:
        begin = os.lseek(handle, at, os.SEEK_DATA)
        end = os.lseek(handle, begin, os.SEEK_HOLE)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a hole up to the end
            return None
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
        begin, end = at, size  # a file system that does not tell its holes
    return (begin, min(end, size)) if begin < size else None


def _copy_chunk(reading: int, writing: int, most: int) -> tuple[int, int]:
    """Copy the next bytes, at most `most`, between two open files; return their number twice, 0 at the end.

    Linux copies them, or shares the blocks of both files where the file system can; else they are read and written.
    """
    try:
        if size := os.copy_file_range(reading, writing, most):
            return size, size
    except OSError as error:
        if is_disk_full(error):
            raise
    content = os.read(reading, most)
    _write(writing, memoryview(content))
    return len(content), len(content)


def _copy_without_zeros(reading: int, writing: int, most: int) -> tuple[int, int]:
    """Copy the next bytes, at most `most`, but leave holes for blocks of zeros.

    Returns the number of bytes that were read, 0 at the end, and the number of those that were written.
    """
    content = os.read(reading, most)
    if _ZEROS.startswith(content):  # nearly all of a large hole
        os.lseek(writing, len(content), os.SEEK_CUR)
        return len(content), 0
    written = 0
    blocks = (content[begin : begin + _BLOCK] for begin in range(0, len(content), _BLOCK))
    for is_hole, alike in groupby(blocks, key=_ZEROS.startswith):
        joined = b"".join(alike)
        if is_hole:
            os.lseek(writing, len(joined), os.SEEK_CUR)
        else:
            _write(writing, memoryview(joined))
            written += len(joined)
    return len(content), written


def _write(handle: int, content: memoryview) -> None:
    while content:
        content = content[os.write(handle, content) :]


def _copy_marks(about: os.stat_result, target: Path, *, least: int = 0o400) -> None:
    """Give a copy the times and the mode of its original, as far as the file system takes them.

    `least` are the bits of the mode that the copy has in any case.
    """
    with suppress(OSError):  # such as ENOTSUP: the content is whole all the same
        target.chmod(about.st_mode & 0o777 | least)
    with suppress(OSError):
        os.utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))


def _sync(folder: Path, sync: Callable[[int], None] | None = None) -> None:
    """Write the names in a folder to the disk, with `sync` if given."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        (sync or _sync_handle)(handle)
    finally:
        os.close(handle)


def _sync_handle(handle: int) -> None:
    """Write an open file or folder to the disk, if its file system can do that for folders."""
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise


def _sync_all(folder: Path) -> None:
    """Write everything on the file system of a folder to the disk."""
    library = ctypes.CDLL(None, use_errno=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if library.syncfs(handle) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))
    finally:
        os.close(handle)
