"""Reading trace and quota files: CSV, plain or gzip, strictly checked.

- Columns: a trace needs those of `TRACE_COLUMNS` and may have `cpus` and `memory`; a quota file needs those of
  `QUOTA_COLUMNS`. Other columns are ignored.
- Errors: they name the file, the line and what was expected there.
- Amounts: they are text (see `domain.amount`). `gpus`, `cpus` and `memory` are for each task; an empty cell of the last
  two is a job that says nothing of them.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TypeVar

from jupyter_gq.commands.refusal import CommandRefused
from jupyter_gq.domain.amount import Instant, MilliGpu, Seconds, parse_cpus, parse_memory, parse_quota, parse_request
from jupyter_gq.domain.errors import InvalidAmount
from jupyter_gq.domain.plain_text import quoted, shorten
from jupyter_gq.domain.workload import Request
from jupyter_gq.simulation.trace import TraceJob

from .files import read_finite

TRACE_COLUMNS = ("job_id", "queue", "user", "submit_s", "duration_s", "gpus", "num_tasks")
QUOTA_COLUMNS = ("queue", "guaranteed_gpus")
#: A sentence names at most so many queues.
_NAMED = 8
_Amount = TypeVar("_Amount")


class InvalidTrace(CommandRefused, ValueError):
    """A trace or quota file that cannot be read, or that has an impossible value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceSetup:
    """The jobs of a trace, and the quotas of their queues."""

    #: In the order of the file; only those of queues with a quota.
    jobs: tuple[TraceJob, ...]
    quotas: dict[str, MilliGpu]
    #: Rows of queues that the quota file does not name, by queue.
    without_quota: dict[str, int]


def read_trace_setup(trace: Path, quota: Path, *, strict: bool = True) -> TraceSetup:
    """Return the jobs of a trace and the quotas of its quota file.

    Raise `InvalidTrace` if they cannot be used together. Jobs of queues without a quota are counted and left out.
    `strict`: also refuse a quota of a queue that has no job.
    """
    quotas = read_quotas(quota)
    jobs = read_trace(trace)
    found = {job.queue for job in jobs}
    for line, name in quotas.lines.items():
        if strict and name not in found:
            raise InvalidTrace(
                f"{quota}, line {line}: {trace.name} has no job of the queue {quoted(name)}; its queues are "
                f"{_names(found)}; mend the name or take the line out."
            )
    without: dict[str, int] = {}
    for job in jobs:
        if job.queue not in quotas.milli:
            without[job.queue] = without.get(job.queue, 0) + 1
    kept = tuple(job for job in jobs if job.queue in quotas.milli)
    if not kept:
        raise InvalidTrace(
            f"{quota} names none of the queues of {trace.name}: expected one of {_names(found)} in the column queue."
        )
    return TraceSetup(jobs=kept, quotas=quotas.milli, without_quota=without)


@dataclass(frozen=True, kw_only=True, slots=True)
class Quotas:
    """The content of a quota file."""

    milli: dict[str, MilliGpu]
    #: The queue that stands in each line.
    lines: dict[int, str]


def read_quotas(path: Path) -> Quotas:
    """Return the guaranteed milli-GPU of each queue.

    Raise `InvalidTrace` for a file that cannot be read or is wrong.
    """
    milli: dict[str, MilliGpu] = {}
    lines: dict[int, str] = {}
    for row in _rows(path, QUOTA_COLUMNS):
        name = row.text("queue")
        if name in milli:
            raise row.wrong("queue", "it has a quota already; expected one line a queue")
        milli[name] = row.amount("guaranteed_gpus", parse_quota)
        lines[row.line] = name
    if not any(milli.values()):
        raise InvalidTrace(f"{path}: no queue has a guaranteed GPU; expected a sum above 0 in guaranteed_gpus.")
    return Quotas(milli=milli, lines=lines)


def read_trace(path: Path) -> list[TraceJob]:
    """Return the jobs in the order of the file; raise `InvalidTrace` for a file that cannot be read or is wrong."""
    jobs: list[TraceJob] = []
    seen: dict[str, int] = {}
    for row in _rows(path, TRACE_COLUMNS):
        job = _job(row)
        if job.id in seen:
            raise row.wrong("job_id", f"line {seen[job.id]} has it already; expected each job once")
        seen[job.id] = row.line
        jobs.append(job)
    return jobs


def _job(row: "_Row") -> TraceJob:
    """Return the job of a row; raise `InvalidTrace` if a value is wrong."""
    request = Request.of(row.amount("gpus", parse_request))
    if row.cells.get("cpus"):
        request = replace(request, cpu_milli=row.amount("cpus", parse_cpus))
    if row.cells.get("memory"):
        request = replace(request, memory=row.amount("memory", parse_memory))
    tasks = row.number("num_tasks", "a whole number of tasks, 1 or more")
    if tasks < 1 or tasks != int(tasks):
        raise row.wrong("num_tasks", "expected a whole number of tasks, 1 or more")
    return TraceJob(
        id=row.text("job_id"),
        queue=row.text("queue"),
        owner=row.cells["user"],
        submitted=Instant(float(row.number("submit_s", "seconds from the start of the trace, 0 or more"))),
        duration=Seconds(float(row.number("duration_s", "seconds, 0 or more"))),
        request=request,
        tasks=int(tasks),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    """A row of a file, with its place for error messages."""

    path: Path
    line: int
    cells: dict[str, str]

    def wrong(self, column: str, problem: str) -> InvalidTrace:
        """Return, without raising it, the error that the value in that column of this row is wrong."""
        return InvalidTrace(f"{self.path}, line {self.line}: {column} is {quoted(self.cells[column])}: {problem}.")

    def text(self, column: str) -> str:
        """Return the text of a column; raise `InvalidTrace` if it is empty."""
        if not self.cells[column]:
            raise self.wrong(column, "it is empty; expected a name")
        return self.cells[column]

    def amount(self, column: str, parse: Callable[[str], _Amount]) -> _Amount:
        """Return the result of `parse` for a column; raise `InvalidTrace` if the text is no such amount."""
        try:
            return parse(self.cells[column])
        except InvalidAmount as error:
            raise self.wrong(column, f"{error.problem}; {error.fix}") from None

    def number(self, column: str, expected: str) -> Decimal:
        """Return the number in a column; raise `InvalidTrace` if it is not a finite number, 0 or more.

        `expected` is the words of the message for what stands there in a correct file.
        """
        try:
            number = Decimal(self.cells[column])
        except InvalidOperation:
            raise self.wrong(column, f"it is not a number; expected {expected}") from None
        if not number.is_finite():
            raise self.wrong(column, f"it is not a finite number; expected {expected}")
        if number < 0:
            raise self.wrong(column, f"it is negative; expected {expected}")
        return number


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[_Row]:
    """Yield the rows below the header.

    Raise `InvalidTrace` for a missing column, a malformed row or a file without rows.
    """
    expected = ",".join(columns)
    reader = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        if not any(header):
            raise InvalidTrace(f"{path}, line 1: the file is empty; expected the columns {expected}.")
        missing = [name for name in columns if name not in header]
        if missing:
            raise InvalidTrace(
                f"{path}, line 1: the column {missing[0]} is missing; expected the columns {expected}, "
                f"found {shorten(','.join(header))}."
            )
        empty = True
        for values in reader:
            if not values:
                continue
            empty = False
            if len(values) != len(header):
                raise InvalidTrace(
                    f"{path}, line {reader.line_num}: it has {len(values)} values; expected {len(header)}, "
                    "one for each column of line 1."
                )
            cells = {name: value.strip() for name, value in zip(header, values, strict=True)}
            yield _Row(path=path, line=reader.line_num, cells=cells)
    except csv.Error as error:
        raise InvalidTrace(f"{path}, line {reader.line_num}: {error}; expected comma-separated values.") from None
    if empty:
        raise InvalidTrace(f"{path}, line 2: no rows follow the columns; expected at least one.")


def _text(path: Path) -> str:
    """Return the text of a file, unpacked if it is gzip; raise `InvalidTrace` if it cannot be read or is not UTF-8."""
    try:
        data = read_finite(path)
        if data[:2] == b"\x1f\x8b" or path.suffix == ".gz":
            data = gzip.decompress(data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidTrace(f"{path}: the gzip data is broken ({error}); expected a whole .csv.gz or a .csv.") from None
    except OSError as error:
        raise InvalidTrace(f"{path} cannot be read: {error.strerror}; expected a .csv or .csv.gz file.") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidTrace(f"{path}, line {line}: it is not text in UTF-8; expected comma-separated values.") from None


def _names(queues: set[str]) -> str:
    """Return the names of the first queues in alphabetical order, and the number of the others, as a phrase."""
    names = sorted(queues)
    more = len(names) - _NAMED
    return ", ".join(map(shorten, names[:_NAMED])) + (f" and {more} more" if more > 0 else "")
