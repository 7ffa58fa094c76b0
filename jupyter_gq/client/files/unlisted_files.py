"""The files of a job that its list leaves out because of their number.

A job on one machine keeps all of its files, and one whose name is known can be read. A job in a pod has sent only the
files of its list.

See docs/decisions/0183-list-the-newest-files-and-find-others-by-name.md.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from jupyter_gq.client.problems import ServiceError

from .frozen_files import explain_unsafe_path

#: Returns the next bytes of a file of the job, by its path and the byte from which on; empty at its end.
ReadPart = Callable[[str, int], Awaitable[bytes]]


class JobFile(Protocol):
    """A file as the job's list of results has it."""

    @property
    def path(self) -> str:
        """The path below the result folder, with slashes."""

    @property
    def bytes(self) -> int:
        """The size."""

    @property
    def reason(self) -> str:
        """Why the content was not kept, as a sentence; "" if it was."""


class JobFiles(Protocol):
    """The list of the files of a job."""

    @property
    def files(self) -> Sequence[JobFile]:
        """The files that the list names."""

    @property
    def omitted_files(self) -> int:
        """The number of files that the list leaves out."""


@dataclass(frozen=True, slots=True)
class UnlistedFile:
    """A file that the job's list leaves out, and whose content is kept."""

    path: str
    bytes: int
    reason: str = ""


def explain_omitted(results: JobFiles) -> str:
    """Return what the list of a job's files leaves out, and how to have it, as sentences."""
    more = f"{results.omitted_files} more file{' is' if results.omitted_files == 1 else 's are'} not listed."
    return f"{more} Copy them by name; a cluster keeps only the newest {len(results.files)}."


async def find_unlisted(results: JobFiles, names: Collection[str], read: ReadPart) -> dict[str, UnlistedFile]:
    """Return, by name, those of these files that the list leaves out and whose content can be read."""
    if not results.omitted_files:
        return {}
    listed = {file.path for file in results.files}
    found = {}
    for name in dict.fromkeys(names):
        size = None if name in listed or explain_unsafe_path(name) else await _measure(read, name)
        if size is not None:
            found[name] = UnlistedFile(name, size)
    return found


async def _measure(read: ReadPart, path: str) -> int | None:
    """Return the size of a file in bytes, found by reading a few of its parts; None if there is no such file."""
    try:
        size = len(await read(path, 0))
    except ServiceError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None
    probe = size
    while part := await read(path, probe):
        size = probe + len(part)
        probe = size * 2
    end = probe
    while size < end:  # bytes before `size` are there, and none from `end` on
        probe = (size + end) // 2
        part = await read(path, probe)
        size, end = (probe + len(part), end) if part else (size, probe)
    return size
