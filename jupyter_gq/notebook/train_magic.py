"""The magics `%%train`, which sends its cell to training, and `%gq_jobs`, which lists the user's jobs."""

from __future__ import annotations

import argparse
import contextlib
import threading
import uuid
import warnings
from collections.abc import Mapping
from typing import NoReturn, Protocol, cast

from jupyter_gq.domain.phases import ENDED, omit_state
from jupyter_gq.domain.plain_text import split_options

from .handle import Job, JobFailed, find_job_id, wait_until
from .job_options import add_also_option, add_job_options, add_returns_option, read_job_options
from .jobs import in_job
from .results import ResultError, load_possible
from .server import JobError, find_folder, find_kernel_id, find_server
from .submit import print_notes, read_sent_job
from .table import Table

#: Seconds between two looks at a job whose line is kept up to date.
INTERVAL = 2.0
_LISTED = ("id", "phase", "name", "queue", "gpus")
#: The phases of jobs that have not ended, in the order of the list.
_PHASES = ("running", "starting", "pausing", "cancelling", "paused", "waiting")
#: Method of an error that returns the lines which IPython shows of it. The error of a cell that waited for its own job
#: has one: all frames are of this package, and say nothing about the job.
_RENDER = "_render_traceback_"
#: Most files of a job that are named when it has ended.
_MOST_FILES = 5
_NO_JOBS = "No job of yours waits or runs. `%gq_jobs --all` also lists jobs that have ended."


class Shell(Protocol):
    """The part of IPython's shell that is used here."""

    def get_parent(self) -> Mapping[str, Mapping[str, object]]:
        """Return the message that asked for the present execution."""

    def push(self, variables: Mapping[str, object]) -> None:
        """Assign variables in the user's namespace."""

    def run_cell(self, raw_cell: str) -> Result:
        """Run a cell in this kernel."""


class Result(Protocol):
    """The result of a cell that ran."""

    def raise_error(self) -> None:
        """Raise the error of the cell if there is one."""


class Line(Protocol):
    """An output that can be changed: IPython's handle of a display."""

    def update(self, value: Mapping[str, object], *, raw: bool) -> None:
        """Show another value in its place."""


class UsageParser(argparse.ArgumentParser):
    """A parser that raises IPython's `UsageError` and ends no process.

    Options are written out: the server reads `--wait` and `--returns` of cells that have run, too.
    """

    def __init__(self, *, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, add_help=False, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` with the message and the usage."""
        from IPython.core.error import UsageError

        raise UsageError(
            f"{message}\n{self.format_usage().strip()}\n{self.prog.replace('%%', '%')} --help describes each option."
        )

    def parse(self, line: str) -> argparse.Namespace | None:
        """Return the options in a line; print the help and return None if the line asks for it."""
        try:
            words = split_options(line)
        except ValueError as error:
            self.error(f"The line cannot be read: {error}.")
        if "--help" in words or "-h" in words:
            print(self.format_help())  # noqa: T201
            return None
        return self.parse_args(words)


def train(shell: Shell, line: str, cell: str) -> None:
    """Send the cell to training as `line` says, and show its job under the cell; raise `UsageError` with the reason.

    In a job, run the cell there: a notebook with such cells can be sent as a whole.
    """
    options = _make_train_parser().parse(line)
    if options is None:
        return
    if in_job():
        shell.run_cell(cell).raise_error()
        return
    from IPython.core.error import UsageError

    try:
        job = _send(shell, options, cell)
        shown = _show(job)
        if not options.wait:
            threading.Thread(target=_follow_beside, args=(job, shown), name=f"jupyter-gq {job.id}", daemon=True).start()
            return
        _wait(shell, job, shown, options.returns)
    except JobFailed:
        raise
    except (JobError, ResultError) as error:
        raise UsageError(str(error)) from None


def describe_train(line: str) -> None:
    """Print the options of `%%train`; raise IPython's `UsageError` for a line that asks for anything but that."""
    if _make_train_parser().parse(line) is not None:
        from IPython.core.error import UsageError

        raise UsageError("%train has no cell to send. Write %%train above the code; %train --help lists the options.")


def list_jobs(line: str) -> Table | None:
    """Return the jobs of the user that have not ended; None if the line asks for help, which is printed.

    Running jobs come first. In the line, `--all` adds jobs that have ended, and `--group GROUP` leaves out the jobs
    of other groups. In a job, which replays such a cell, the table is empty and says so. Raises IPython's `UsageError`
    for another line, or if the jobs cannot be read.
    """
    parser = UsageParser(
        prog="%gq_jobs", description="List your jobs: first those that run, then those that wait; newest first."
    )
    parser.add_argument("--all", action="store_true", help="list jobs that have ended too")
    parser.add_argument("--group", help="only jobs of this group, such as a sweep")
    options = parser.parse(line)
    if options is None:
        return None
    if in_job():
        return Table([], [], "Within a job, no jobs are listed.")
    from IPython.core.error import UsageError

    try:
        query = {} if options.group is None else {"group": options.group}
        jobs = cast("list[Mapping[str, object]]", find_server().get("jobs", **query).get("jobs") or [])
    except JobError as error:
        raise UsageError(str(error)) from None
    jobs.sort(key=_rank)  # the sort is stable: newest first within a rank
    rows = [_make_row(job) for job in jobs if options.all or job.get("phase") not in ENDED]
    return Table(
        ["Job", "State", "Name", "Queue", "GPUs", "Reason"], rows, "You have no jobs." if options.all else _NO_JOBS
    )


def _make_row(job: Mapping[str, object]) -> list[object]:
    """Return the fields of a job for the list; its sentence does not repeat its state."""
    return [*map(job.get, _LISTED), omit_state(str(job.get("sentence") or ""), str(job.get("phase")))]


def _rank(job: Mapping[str, object]) -> int:
    """Return the place of a job in the list by its phase, as in the panel: what runs is first, what has ended last."""
    phase = job.get("phase")
    return _PHASES.index(phase) if phase in _PHASES else len(_PHASES)


def _make_train_parser() -> UsageParser:
    parser = UsageParser(
        prog="%%train",
        description="Send this cell to a training queue. The cells that ran before it in this kernel run first.",
    )
    add_job_options(parser, named_after="notebook")
    add_returns_option(parser)
    add_also_option(parser)
    parser.add_argument(
        "--secret", action="append", default=[], metavar="NAME", help="stored secret that it has; may be repeated"
    )
    parser.add_argument(
        "--software",
        default="",
        metavar="NAME",
        help="an offered image, or another kernel (default: the notebook's own)",
    )
    parser.add_argument("--no-replay", action="store_true", help="run only this cell in the job")
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait for the end, then load what it returns; an interrupt ends the wait only",
    )
    return parser


def _send(shell: Shell, options: argparse.Namespace, cell: str) -> Job:
    """Send the cell, print the notes of the server, and return the job."""
    server, asked = find_server(), shell.get_parent()
    body = {
        "key": uuid.uuid4().hex,
        "kernel_id": find_kernel_id(),
        "cwd": find_folder(),
        "source": cell.rstrip("\n"),  # IPython adds one
        "code": asked["content"]["code"],
        "cell_id": asked.get("metadata", {}).get("cellId") or "",
        "replay": not options.no_replay,
        "returns": options.returns,
        "software": options.software,
        "secrets": options.secret,
        "file_patterns": options.also,
    }
    body |= read_job_options(options)
    body["continue_from"] = find_job_id(body["continue_from"])
    answer = server.post("jobs", body=body)
    print_notes(cast("list[str]", answer["notes"]))
    return read_sent_job(server, answer, body)


def _show(job: Job) -> Line:
    """Show the job under the cell; return the handle of that output."""
    from IPython.display import display

    line: Line = display(job._repr_mimebundle_(), raw=True, display_id=True)  # type: ignore[no-untyped-call]
    return line


def _follow(job: Job, line: Line) -> None:
    """Keep the line of a job up to date until the job has ended; raise `JobError` if the service refuses to tell."""
    shown = ""

    def look() -> str:
        nonlocal shown
        status, bundle = job.status, job.show_last()
        if bundle["text/plain"] != shown:
            shown = str(bundle["text/plain"])
            line.update(bundle, raw=True)
        return status if status in ENDED else ""

    wait_until(look, timeout=None, every=INTERVAL)


def _follow_beside(job: Job, line: Line) -> None:
    """Follow a job while other cells run; a refusal, as of a job that was deleted, stands in its line."""
    try:
        _follow(job, line)
    except JobError as error:
        line.update({"text/plain": f"{job.id}: {error}"}, raw=True)


def _wait(shell: Shell, job: Job, line: Line, returns: list[str]) -> None:
    """Wait for the job, print its outputs, and assign what it returns; raise `JobFailed` if it did not succeed."""
    try:
        _follow(job, line)
    except KeyboardInterrupt:
        print(f'The wait has ended, and the job goes on. jupyter_gq.job("{job.id}").cancel() ends it.')  # noqa: T201
        return
    logs = job.logs()
    try:
        if job.last_status != "done":
            job.result()  # raises
    except JobFailed as failed:
        print(logs.removesuffix(failed.traceback).rstrip())  # noqa: T201 - the error has the rest
        lines = [f"{JobFailed.__name__}: {failed}"]
        setattr(failed, _RENDER, lambda: lines)
        raise
    print(logs)  # noqa: T201
    _tell_files(job)
    if returns:
        values, reasons = load_possible(job.id, returns)
        shell.push(values)
        if reasons:
            raise JobError("\n".join(reasons))


def _tell_files(job: Job) -> None:
    """Print some of the files that the job wrote into its own folder, where nobody would look; nothing without any."""
    with contextlib.suppress(JobError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about files that are not listed
        paths = [str(file["path"]) for file in job.files() if not file.get("reason")]
        if paths:
            shown = ", ".join(paths[:_MOST_FILES])
            more = f" and {len(paths) - _MOST_FILES} more" if len(paths) > _MOST_FILES else ""
            print(f'Files of the job: {shown}{more}. jupyter_gq.job("{job.id}").download() copies them here.')  # noqa: T201
