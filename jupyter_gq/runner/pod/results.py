"""The upload of what a job in a pod brings back: its variables and files. Standard library only.

Rules
-----
- Content first: parts of all contents are sent, then the list, so that nothing is listed that cannot be read.
- A word for each: a file or variable that is not kept stays in the list with the reason.
- Variables first: they were asked for by name, so files get the room that variables leave.

See docs/decisions/0141-let-pods-send-results-in-parts.md.
"""

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from jupyter_gq.client.files.frozen_files import PART_SIZE, explain_unsafe_path
from jupyter_gq.client.files.user_files import read_json, read_part
from jupyter_gq.domain.errors import UnusableFile
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.runner.files.folder import RunFolder

from .service import PodService, RequestRefused, retry_until_answered

#: Bytes of the list of results that the runner has written.
_LONGEST_LIST = 8 * 1024 * 1024
#: Most parts in one request.
_MOST_PARTS = 500
_NO_TIME = "There was no time left to send it."
_MIB = 1024 * 1024


class ResultsService(Protocol):
    """The part of the service that takes results. A refusal raises `RequestRefused`."""

    def put_parts(self, contents: Sequence[str]) -> None:
        """Send parts of contents, as base64."""
        ...

    def put_results(self, report: JsonObject) -> None:
        """Send the list of results, with the parts of each content."""
        ...


@dataclass(kw_only=True, slots=True)
class _Content:
    """The content of one result on its way."""

    #: The entry of the list, which gets a reason if the content is not kept.
    entry: JsonObject
    #: Path below the folder of results.
    path: str
    size: int = 0
    digests: list[str] = field(default_factory=list)

    @property
    def is_kept(self) -> bool:
        """Whether nothing has spoken against keeping the content so far."""
        return not self.entry.get("reason")

    def leave_out(self, reason: str) -> None:
        """Record why the content is not kept."""
        self.entry["reason"] = reason
        if "name" in self.entry:  # a variable without content has no size
            self.entry.update(bytes=None, path="")


@dataclass(frozen=True, kw_only=True, slots=True)
class RetriedResults:
    """The requests of one task about its results, tried again until the service answers."""

    service: PodService
    #: Token of the task; never logged.
    token: str = field(repr=False)
    #: Seconds without an answer after which a request is given up.
    timeout: Callable[[], float]

    def put_parts(self, contents: Sequence[str]) -> None:
        """Send parts of contents; raise `RequestRefused` or `RetriesExhausted`."""
        self._retry(lambda: self.service.put_result_parts(self.token, contents))

    def put_results(self, report: JsonObject) -> None:
        """Send the list of results; raise `RequestRefused` or `RetriesExhausted`."""
        self._retry(lambda: self.service.put_results(self.token, report))

    def _retry(self, send: Callable[[], None]) -> None:
        retry_until_answered("the job's results", send, self.timeout(), 0.0)


class ResultsUpload:
    """The upload of the results of one run."""

    def __init__(self, service: ResultsService, limit: int, seconds_left: Callable[[], float]) -> None:
        """Create an upload of at most `limit` bytes that ends once `seconds_left` is 0 or below."""
        self._service, self._left, self._seconds_left = service, limit, seconds_left
        self._limit = limit
        self._parts: list[bytes] = []
        self._waiting: list[_Content] = []

    def send(self, folder: RunFolder) -> None:
        """Send what the job brings back; do nothing if it brings nothing back.

        Raises `RequestRefused` if the service does not take the list, `UnusableFile` if the list is damaged, and errors
        of the connection.
        """
        document = read_json(folder.results_record, limit=_LONGEST_LIST)
        if document is None:
            return
        try:
            contents = list(_find_contents(document))
        except (KeyError, TypeError, AttributeError) as error:
            raise UnusableFile(folder.results_record.name, f"it is no list of results ({error})") from error
        for content in contents:
            self._send_content(folder.job, content)
        self._flush()
        kept = [content for content in contents if content.is_kept]
        parts = [{"path": each.path, "bytes": each.size, "parts": each.digests} for each in kept]
        self._service.put_results({"results": document, "contents": parts})

    def _send_content(self, job: Path, content: _Content) -> None:
        """Send the parts of one content in the folder of a job, or record why it is left out."""
        unsafe = explain_unsafe_path(content.path)
        if unsafe:
            content.leave_out(f"It is not kept, because {unsafe}.")
            return
        try:
            for part in _read_parts(job, f"results/{content.path}", self._left):
                if self._seconds_left() <= 0:
                    content.leave_out(_NO_TIME)
                if not content.is_kept:
                    return
                self._add(part, content)
        except _DoesNotFit:
            content.leave_out(
                f"It does not fit: at most {self._limit / _MIB:g} MiB come back from one job "
                "(c.TrainingQueues.max_result_mib)."
            )
        except UnusableFile as error:
            content.leave_out(str(error))
        else:
            self._left -= content.size
            content.entry["bytes"] = content.size

    def _add(self, part: bytes, content: _Content) -> None:
        """Put a part into the next request, after sending the last one if it is full."""
        if len(self._parts) >= _MOST_PARTS or sum(map(len, self._parts)) + len(part) > PART_SIZE:
            self._flush()
        self._parts.append(part)
        content.size += len(part)
        content.digests.append(hashlib.sha256(part).hexdigest())
        if not self._waiting or self._waiting[-1] is not content:
            self._waiting.append(content)

    def _flush(self) -> None:
        """Send the parts that wait; if the service refuses them, their contents are left out with its sentence."""
        if not self._parts:
            return
        try:
            self._service.put_parts([base64.b64encode(part).decode("ascii") for part in self._parts])
        except RequestRefused as error:
            for content in self._waiting:
                content.leave_out(str(error))
        self._parts, self._waiting = [], []


class _DoesNotFit(Exception):
    """The discovery that a file is larger than what is left of the limit on the results of a job."""


def _find_contents(document: JsonObject) -> Iterator[_Content]:
    """Yield the contents of all results that have one: first those of variables, then those of files."""
    for entry in document["variables"]:
        if entry["bytes"] is not None:
            yield _Content(entry=entry, path=str(entry["path"]))
    for entry in document["files"]:
        if not entry.get("reason"):
            yield _Content(entry=entry, path=f"files/{entry['path']}")


def _read_parts(folder: Path, path: str, most: int) -> Iterator[bytes]:
    """Yield the parts of a file; raise `_DoesNotFit` above `most` bytes, and `UnusableFile` if it cannot be read."""
    size = 0
    while part := read_part(folder, path, start=size, size=PART_SIZE):
        size += len(part)
        if size > most:
            raise _DoesNotFit
        yield part
