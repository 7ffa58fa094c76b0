"""The one way to read files that user code can write: results, notebooks, checkpoints and manifests of jobs.

The service and the programs beside user code read such files here and nowhere else.

Rules
-----
Regular files: a link, a pipe, a device and a folder are refused, and no open waits for another program.
Owner: with a user id, a file of another user is refused, so that a link planted by a user shows nothing of others.
Bounds: a file above the limit of its reader is refused before it is read; a JSON document has the bounds of
    `domain.bounded_json`.
Own fault: every refusal is an `UnusableFile`, which concerns the job of that file alone.
"""

import ctypes
import errno
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from jupyter_gq.domain import bounded_json, output_bounds
from jupyter_gq.domain.errors import InvalidJson, UnusableFile
from jupyter_gq.domain.json_types import JsonObject

_KIB = 1024
#: Bytes of a small report, such as a result or a progress.
SMALL_FILE = 64 * _KIB
#: Bytes of the largest document that is read as a whole, other than an executed notebook: a bundle.
LARGE_FILE = 128 * _KIB * _KIB
# Without O_NONBLOCK a pipe in the place of the file would hold up the reader for ever.
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHANGE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: The flags of Linux's `fallocate` that free a range of a file and keep the size of the file.
_FREE_RANGE = 0x01 | 0x02
#: The beginning of a file is freed in multiples of these bytes, which all common file systems can free.
CUT_STEP = 128 * _KIB


def read_file(path: Path, *, limit: int, uid: int | None = None) -> bytes | None:
    """Return the content of a file of at most `limit` bytes; None if there is no such file.

    Raises `UnusableFile` for a file that the rules of this module refuse.
    """
    with _opened(path, uid) as file:
        if file is None:
            return None
        if os.fstat(file).st_size > limit:
            raise UnusableFile(path.name, f"it is larger than {_size(limit)}")
        content = _read(file, limit + 1)
    if len(content) > limit:  # the file grew meanwhile
        raise UnusableFile(path.name, f"it is larger than {_size(limit)}")
    return content


def read_end(path: Path, *, size: int, uid: int | None = None) -> bytes | None:
    """Return the last `size` bytes of a file, or the whole file if it is smaller; None if there is no such file.

    Raises `UnusableFile` for a file that the rules of this module refuse.
    """
    with _opened(path, uid) as file:
        if file is None:
            return None
        os.lseek(file, max(0, os.fstat(file).st_size - size), os.SEEK_SET)
        return _read(file, size)


def find_extent(path: Path, *, uid: int | None = None) -> tuple[int, int] | None:
    """Return the number of the first byte of a file whose content is kept, and its size; None if there is no such file.

    `cut_beginning` makes the first number larger than 0. Raises `UnusableFile` for a file that the rules of this
    module refuse.
    """
    with _opened(path, uid) as file:
        return None if file is None else _extent_of(file)


def cut_beginning(path: Path, *, keep: int, uid: int | None = None) -> int:
    """Free the beginning of a file, so that little more than its last `keep` bytes are kept; return the freed bytes.

    All other bytes keep their place, also those that a program appends meanwhile. Returns 0 if there is nothing to
    free, or no such file. Raises `UnusableFile` for a file that the rules of this module refuse, and if the file system
    cannot free a range of a file.
    """
    with _opened(path, uid, partial(os.open, path, _CHANGE)) as file:
        if file is None:
            return 0
        first, size = _extent_of(file)
        begin = max(0, size - keep) // CUT_STEP * CUT_STEP
        if begin <= first:
            return 0
        _free_range(file, begin)
        return begin - first


def read_part(folder: Path, path: str, *, start: int, size: int, uid: int | None = None) -> bytes:
    """Return at most `size` bytes of a file from byte `start` on; empty after its end, and if there is no such file.

    `path` is relative to `folder`; none of the folders that it names may be a link. Raises `UnusableFile` for that, and
    for a file that the rules of this module refuse.
    """
    with _opened(folder / path, uid, partial(_open_below, folder, path)) as file:
        if file is None:
            return b""
        os.lseek(file, start, os.SEEK_SET)
        return _read(file, size)


def read_notebook(path: Path, *, uid: int | None = None) -> JsonObject | None:
    """Return the executed notebook of a job; None if there is no such file. For the errors see `read_json`.

    The limits of size and values admit every notebook that a runner writes; a larger file is refused.
    """
    return read_json(path, limit=output_bounds.NOTEBOOK_SIZE, max_nodes=output_bounds.NOTEBOOK_VALUES, uid=uid)


def read_json(
    path: Path, *, limit: int, max_nodes: int = bounded_json.MAX_NODES, uid: int | None = None
) -> JsonObject | None:
    """Return the JSON object in a file of at most `limit` bytes and `max_nodes` values; None if there is no such file.

    Bytes that are not UTF-8, and lone surrogates, are replaced. Raises `UnusableFile` for a file that the rules
    of this module refuse, and for a file that holds no JSON object.
    """
    content = read_file(path, limit=limit, uid=uid)
    return None if content is None else parse_object(path.name, content, max_nodes=max_nodes)


def parse_object(name: str, content: bytes, *, max_nodes: int = bounded_json.MAX_NODES) -> JsonObject:
    """Return the JSON object in the content of the file `name`; raise `UnusableFile` if it holds none.

    An object with more than `max_nodes` values is refused so too. Bytes that are not UTF-8, and lone surrogates, are
    replaced.
    """
    try:
        document = bounded_json.parse(content.decode("utf-8", "replace"), max_nodes=max_nodes)
    except InvalidJson as error:
        raise UnusableFile(name, f"it is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise UnusableFile(name, "it holds no JSON object")
    if b"\\ud" in content or b"\\uD" in content:
        whole: JsonObject = json.loads(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))
        return whole
    return document


def _open_below(folder: Path, path: str) -> int:
    """Return a descriptor of a file below a folder; raise `OSError` if one of the folders between is a link."""
    *names, name = path.split("/")
    at = os.open(folder, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for each in names:
            below = os.open(each, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
        return os.open(name, _READ, dir_fd=at)
    finally:
        os.close(at)


@contextmanager
def _opened(path: Path, uid: int | None, open_file: Callable[[], int] | None = None) -> Iterator[int | None]:
    """Yield a descriptor for reading the regular file at `path`, closed afterwards; None if there is no file.

    Raises `UnusableFile` if the file cannot be opened or read, is not regular, or belongs to another user than `uid`.
    With `uid` None, the file may belong to anybody.
    """
    try:
        file = open_file() if open_file else os.open(path, _READ)
    except FileNotFoundError:
        yield None
        return
    except (OSError, ValueError) as error:
        raise UnusableFile(path.name, getattr(error, "strerror", None) or str(error)) from error
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise UnusableFile(path.name, "it is not a regular file")
        if uid is not None and found.st_uid != uid:
            raise UnusableFile(path.name, "it belongs to another user")
        yield file
    except OSError as error:
        raise UnusableFile(path.name, error.strerror or str(error)) from error
    finally:
        os.close(file)


def _extent_of(file: int) -> tuple[int, int]:
    """Return the first byte of an open file whose content is kept, and its size; for a size of 0 both are 0."""
    size = os.fstat(file).st_size
    try:
        first = os.lseek(file, 0, os.SEEK_DATA)
    except OSError as error:
        first = size if error.errno == errno.ENXIO else 0  # ENXIO: nothing is kept; other: no such question is known
    return min(first, size), size


def _free_range(file: int, end: int) -> None:
    """Free the content of an open file before byte `end`; raise `OSError` if the file system cannot."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.fallocate(file, _FREE_RANGE, ctypes.c_int64(0), ctypes.c_int64(end)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _read(file: int, most: int) -> bytes:
    parts: list[bytes] = []
    while most > 0 and (part := os.read(file, min(most, _KIB * _KIB))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _size(limit: int) -> str:
    unit, name = (_KIB**2, "MiB") if limit >= _KIB**2 else (_KIB, "KiB") if limit >= _KIB else (1, "bytes")
    return f"{limit / unit:g} {name}"
