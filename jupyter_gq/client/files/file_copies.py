"""Copies of the files that a job wrote, in a folder of the user: the same by the Jupyter server and by the command.

All targets are looked at before the first byte is written. A file that is there and differs is never overwritten
unless the user has chosen so; one that is equal is left as it is. What is no regular file is never replaced. A file
that cannot be copied does not hold up others.

See docs/decisions/0158-copy-files-through-the-users-own-server.md.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import NamedTuple, Protocol, TypeVar

from jupyter_gq.client.problems import ServiceError
from jupyter_gq.domain.plain_text import quoted

from .frozen_files import explain_unsafe_path, find_clash
from .target_folder import CopyRefused, PartialFile, Present, TargetFolder
from .unlisted_files import JobFile, JobFiles, ReadPart, explain_omitted, find_unlisted

Result = TypeVar("Result")
#: Most files kept beside another one that are compared with it; of more, the last one is.
_MOST_COMPARED = 100
#: Most bytes of the name of a file.
_LONGEST_NAME = 255
#: Most characters of an ending, such as ".parquet"; what is longer belongs to the name.
_LONGEST_ENDING = 20
#: Most names in a sentence.
_MOST_NAMED = 5


class Existing(StrEnum):
    """The ways to treat a file that is at the target already and differs."""

    ASK = "ask"
    REPLACE = "replace"
    KEEP_BOTH = "keep_both"


class FilesExist(CopyRefused):
    """A copy that would overwrite files that differ; `files` are their paths and what is there."""

    def __init__(self, files: Sequence[tuple[str, Present]]) -> None:
        paths = [quoted(path) for path, _ in files]
        more = "" if len(paths) <= _MOST_NAMED else f" and {len(paths) - _MOST_NAMED} more"
        verb = "is there already and differs" if len(paths) == 1 else "are there already and differ"
        super().__init__(
            "files_exist",
            f"{', '.join(paths[:_MOST_NAMED])}{more} {verb} from what the job wrote. Nothing was copied over.",
        )
        self.files = tuple(files)


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """A file of the job and its copy; `target` is the path of the copy, relative to the target folder."""

    path: str
    target: str
    bytes: int
    #: True: the file was there already, with the same content.
    unchanged: bool = False
    #: What the copy replaces; None = nothing.
    replaced: Present | None = None


class Copied(NamedTuple):
    """The outcome of copies: each file that was to be copied counts in one of the two lists."""

    #: Copies that are there now, also those that were there before.
    copies: list[Copy]
    #: Why each of the other files is not copied.
    refused: list[CopyRefused]


class Watcher(Protocol):
    """An object that is told how far the copies are."""

    async def note(self, path: str, done: int, total: int) -> None:
        """Take note that `done` of `total` bytes of all copies are written, the last ones to the file `path`."""


async def choose_files(
    results: JobFiles, names: Collection[str], read: ReadPart, *, hidden: bool
) -> tuple[list[JobFile], list[str]]:
    """Return the files with these names, and no sentences; without `names`, all that can be copied, and what stays.

    The sentences say which listed files stay, and why. A name that the list leaves out is looked for with `read`.
    Hidden files are not copied unless `hidden` is true: a program may read one that nobody sees, such as `.bashrc`.
    Raises `CopyRefused` if one of the `names` is not that of a file that can be copied.
    """
    known: dict[str, JobFile] = {file.path: file for file in results.files}
    known |= await find_unlisted(results, names, read)
    wanted: list[JobFile] = []
    left = [] if names or not results.omitted_files else [explain_omitted(results)]
    for name in dict.fromkeys(names) or known:
        why = _explain_refusal(known.get(name), hidden, results)
        if why and names:
            raise CopyRefused("unsafe_path" if name in known else "not_found", f"{quoted(name)}: {why}")
        if why:
            left.append(f"{quoted(name)}: {why}")
        else:
            wanted.append(known[name])
    return wanted, left


def _explain_refusal(file: JobFile | None, hidden: bool, results: JobFiles) -> str:
    """Return why a file cannot be copied, as a sentence; "" if it can."""
    if file is None and results.omitted_files:
        return (
            "The job's list does not name it, and nothing of it is kept. The list names only the newest "
            f"{len(results.files)} files, and a cluster keeps no others."
        )
    if file is None:
        return "The job has no such file."
    if file.reason:
        return file.reason
    if unsafe := explain_unsafe_path(file.path):
        return f"It cannot be copied, because {unsafe}."
    if not hidden and any(name.startswith(".") for name in file.path.split("/")):
        return "Hidden files are not copied along with others. Download it instead."
    return ""


class FileCopier:
    """Copies of files of one job in one folder."""

    def __init__(
        self, folder: TargetFolder, job: str, read: ReadPart, *, agreed: Mapping[str, str] | None = None
    ) -> None:
        """Copy files of this job into the folder.

        `agreed` has the files that may be replaced, also with "keep both": the `Present.version` of each, by path. None
        = all files with "replace", and no others.
        """
        self._folder, self._read, self._agreed = folder, read, agreed
        self._mark = f"job {job.removeprefix('job-')}"

    async def copy(self, files: Sequence[JobFile], existing: Existing, watcher: Watcher) -> Copied:
        """Copy files one after the other, and return those that are there now, and why others are not.

        Each file is judged for itself: one whose path cannot be made does not hold up others. A copy that fails leaves
        its target as it was.

        With "ask", raises `FilesExist` before anything is written if something else is in the place of a file, unless
        the same content was kept beside it before; with "replace", if a file is there to whose replacement nobody has
        agreed. Raises `CopyRefused` if no file can be copied, if the job has a file and a folder of one path, or if the
        disk has no room, and the `ServiceError` of a reading that fails. If the disk fills up or a reading fails, the
        copies that are complete stay.
        """
        clash = find_clash([file.path for file in files])
        if clash is not None:
            raise CopyRefused("unsafe_path", f"The job has both a file and a folder {quoted(clash)}.")
        refused: list[CopyRefused] = []
        planned = await self._plan(files, existing, refused)
        await in_thread(self._folder.check_space, sum(copy.bytes for copy in planned if not copy.unchanged))
        copied = await self._carry_out(planned, watcher, refused)
        if refused and not copied:
            raise _join(refused)
        return Copied(copied, refused)

    async def _plan(self, files: Sequence[JobFile], existing: Existing, refused: list[CopyRefused]) -> list[Copy]:
        """Return the copies to make, and those that are there already; note what is refused. Nothing is written."""
        taken = {file.path for file in files}
        copies: list[Copy] = []
        differing: list[tuple[str, Present]] = []
        for file in files:
            with _noting(refused):
                present = await in_thread(self._folder.look, file.path)
                if present is None or await self._is_equal(file, file.path, present):
                    copies.append(_make_copy(file, file.path, present))
                elif self._is_replaced(file.path, present, existing):
                    copies.append(_replace(file, present))
                else:
                    differing.append((file.path, present))
                    copies.append(await self._find_place(file, taken))
                    taken.add(copies[-1].target)
        is_beside = any(copy.target != copy.path and not copy.unchanged for copy in copies)
        if existing is not Existing.KEEP_BOTH and is_beside:
            raise FilesExist(differing)
        return copies

    def _is_replaced(self, path: str, present: Present, existing: Existing) -> bool:
        """Return whether the user wants what is there to be replaced; what is no file is refused later."""
        if self._agreed is None or not present.is_file:
            return existing is Existing.REPLACE
        return existing is not Existing.ASK and self._agreed.get(path) == present.version

    async def _carry_out(self, planned: Sequence[Copy], watcher: Watcher, refused: list[CopyRefused]) -> list[Copy]:
        """Make these copies; return those that are there now, and note what is refused.

        Raises `CopyRefused` if the disk is full, since all others would fail as well.
        """
        total, done = sum(copy.bytes for copy in planned if not copy.unchanged), 0
        copied: list[Copy] = []
        for copy in planned:
            if copy.unchanged:
                copied.append(copy)
                continue
            with _noting(refused):
                await self._make(copy, watcher, done, total)
                copied.append(copy)
            done += copy.bytes
        return copied

    async def _make(self, copy: Copy, watcher: Watcher, before: int, total: int) -> None:
        """Make one copy; see `copy`."""
        with self._folder.begin(copy.target) as partial:
            await self._fill(partial, copy, watcher, before, total)
            if not await in_thread(partial.finish, copy.replaced):
                raise CopyRefused(
                    "files_exist",
                    f"{quoted(copy.target)} was changed while it was copied, and stays as it is. Copy again.",
                )

    async def _fill(self, partial: PartialFile, copy: Copy, watcher: Watcher, before: int, total: int) -> None:
        """Write the content of a file of the job, as it comes; raise `CopyRefused` if it has another size."""
        start = 0
        await watcher.note(copy.path, before, total)
        while start < copy.bytes:
            part = await self._read_part(copy.path, start)
            start += len(part)
            if not part or start > copy.bytes:
                raise CopyRefused(
                    "incomplete",
                    f"{quoted(copy.path)} was changed or deleted after the job ended, so it is not copied.",
                )
            await in_thread(partial.write, part)
            await watcher.note(copy.path, before + start, total)

    async def _read_part(self, path: str, start: int) -> bytes:
        """Return the next bytes of a file of the job; none if it is gone."""
        try:
            return await self._read(path, start)
        except ServiceError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return b""

    async def _find_place(self, file: JobFile, taken: Collection[str]) -> Copy:
        """Return the copy of a file under a name that is not taken, and is free or has the same content already.

        All names but the first have a number. Among many, a free number is searched for in steps that double and then
        halve, so it follows a name that is in use, and is not always the lowest one.
        """
        for number in range(1, _MOST_COMPARED + 1):
            target = self._name_kept(file, number)
            if target in taken:
                continue
            present = await in_thread(self._folder.look, target)
            if present is None or await self._is_equal(file, target, present):
                return _make_copy(file, target, present)
        free = await self._find_free_number(file, taken, _MOST_COMPARED)
        last = self._name_kept(file, free - 1)
        present = None if last in taken else await in_thread(self._folder.look, last)
        if present is not None and await self._is_equal(file, last, present):
            return _make_copy(file, last, present)
        return _make_copy(file, self._name_kept(file, free), None)

    async def _find_free_number(self, file: JobFile, taken: Collection[str], used: int) -> int:
        """Return a number whose name is free, above `used`, whose name is not; the name before it is not free."""
        free = 2 * used
        while await self._is_used(file, taken, free):
            used, free = free, 2 * free
        while free - used > 1:
            middle = (used + free) // 2
            if await self._is_used(file, taken, middle):
                used = middle
            else:
                free = middle
        return free

    async def _is_used(self, file: JobFile, taken: Collection[str], number: int) -> bool:
        target = self._name_kept(file, number)
        return target in taken or await in_thread(self._folder.look, target) is not None

    def _name_kept(self, file: JobFile, number: int) -> str:
        """Return the name for the copy with this number of a file that is kept beside another one."""
        return name_beside(file.path, self._mark if number == 1 else f"{self._mark}, {number}")

    async def _is_equal(self, file: JobFile, target: str, present: Present) -> bool:
        """Return whether the file at the target has the content of the job's file."""
        if not present.is_file or present.bytes != file.bytes:
            return False
        try:
            here = self._folder.open_file(target)
        except CopyRefused:
            return False  # what cannot be read counts as different
        try:
            start = 0
            while start < file.bytes:
                part = await self._read_part(file.path, start)
                if not part or await in_thread(os.pread, here, len(part), start) != part:
                    return False
                start += len(part)
        except OSError:
            return False
        finally:
            os.close(here)
        return True


def name_beside(path: str, mark: str) -> str:
    """Return the path with a mark in the name, such as "model (job 4f1c).pt"; a name too long for Linux is cut."""
    pure = PurePosixPath(path)
    ending = pure.suffix if len(pure.suffix) <= _LONGEST_ENDING else ""
    end = f" ({mark}){ending}"
    most = max(1, _LONGEST_NAME - len(end.encode()))
    stem = pure.name.removesuffix(ending).encode()[:most].decode("utf-8", "ignore")
    return pure.with_name(stem + end).as_posix()


@contextmanager
def _noting(refused: list[CopyRefused]) -> Iterator[None]:
    """Add a refusal of one file to the list; a full disk refuses all files, so it is raised."""
    try:
        yield
    except CopyRefused as error:
        if error.code == "disk_full":
            raise
        refused.append(error)


def _join(refused: Sequence[CopyRefused]) -> CopyRefused:
    """Return one refusal for several files: the first, with the number of the others."""
    first, *others = refused
    more = {0: "", 1: " 1 more file is not copied either."}
    said = more.get(len(others), f" {len(others)} more files are not copied either.")
    return CopyRefused(first.code, f"{first}{said}")


def _replace(file: JobFile, present: Present) -> Copy:
    """Return the copy of a file that replaces what is there; raise `CopyRefused` if that is no file."""
    if not present.is_file:
        raise CopyRefused(
            "unsafe_path",
            f"{quoted(file.path)} is a {present.kind} here, so it is not replaced. Rename it, then copy again.",
        )
    return Copy(path=file.path, target=file.path, bytes=file.bytes, replaced=present)


def _make_copy(file: JobFile, target: str, present: Present | None) -> Copy:
    return Copy(path=file.path, target=target, bytes=file.bytes, unchanged=present is not None)


async def in_thread(function: Callable[..., Result], *args: object) -> Result:
    """Return `function(*args)`, called in a thread; if cancelled, wait for its end first, since it uses open files."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *args))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
