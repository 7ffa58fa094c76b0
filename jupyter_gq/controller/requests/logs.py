"""The requests of users about the log of a job's last run: how much is kept, its bytes, and the lines with a text.

Rules
-----
Seeing: those who see the job's outputs, the owner and administrators; see `job_access`.

Bounded: one request reads at most `LOG_PART` bytes. A text is looked for part by part, and each answer says where the
next part begins, so that a long log holds up nobody else.

See docs/decisions/0150-read-and-search-logs-in-parts.md.
"""

from jupyter_gq.backends.bundles import LogName, LogSpan
from jupyter_gq.client.models import JobLog, LogLine, LogLines, TaskLog
from jupyter_gq.client.models.logs import LONGEST_LINE, MOST_LINES
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.log_names import name_log
from jupyter_gq.domain.amount import format_bytes
from jupyter_gq.domain.errors import Conflict, NotFound
from jupyter_gq.domain.workload import Workload

from .job_access import find_job

#: Most bytes of a log in one answer, and most bytes that one request searches.
LOG_PART = 4 * 1024 * 1024


def choose_tasks(workload: Workload, task: int | None) -> list[int]:
    """Return the tasks whose logs are asked for: this one, or all; raise `NotFound` if the job has no such task."""
    every = range(workload.tasks)
    if task is None:
        return list(every)
    if task not in every:
        there = "only task 0" if workload.tasks == 1 else f"the tasks 0 to {every[-1]}"
        raise NotFound(f"The job {workload.name!r} has no task {task}: it has {there}.")
    return [task]


class JobLogs:
    """The requests about logs. A job that the caller may not see raises `NotFound`, as if there were none."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def describe(self, caller: Caller, job: str) -> JobLog:
        """Return which bytes of the log of each task are kept, and what is dropped.

        Raises `UnusableFile` if the job has put something else into the place of a log.
        """
        workload = find_job(self._context, caller, job).workload
        found = {task: self._context.bundles.log_span(name_log(workload, task)) for task in range(workload.tasks)}
        spans = {task: span for task, span in found.items() if span is not None}
        note = self._explain_missing(list(spans.values()))
        tasks = [TaskLog(task=task, start=span.start, end=span.end) for task, span in spans.items()]
        return JobLog(run=workload.run, tasks=tasks, complete=not note, note=note)

    def read_part(self, caller: Caller, job: str, task: int, start: int) -> bytes:
        """Return the next bytes of a task's log from byte `start` on, at most `LOG_PART`; empty at its end.

        Raises `NotFound` if there is no such task, and `Conflict` if the bytes from `start` on are dropped. Raises
        `UnusableFile` as `describe` does.
        """
        name, span = self._find(caller, job, task)
        if span is None or start >= span.end:
            return b""
        if start < span.start:
            raise Conflict(
                f"The first {format_bytes(span.start)} of this log are dropped. Read it from byte {span.start} on."
            )
        return self._context.bundles.log_part(name, start, min(LOG_PART, span.end - start))

    def find_lines(self, caller: Caller, job: str, text: str, task: int, position: tuple[int, int]) -> LogLines:
        """Return the next lines of a task's log that have this text in them; "" is in every line.

        `position` is the byte and the number of the line where the search begins: those that the answer before named,
        or (0, 1). Raises `NotFound` if there is no such task, and `UnusableFile` as `describe` does.
        """
        name, span = self._find(caller, job, task)
        start, line = position
        if span is None or max(start, span.start) >= span.end:
            return LogLines(task=task, lines=[], next=None, next_line=line)
        start = max(start, span.start)
        content = self._context.bundles.log_part(name, start, min(LOG_PART, span.end - start))
        at_end = start + len(content) >= span.end
        if not at_end:
            content = content[: content.rfind(b"\n") + 1] or content  # the next part begins with a whole line
        lines, read, line = search(content, text.encode(), line)
        following = None if not content or (at_end and read == len(content)) else start + read
        return LogLines(task=task, lines=lines, next=following, next_line=line)

    def _find(self, caller: Caller, job: str, task: int) -> tuple[LogName, LogSpan | None]:
        """Return the name and the bytes of a task's log; raise `NotFound` if there is no such task."""
        workload = find_job(self._context, caller, job).workload
        (known,) = choose_tasks(workload, task)
        name = name_log(workload, known)
        return name, self._context.bundles.log_span(name)

    def _explain_missing(self, spans: list[LogSpan]) -> str:
        """Return what is not kept of these logs as a sentence; "" if nothing is missing."""
        if any(span.only_end for span in spans):
            return (
                "Only the end of this log is kept, 64 KiB of each task: an older version of jupyter-gq in the job's "
                "pod sent no more."
            )
        dropped, settings = sum(span.start for span in spans), self._context.settings
        if not dropped:
            return ""
        job, user = format_bytes(settings.max_log_bytes), format_bytes(settings.max_user_log_bytes)
        return (
            f"The first {format_bytes(dropped)} of this log are dropped: at most {job} of the log of one job, and "
            f"{user} of the logs of one user, are kept."
        )


def search(content: bytes, text: bytes, line: int) -> tuple[list[LogLine], int, int]:
    """Return the lines of a part of a log that have the text in them, at most `MOST_LINES`.

    Also returns the number of bytes that were searched, and the number of the line after them. `line` is the number of
    the first line of the part.
    """
    found: list[LogLine] = []
    begin = 0
    while begin < len(content):
        at = content.find(text, begin)
        if at < 0 or len(found) == MOST_LINES:
            break
        first = content.rfind(b"\n", begin, at) + 1 or begin
        line += content.count(b"\n", begin, first)
        last = content.find(b"\n", at)
        last = len(content) if last < 0 else last
        found.append(LogLine(line=line, text=_cut_out(content, first, last, at)))
        begin = min(last + 1, len(content))
        line += last < len(content)
    if len(found) == MOST_LINES:
        return found, begin, line
    return found, len(content), line + content.count(b"\n", begin)


def _cut_out(content: bytes, first: int, last: int, at: int) -> str:
    """Return the line from byte `first` to `last`, or `LONGEST_LINE` bytes of it around byte `at`."""
    if last - first > LONGEST_LINE:
        first = max(first, min(at - LONGEST_LINE // 2, last - LONGEST_LINE))
        last = first + LONGEST_LINE
    return content[first:last].decode("utf-8", "replace")
