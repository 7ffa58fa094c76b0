"""The logs of jobs in the service's own store: segments of a fixed size, so that the beginning of a log can be dropped.

The document `logs.json` of a job has the number of its newest run with a log, and the bytes of each task's log that are
kept. A segment is written before the document names its bytes, so a service that is killed between leaves no wrong
ones: the runner sends again what the document does not name.

See docs/decisions/0151-let-pods-send-their-whole-log.md.
"""

import json
from typing import Protocol

from jupyter_gq.backends.bundles import LogName, LogSpan
from jupyter_gq.domain.json_types import JsonObject

_INDEX = "logs.json"
#: Bytes of a log that an older runner sends: the end only.
LOG_KEPT = 64 * 1024
#: Bytes of a segment.
SEGMENT = 256 * 1024


class LogFiles(Protocol):
    """The part of the store that keeps the segments."""

    def put_file(self, workload: str, name: str, content: bytes) -> None:
        """Insert or replace a file; raise `StorageFull` when the disk refuses it."""
        ...

    def file(self, workload: str, name: str) -> bytes | None:
        """Return the content of a file; None if there is no such file."""
        ...

    def delete_file(self, workload: str, name: str) -> None:
        """Remove a file; no error if there is none."""
        ...


class StoredLogs:
    """The logs of the newest run of each job; the logs of a newer run replace those of earlier runs."""

    def __init__(self, files: LogFiles) -> None:
        self._files = files

    def tasks(self, job: str) -> list[int]:
        """Return the tasks of the newest run that have sent a log, in order."""
        return sorted(int(task) for task in self._index(job)["tasks"])

    def span(self, job: str, task: int) -> LogSpan | None:
        """Return which bytes of a task's log are kept; None if the task has sent none."""
        tasks = self._index(job)["tasks"]
        if str(task) not in tasks:
            return None
        kept = tasks[str(task)]
        if kept is not None:
            return LogSpan(start=kept["start"], end=kept["end"])
        return LogSpan(start=0, end=len(self._files.file(job, _end_name(task)) or b""), only_end=True)

    def end(self, log: LogName) -> int:
        """Return the number of bytes that were sent of a log; 0 if none was, its end only, or another run is newest."""
        index = self._index(log.job)
        kept = index["tasks"].get(str(log.task)) if index["run"] == log.run else None
        return 0 if kept is None else int(kept["end"])

    def part(self, job: str, task: int, start: int, size: int) -> bytes:
        """Return at most `size` bytes of a task's log from byte `start` on; empty after its end."""
        span = self.span(job, task)
        if span is None:
            return b""
        if span.only_end:
            return (self._files.file(job, _end_name(task)) or b"")[start:][:size]
        end, content = min(span.end, start + size), bytearray()
        while start < end:
            number, begin = divmod(start, SEGMENT)
            piece = (self._files.file(job, _segment_name(task, number)) or b"")[begin:][: end - start]
            if not piece:
                break
            content += piece
            start += len(piece)
        return bytes(content)

    def tail(self, job: str, task: int, size: int) -> bytes:
        """Return the last bytes of a task's log that are kept, at most `size`; empty if the task has sent none."""
        span = self.span(job, task)
        return b"" if span is None else self.part(job, task, max(span.start, span.end - size), size)

    def put_end(self, log: LogName, content: bytes) -> None:
        """Store the end of a log in place of its earlier one; do nothing if a newer run has sent a log."""
        index = self._begin(log)
        if index is not None:
            self._files.put_file(log.job, _end_name(log.task), content[-LOG_KEPT:])
            index["tasks"][str(log.task)] = None
            self._put_index(log.job, index)

    def append(self, log: LogName, start: int, content: bytes, most: int) -> None:
        """Append the next bytes of a log, whose first one has the number `start`; keep about the last `most` bytes.

        Bytes that are there already are skipped. Bytes after a gap drop all earlier ones, so that the log has no hole.
        Does nothing if a newer run has sent a log.
        """
        index = self._begin(log)
        if index is None:
            return
        kept = index["tasks"].get(str(log.task)) or {"start": start, "end": start}
        if start > kept["end"]:
            self._delete(log.job, log.task, kept["start"], _round_up(kept["end"]))
            kept = {"start": start, "end": start}
        content = content[kept["end"] - start :]
        while content:
            number, begin = divmod(kept["end"], SEGMENT)
            piece, content = content[: SEGMENT - begin], content[SEGMENT - begin :]
            before = (self._files.file(log.job, _segment_name(log.task, number)) or b"")[:begin].ljust(begin, b"\0")
            self._files.put_file(log.job, _segment_name(log.task, number), before + piece)
            kept = {**kept, "end": kept["end"] + len(piece)}
        self._keep(log, index, kept, most)

    def cut(self, log: LogName, keep: int) -> int:
        """Drop the segments before the last `keep` bytes of a log; return the number of dropped bytes."""
        index = self._index(log.job)
        kept = index["tasks"].get(str(log.task))
        return 0 if kept is None else self._keep(log, index, kept, keep)

    def _keep(self, log: LogName, index: JsonObject, kept: JsonObject, most: int) -> int:
        """Record that these bytes of a log are kept, without segments before the last `most`; return the dropped."""
        begin = max(kept["start"], (kept["end"] - most) // SEGMENT * SEGMENT)
        index["tasks"][str(log.task)] = {"start": begin, "end": kept["end"]}
        self._put_index(log.job, index)
        self._delete(log.job, log.task, kept["start"], begin)
        return int(begin - kept["start"])

    def _begin(self, log: LogName) -> JsonObject | None:
        """Return the index for a write to a log, without the logs of earlier runs; None if a newer run has sent one."""
        index = self._index(log.job)
        if log.run < index["run"]:
            return None
        if log.run > index["run"]:
            for task, kept in index["tasks"].items():
                if kept is not None:
                    self._delete(log.job, int(task), kept["start"], _round_up(kept["end"]))
            index = {"run": log.run, "tasks": {}}
        return index

    def _delete(self, job: str, task: int, start: int, end: int) -> None:
        """Delete the segments of a log that begin at `start` or later and end at `end` or earlier."""
        for number in range(start // SEGMENT, end // SEGMENT):
            self._files.delete_file(job, _segment_name(task, number))

    def _index(self, job: str) -> JsonObject:
        """Return the index of a job's logs; an earlier release listed tasks whose end alone was kept."""
        try:
            index = json.loads(self._files.file(job, _INDEX) or b"null")
        except ValueError:
            index = None
        if not isinstance(index, dict):
            return {"run": 0, "tasks": {}}
        tasks = index["tasks"]
        return {"run": index["run"], "tasks": tasks if isinstance(tasks, dict) else dict.fromkeys(map(str, tasks))}

    def _put_index(self, job: str, index: JsonObject) -> None:
        self._files.put_file(job, _INDEX, json.dumps(index).encode())


def _round_up(end: int) -> int:
    """Return the end of the segment with the last byte before `end`."""
    return -(-end // SEGMENT) * SEGMENT


def _end_name(task: int) -> str:
    return f"log.{task}"


def _segment_name(task: int, number: int) -> str:
    return f"log.{task}.{number}"
