"""The files of jobs in the service's own store; see `backends.bundles` for the guarantees.

A pod has no disk that outlives it, and each replica of the service must see the same files. So the bundle, the logs
and the list of results are files of the store, and the contents of results are parts there. The executed notebook is
not stored: it is made from the bundle and the stored outputs.
"""

import json
import re
from collections.abc import Collection, Sequence
from typing import Protocol

from jupyter_gq.backends.bundles import LeftOutputs, LogName, LogSpan, PodFiles, encode_bundle, require_inner_path
from jupyter_gq.client.bundle import CellsMissing, pair_cells
from jupyter_gq.client.executed import ShownOutputs, make_executed_notebook
from jupyter_gq.client.frozen_files import PART_SIZE
from jupyter_gq.domain.errors import BackendError, Conflict, UnusableFile
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.store.protocol import OutputPiece, PageSize

from .logs import LogFiles, StoredLogs

_BUNDLE, _RESULTS = "bundle.json", "results.json"
_PAGE = PageSize(entries=1000)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class Files(LogFiles, Protocol):
    """The part of the store that keeps files."""

    def delete_files(self, workload: str) -> None:
        """Remove all files of a workload."""
        ...

    def part(self, owner: str, digest: str) -> bytes | None:
        """Return the content of a part of an owner's files; None if there is no such part."""
        ...


class Outputs(Protocol):
    """The part of the store that keeps the outputs of jobs."""

    def outputs(self, workload: str, after: int, page: PageSize) -> Sequence[OutputPiece]:
        """Return one page of the outputs with a number above `after`, in order."""
        ...


class StoredBundles:
    """A bundle store in the service's own store; the service tells owners apart, not the disk."""

    def __init__(self, files: Files, outputs: Outputs) -> None:
        """Create a store of bundles and logs in `files`; `outputs` has the outputs, and is usually the same store."""
        self._files, self._outputs, self._logs = files, outputs, StoredLogs(files)

    @property
    def pod_files(self) -> PodFiles | None:
        """The same files: runners in pods read and write them through the service."""
        return self

    def write(self, job: str, owner: str, bundle: JsonObject, max_bytes: int, files: bytes = b"") -> None:
        """Store the bundle of a new job, all of it or nothing; for the errors see `BundleStore.write`.

        An id that is not safe as a file name raises `BackendError`.
        """
        content = encode_bundle(bundle, max_bytes)
        if not _ID.fullmatch(job):
            raise BackendError(f"{job!r} is not the id of a job.")
        if self._files.file(job, _BUNDLE) is not None:
            raise Conflict(f"There are already files of a job {job}.")
        self._files.put_file(job, _BUNDLE, content)

    def bundle(self, job: str) -> JsonObject | None:
        """Return the bundle as it was written; None if there is none."""
        return _object(self._files.file(job, _BUNDLE))

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
        """Return a part of one of the job's results, within one stored part; for the errors see `BundleStore`."""
        require_inner_path(path)
        report = _object(self._files.file(job, _RESULTS)) or {"contents": ()}
        kept = next((each for each in report["contents"] if each["path"] == path), None)
        if kept is None or start >= kept["bytes"]:
            return b""
        number, begin = divmod(start, PART_SIZE)
        content = self._files.part(owner, kept["parts"][number]) or b""
        return content[begin:][: min(size, kept["bytes"] - start)]

    def left_outputs(self, job: str, owner: str, run: int, start: int) -> LeftOutputs:
        """Return nothing: the files of a run end with its pod, and the runner delivers all outputs before that."""
        return LeftOutputs(pieces=(), following=None)

    def disk_use(self, job: str) -> None:
        """Return None: the cluster limits the disk of a pod (`ephemeral-storage`)."""

    def jobs(self) -> Collection[str]:
        """Return nothing: a service that takes over the store deletes the files of workloads without a record."""
        return ()

    def delete(self, job: str, owner: str) -> None:
        """Delete all files of the job; no error if there are none."""
        self._files.delete_files(job)

    def _shown(self, job: str) -> ShownOutputs:
        shown = ShownOutputs()
        while pieces := self._outputs.outputs(job, shown.seq, _PAGE):
            shown.take([{**piece.payload, "seq": piece.seq} for piece in pieces])
        return shown


def _object(content: bytes | None) -> JsonObject | None:
    try:
        document = json.loads(content or b"null")
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
