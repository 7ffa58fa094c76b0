"""The files of jobs in the service's own store; see `backends.bundles` for the guarantees.

A pod has no disk that outlives it, and each replica of the service must see the same files. So the bundle, the logs
and the list of results are files of the store, and the contents of results are parts there. The executed notebook is
not stored: it is made from the bundle and the stored outputs.

An administrator may choose a place outside the database for large contents; then the store has their names only. A
bundle is staged there before its job is stored, because an upload takes time and the storing of a job must not wait.
See docs/decisions/0375-keep-large-contents-at-a-url-and-their-names-in-the-database.md
and docs/decisions/0424-delete-the-upload-of-a-refused-job-at-once.md.
"""

import hashlib
import json
import re
import secrets
import threading
from collections.abc import Collection, Sequence
from typing import Protocol

from jupyter_gq.backends.bundles import LeftOutputs, LogName, LogSpan, PodFiles, encode_bundle, require_inner_path
from jupyter_gq.backends.contents import Contents, read_contents
from jupyter_gq.client.bundle import CellsMissing, pair_cells
from jupyter_gq.client.files.frozen_files import PART_SIZE
from jupyter_gq.client.outputs.executed import ShownOutputs, make_executed_notebook
from jupyter_gq.domain.errors import BackendError, Conflict, UnusableFile
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.store.outside import LEAST_OUTSIDE, OUTSIDE_BUNDLE, Content, OutsideContent
from jupyter_gq.store.protocol import OutputPiece, PageSize

from .contents_at_url import ContentsAtUrl
from .logs import LogFiles, StoredLogs
from .place import open_place

_BUNDLE, _RESULTS = "bundle.json", "results.json"
_PAGE = PageSize(entries=1000)
#: Name of the setting with the name of the folder of this database at the URL.
_FOLDER = "contents_folder"
#: Number of bundles that are staged and not written yet.
_MOST_STAGED = 100
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class Files(LogFiles, Protocol):
    """The part of the store that keeps files."""

    def delete_files(self, workload: str) -> None:
        """Remove all files of a workload."""
        ...

    def part(self, owner: str, digest: str) -> Content | None:
        """Return the content of a part of an owner's files; None if there is no such part."""
        ...


class Outputs(Protocol):
    """The part of the store that keeps the outputs of jobs."""

    def outputs(self, workload: str, after: int, page: PageSize) -> Sequence[OutputPiece]:
        """Return one page of the outputs with a number above `after`, in order."""
        ...


class BundleDatabase(Files, Outputs, Protocol):
    """The part of the store that keeps files, outputs and small documents."""

    def setting(self, name: str) -> JsonObject | None:
        """Return the small document of that name; None if there is none."""
        ...

    def put_setting(self, name: str, value: JsonObject) -> None:
        """Insert or replace the small document of that name."""
        ...


class StoredBundles:
    """The files of jobs in the service's own store, with large contents at a URL if there is one.

    The store has no accounts of users, so methods that take an `owner` use it only to find the owner's parts.
    """

    def __init__(self, files: Files, outputs: Outputs, contents: Contents | None = None) -> None:
        """Create a store of bundles and logs in `files`; `outputs` has the outputs, and is usually the same store.

        `contents` is the place of large contents; None = the store keeps them too.
        """
        self._files, self._outputs, self._logs = files, outputs, StoredLogs(files)
        self._contents = contents
        self._lock = threading.Lock()
        #: Names of the objects with the bundles that are staged, oldest first; each begins with the hash of its bundle.
        self._staged: list[str] = []

    @property
    def pod_files(self) -> PodFiles | None:
        """The same files: runners in pods read and write them through the service."""
        return self

    @property
    def contents(self) -> Contents | None:
        """The place of large contents outside the database; None if they are in the database too."""
        return self._contents

    def is_outside(self, job: str, owner: str, path: str | None, start: int) -> bool:
        """Return whether a content is outside the database; see `BundleStore.is_outside`."""
        if path is None:
            return self._files.file(job, OUTSIDE_BUNDLE) is not None
        return isinstance(self._find_result(job, owner, path, start)[0], OutsideContent)

    def stage(self, bundle: JsonObject, max_bytes: int) -> str | None:
        """Upload a large bundle for a later `write`; see `PodFiles.stage`.

        If more than `_MOST_STAGED` bundles wait for `write`, the earliest are forgotten, and the database keeps these.
        """
        content = encode_bundle(bundle, max_bytes)
        if self._contents is None or len(content) < LEAST_OUTSIDE:
            return None
        (kept,) = self._contents.put([content])
        with self._lock:
            self._staged = [*self._staged, kept.name][-_MOST_STAGED:]
        return kept.name

    def unstage(self, name: str) -> None:
        """Begin to delete a staged bundle that `write` has not used; see `PodFiles.unstage`."""
        if self._take_staged(name) and self._contents is not None:
            self._contents.discard([name])

    def _take_staged(self, beginning: str) -> str:
        """Return the name of a staged bundle that begins so, to one caller only; "" if there is none."""
        with self._lock:
            found = next((name for name in self._staged if name.startswith(beginning)), "")
            self._staged = [name for name in self._staged if name != found]
        return found

    def write(self, job: str, owner: str, bundle: JsonObject, max_bytes: int, files: bytes = b"") -> None:
        """Store the bundle of a new job, all of it or nothing; for the errors see `BundleStore.write`.

        Only the name of a staged bundle is stored. An id that is not safe as a file name raises `BackendError`.
        """
        content = encode_bundle(bundle, max_bytes)
        if not _ID.fullmatch(job):
            raise BackendError(f"{job!r} is not the id of a job.")
        if any(self._files.file(job, name) is not None for name in (_BUNDLE, OUTSIDE_BUNDLE)):
            raise Conflict(f"There are already files of a job {job}.")
        staged = self._take_staged(hashlib.sha256(content).hexdigest()) if self._staged else ""
        if staged:
            self._files.put_file(job, OUTSIDE_BUNDLE, staged.encode())
        else:
            self._files.put_file(job, _BUNDLE, content)

    def bundle(self, job: str) -> JsonObject | None:
        """Return the bundle as it was written; None if there is none. For the errors see `PodFiles.bundle`."""
        name = self._files.file(job, OUTSIDE_BUNDLE)
        if name is None:
            return _object(self._files.file(job, _BUNDLE))
        # The true size is not needed: the name has the hash of the content.
        (content,) = read_contents(self._contents, [OutsideContent(name=name.decode(), size=LEAST_OUTSIDE)])
        return _object(content)

    def executed_notebook(self, job: str, owner: str) -> JsonObject | None:
        """Return the notebook with the stored outputs; None before the first output, or if the bundle is unusable."""
        bundle, shown = self.bundle(job), self._shown(job)
        if bundle is None or not shown.seq:
            return None
        try:
            notebook = bundle["notebook"]
            cells = pair_cells(bundle["manifest"], notebook)
            return make_executed_notebook(notebook, cells, shown.about(job), shown)
        except (CellsMissing, KeyError, TypeError, AttributeError):
            return None  # the job cannot run either: the runner says why

    def log(self, job: str, owner: str, tail: int, *, run: int, tasks: Sequence[int]) -> str | None:
        """Return the ends of the logs that these tasks of the newest run have sent; None if none has.

        The run is the newest one that has sent a log, whatever `run` says; see `BundleStore.log`.
        """
        logged = [task for task in self._logs.tasks(job) if task in tasks]
        kept = max(1, tail // max(1, len(logged)))
        texts = [(task, self._logs.tail(job, task, kept).decode(errors="replace")) for task in logged]
        if len(texts) <= 1:
            return texts[0][1] if texts else None
        return "\n".join(f"== task {task} ==\n{text}" for task, text in texts)

    def log_span(self, log: LogName) -> LogSpan | None:
        """Return which bytes of a log of the newest run are kept; None if its task has sent none."""
        return self._logs.span(log.job, log.task)

    def log_part(self, log: LogName, start: int, size: int) -> bytes:
        """Return a part of a log of the newest run; see `BundleStore.log_part`."""
        return self._logs.part(log.job, log.task, start, size)

    def cut_log(self, log: LogName, keep: int) -> int:
        """Drop the beginning of a log; see `BundleStore.cut_log`."""
        return self._logs.cut(log, keep)

    def put_log(self, log: LogName, text: str) -> None:
        """Store the last 64 KiB of a log, in place of its earlier one; do nothing if a newer run has sent one.

        The first log of a newer run makes `log` leave out those of earlier runs.
        """
        self._logs.put_end(log, text.encode())

    def log_end(self, log: LogName) -> int:
        """Return the number of bytes that were sent of a log; see `PodFiles.log_end`."""
        return self._logs.end(log)

    def append_log(self, log: LogName, start: int, text: str, most: int) -> None:
        """Append the next text of a log from byte `start` on; see `PodFiles.append_log`."""
        self._logs.append(log, start, text.encode(), most)

    def put_results(self, job: str, report: JsonObject) -> None:
        """Store what the job brings back, in place of an earlier report; its parts are in the store already."""
        self._files.put_file(job, _RESULTS, json.dumps(report).encode())

    def results(self, job: str, owner: str, *, limit: int | None = None) -> JsonObject | None:
        """Return the list of what the job brings back; None before its runner has reported it.

        Raises `UnusableFile` if the report of the runner has more than `limit` bytes.
        """
        content = self._files.file(job, _RESULTS)
        if content is not None and limit is not None and len(content) > limit:
            raise UnusableFile(_RESULTS, f"it has more than {limit} bytes")
        report = _object(content)
        return None if report is None else report["results"]

    def result_part(self, job: str, owner: str, path: str, start: int, size: int) -> bytes:
        """Return the bytes of a result from byte `start` on; see `BundleStore.result_part`.

        The bytes end with the stored part that has byte `start`, even if that is before `size` bytes.
        """
        found, left = self._find_result(job, owner, path, start)
        (content,) = read_contents(self._contents, [found])
        return content[start % PART_SIZE :][: min(size, left)]

    def _find_result(self, job: str, owner: str, path: str, start: int) -> tuple[Content, int]:
        """Return the stored part with byte `start` of a result, and how many bytes the result has from there on.

        The part is empty if there is none.
        """
        require_inner_path(path)
        report = _object(self._files.file(job, _RESULTS)) or {"contents": ()}
        kept = next((each for each in report["contents"] if each["path"] == path), None)
        if kept is None or start >= kept["bytes"]:
            return b"", 0
        found = self._files.part(owner, kept["parts"][start // PART_SIZE])
        return (b"" if found is None else found), kept["bytes"] - start

    def left_outputs(self, job: str, owner: str, run: int, start: int) -> LeftOutputs:
        """Return nothing: the files of a run end with its pod, and the runner delivers all outputs before that."""
        return LeftOutputs(pieces=(), following=None)

    def close(self) -> None:
        """End what goes on in the background for contents outside the database."""
        if self._contents is not None:
            self._contents.close()

    def shortage(self) -> str:
        """Return "": the store itself tells if its disk is full."""
        return ""

    def trouble(self) -> str:
        """Return why large contents cannot be stored at the URL now; see `BundleStore.trouble`."""
        return "" if self._contents is None else self._contents.trouble

    def disk_use(self, job: str) -> None:
        """Return None: the cluster limits the disk of a pod (`ephemeral-storage`)."""

    def has_checkpoints(self, job: str, owner: str) -> None:
        """Return None: only pods reach the place of checkpoints."""
        return

    def jobs(self) -> Collection[str]:
        """Return nothing: a service that takes over the store deletes the files of workloads without a record."""
        return ()

    def delete(self, job: str, owner: str) -> None:
        """Delete all files of the job; no error if there are none."""
        self._files.delete_files(job)

    def withdraw(self, job: str, owner: str) -> None:
        """Delete all files of a job that was refused, and begin to delete its bundle; see `BundleStore.withdraw`."""
        name = self._files.file(job, OUTSIDE_BUNDLE)
        self.delete(job, owner)
        if name is not None and self._contents is not None:
            self._contents.discard([name.decode()])

    def _shown(self, job: str) -> ShownOutputs:
        shown = ShownOutputs()
        while pieces := self._outputs.outputs(job, shown.seq, _PAGE):
            shown.take([{**piece.payload, "seq": piece.seq} for piece in pieces])
        return shown


def open_bundles(store: BundleDatabase, url: str) -> StoredBundles:
    """Return the files of jobs in a store, with large contents at a URL; "" = the store keeps them too.

    Waits some seconds for the first use of the URL. If it fails, that is logged and tried again until `close`. Raises
    `AdminError` as `open_place` does, and `StoreUnavailable` if the database does not answer.
    """
    if not url:
        return StoredBundles(store, store)
    place, document = open_place(url), store.setting(_FOLDER)
    if document is None:
        document = {"name": secrets.token_hex(8)}
        store.put_setting(_FOLDER, document)
    contents = ContentsAtUrl(place, document["name"])
    contents.start()
    return StoredBundles(store, store, contents)


def _object(content: bytes | None) -> JsonObject | None:
    try:
        document = json.loads(content or b"null")
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
