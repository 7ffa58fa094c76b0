"""The files of jobs: bundle, executed notebook, results and log. One implementation lies beside each backend.

Guarantees
----------
- All or nothing: `write` leaves all files or none.
- Owner only: only the owner of a job can read its files.
- No foreign files: reading never follows the owner's links to the files of others.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.errors import TooLarge, UnusableFile
from jupyter_gq.domain.json_types import JsonObject

from .contents import Contents

_MIB = 1024 * 1024


class BundleStore(Protocol):
    """A store of the files of jobs."""

    @property
    def pod_files(self) -> "PodFiles | None":
        """The files as pods read and write them; None where runners use the disk of this machine."""
        ...

    def write(self, job: str, owner: str, bundle: JsonObject, max_bytes: int, files: bytes = b"") -> None:
        """Store the bundle of a new job, and the content of the files that it takes along, one after the other.

        A store with `pod_files` is given no content: pods ask for it.

        Raise `TooLarge` above `max_bytes`, `StorageFull` if the disk or a quota refuses the write, and `Conflict` if
        the job has files already. Raise `BackendError` if the owner has no account on this machine.
        """
        ...

    def executed_notebook(self, job: str, owner: str) -> JsonObject | None:
        """Return the job's notebook with its outputs so far; None before there is one.

        Raises `UnusableFile` if the job has put something else into its place.
        """
        ...

    def log(self, job: str, owner: str, tail: int, *, run: int, tasks: Sequence[int]) -> str | None:
        """Return the last `tail` bytes of the logs of these tasks of the newest run; None before there is one.

        `run` is the number of that run, and `tasks` are numbers of tasks, so that no folder of the job is listed. Each
        task gets an equal part of `tail`. A headline names the task if several of them have a log.
        Raises `UnusableFile` if the job has put something else into the place of its log.
        """
        ...

    def log_span(self, log: "LogName") -> "LogSpan | None":
        """Return which bytes of a log are kept; None before there is such a log.

        Raises `UnusableFile` if the job has put something else into its place.
        """
        ...

    def log_part(self, log: "LogName", start: int, size: int) -> bytes:
        """Return at most `size` bytes of a log from byte `start` on; empty after its end, and if there is no such log.

        Bytes before the first that is kept have no meaning. Raises `UnusableFile` as `log_span` does.
        """
        ...

    def cut_log(self, log: "LogName", keep: int) -> int:
        """Drop the beginning of a log, so that little more than its last `keep` bytes are kept; return what was freed.

        The other bytes keep their numbers. Returns 0 if there is no such log. Raises `UnusableFile` as `log_span` does,
        and if the disk cannot free the beginning of a file.
        """
        ...

    def results(self, job: str, owner: str, *, limit: int | None = None) -> JsonObject | None:
        """Return the document that lists the job's returned variables and its files, as its runner wrote it.

        Returns None before the runner has written it. Raises `UnusableFile` for anything but a
        regular file of `owner` with a JSON object, of at most `limit` bytes if that is given.
        """
        ...

    def result_part(self, job: str, owner: str, path: str, start: int, size: int) -> bytes:
        """Return at most `size` bytes of one of the job's results from byte `start` on; empty after its end.

        Fewer bytes may come before the end. Empty also for a result that does not exist. `path` is that of a file below
        the folder of results. Raises `UnusableFile` for a path that leads out of that folder, and for anything but a
        regular file of the owner.
        """
        ...

    def is_outside(self, job: str, owner: str, path: str | None, start: int) -> bool:
        """Return whether a content is at a place outside the database, without asking that place.

        The content is the part of the result `path` that has byte `start`, and without a path the bundle. Raises
        `UnusableFile` as `result_part` does.
        """
        ...

    def left_outputs(self, job: str, owner: str, run: int, start: int) -> "LeftOutputs":
        """Return the next portion of the outputs that an ended run has left in its files.

        `start` is 0 for the first portion, then the `following` of the portion before. Raises `UnusableFile` if the job
        has put something else into their place, and `UnansweredFile` if the file system gives no answer. Several
        threads may call this.
        """
        ...

    def shortage(self) -> str:
        """Return a sentence that says that the disk of the jobs is full; "" if the disk has room.

        Returns "" as well if the files of jobs are in the database, which tells this itself. The disk may not answer:
        call this in a thread.
        """
        ...

    def trouble(self) -> str:
        """Return why large contents cannot be stored outside the database now, as a sentence; "" if nothing is known.

        Returns at once what the last use of that place has shown. "" also if there is no such place.
        """
        ...

    def disk_use(self, job: str) -> MiB | None:
        """Return the space that all files of a job take; None if they are not on a disk of this machine.

        Returns None also if the file system gives no answer in time. Several threads may call this.
        """
        ...

    def has_checkpoints(self, job: str, owner: str) -> bool | None:
        """Return whether the folder of a job has complete checkpoints; None if that is not known here.

        The answer is None if the pods of the job keep checkpoints elsewhere, or if the folder cannot be read now or in
        time. Raises `BackendError` if jobs cannot run as the owner. Several threads may call this.
        """
        ...

    def jobs(self) -> Collection[str]:
        """Return the ids of all jobs with files on a disk of this machine; none if the files are in the database.

        Several threads may call this.
        """
        ...

    def delete(self, job: str, owner: str) -> None:
        """Delete all files of the job; do nothing if there are none. What cannot be deleted is logged.

        What is outside the database is deleted later: an older backup of the database may name it.
        """
        ...

    def withdraw(self, job: str, owner: str) -> None:
        """Do what `delete` does for a job that was refused, so that nothing can name its bundle any more.

        A bundle outside the database is deleted too, without waiting for that.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class LogName:
    """The log of one task of a job's run."""

    job: str
    owner: str
    run: int
    task: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LogSpan:
    """The bytes of a log that are kept, by their numbers in the whole log."""

    #: Number of the first byte that is kept.
    start: int
    #: Number of bytes that were written so far, kept or not.
    end: int
    #: The log was sent as its end only, so that its true length is unknown.
    only_end: bool = False

    @property
    def kept(self) -> int:
        """Number of bytes that are kept."""
        return self.end - self.start


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOutputs:
    """A portion of the outputs in the files of an ended run; the service may have some of them already."""

    pieces: Sequence[JsonObject]
    #: Position of the next portion; None if this is the last one.
    following: int | None


class PodFiles(Protocol):
    """The files of jobs as runners in pods fetch them, and the logs that they send."""

    def bundle(self, job: str) -> JsonObject | None:
        """Return the bundle as it was written; None if there is none.

        Raises `ContentsUnavailable` or `NotFound` for a bundle outside the database that cannot be fetched or is gone.
        """
        ...

    @property
    def contents(self) -> Contents | None:
        """The place of large contents outside the database; None if they are in the database too."""
        ...

    def stage(self, bundle: JsonObject, max_bytes: int) -> str | None:
        """Upload a large bundle to the place outside the database, and return its name there: `write` stores only that.

        Returns None for a small bundle, or if there is no such place. A bundle that is never written is deleted later.
        Raises `TooLarge` as `write` does, and `ContentsUnavailable`.
        """
        ...

    def unstage(self, name: str) -> None:
        """Begin to delete a bundle that was staged, unless `write` has used it; do not wait for that."""
        ...

    def put_results(self, job: str, report: JsonObject) -> None:
        """Store what the job brings back, as `client.models.ResultsReport` has it, in place of an earlier report.

        The parts that the report names are among those of the job's owner already.
        """
        ...

    def put_log(self, log: "LogName", text: str) -> None:
        """Store `text` as the end of a log, in place of its earlier one; do nothing if a newer run has sent a log."""
        ...

    def log_end(self, log: "LogName") -> int:
        """Return the number of bytes that were sent of a log of the newest run; 0 if none was sent, or its end only."""
        ...

    def append_log(self, log: "LogName", start: int, text: str, most: int) -> None:
        """Append the next text of a log, whose first byte has the number `start`; keep about the last `most` bytes.

        Bytes that were sent before are skipped, and a gap drops what was before it. Does nothing if a newer run has
        sent a log.
        """
        ...


def require_inner_path(path: str) -> str:
    """Return the path of a result if it leads nowhere but into the folder of results; raise `UnusableFile` if not."""
    parts = path.split("/")
    if not path or "\0" in path or any(part in {"", ".", ".."} for part in parts):
        raise UnusableFile(parts[-1] or "result", "its path is not one below the folder of results")
    return path


def encode_bundle(bundle: JsonObject, max_bytes: int) -> bytes:
    """Return the bundle as the bytes of its file; raise `TooLarge` above `max_bytes`."""
    content = json.dumps(bundle).encode()
    if len(content) > max_bytes:
        raise TooLarge(
            f"What would be sent is {len(content) / _MIB:.1f} MiB, but the limit is {max_bytes / _MIB:.1f} MiB. "
            "Keep large data in files that the job reads, not in the cells."
        )
    return content
