"""The frozen content of files: it is read, hashed, and sent to the service as far as the service lacks it."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from jupyter_gq.client.files.frozen_files import PART_SIZE
from jupyter_gq.client.models import FileStore, FrozenFile
from jupyter_gq.client.models.files import MOST_ASKED, MOST_SENT
from jupyter_gq.lab.refusal import RefusedRequest

from .needed import NeededFile


class FileService(Protocol):
    """The requests to the service about the parts of files."""

    async def describe_files(self, parts: Sequence[str]) -> FileStore:
        """Return the limits of the service, and which of these parts it lacks."""
        ...

    async def add_files(self, parts: Sequence[bytes]) -> None:
        """Send parts to the service."""
        ...


def freeze(folder: Path, files: Iterable[NeededFile], cap: int) -> tuple[list[FrozenFile], dict[str, bytes]]:
    """Return the files with the digests of their parts, and each part by its digest.

    Raises `RefusedRequest` if a file cannot be read, or has more than `cap` bytes by now.
    """
    frozen: list[FrozenFile] = []
    parts: dict[str, bytes] = {}
    for file in files:
        try:
            content, modified_at = _read(os.path.join(folder, file.path), cap + 1)
        except OSError as error:
            raise _refuse(f"The file {file.path} cannot be read: {error.strerror}.") from error
        if len(content) > cap:
            raise _refuse(f"The file {file.path} has grown meanwhile. Open the dialog again.")
        pieces = [content[start : start + PART_SIZE] for start in range(0, len(content), PART_SIZE)]
        digests = [hashlib.sha256(piece).hexdigest() for piece in pieces]
        parts.update(zip(digests, pieces, strict=True))
        # The path, the size and the parts are valid by their making: no check is needed for each of thousands.
        frozen.append(
            FrozenFile.model_construct(
                path=file.path,
                bytes=len(content),
                parts=digests,
                executable=file.executable,
                modified_at=max(0.0, modified_at),
            )
        )
    return frozen, parts


def _read(path: str, most: int) -> tuple[bytes, float]:
    """Return at most so many bytes of a regular file, and when it changed; raise `OSError` for what is none by now."""
    # Thousands of small files are read: a file object of Python would take longer than the reading itself.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        size = found.st_size
        # Memory is taken for all that is asked for, so no more is asked for than the file has.
        content = os.read(handle, min(most, size + 1))
        # The file changes meanwhile, or it has more bytes than one call of the system reads.
        while len(content) != size and (more := os.read(handle, _count_rest(len(content), size, most))):
            content += more
        return content, found.st_mtime
    finally:
        os.close(handle)


def _count_rest(read: int, size: int, most: int) -> int:
    """Return how many bytes to read next of a file that should have `size` bytes, after `read` bytes of it."""
    return min(most - read, max(PART_SIZE, size - read))


def _refuse(why: str) -> RefusedRequest:
    return RefusedRequest("unusable_file", why, field="files")


async def send_parts(service: FileService, parts: Mapping[str, bytes]) -> int:
    """Send the contents of files to the service, as far as the service has not stored them already.

    `parts` are pieces of the files by their SHA-256 digests, as `freeze` returns them. Returns the number of pieces
    that were sent. Raises `ServiceError` if the service refuses; the pieces sent before that are stored.
    """
    digests = list(parts)
    sent = 0
    for start in range(0, len(digests), MOST_ASKED):
        missing = (await service.describe_files(digests[start : start + MOST_ASKED])).missing
        for batch in _batches(parts[digest] for digest in missing):
            await service.add_files(batch)
            sent += len(batch)
    return sent


def _batches(parts: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the parts in requests of at most `PART_SIZE` bytes and `MOST_SENT` parts."""
    batch: list[bytes] = []
    size = 0
    for part in parts:
        if batch and (size + len(part) > PART_SIZE or len(batch) == MOST_SENT):
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += len(part)
    if batch:
        yield batch
