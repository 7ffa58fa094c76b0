"""The IPython extension of kernels: its magics, and a hint after a NameError for a variable that a job has.

Our start-up file loads it in each kernel; elsewhere `%load_ext jupyter_gq` does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Protocol

from .results import ResultError, find_id, load_possible
from .server_socket import ask_server, server_socket
from .table import Table
from .train_magic import Shell as TrainShell
from .train_magic import describe_train, list_jobs, train

#: Seconds that the hint after a NameError may take.
HINT_TIMEOUT = 2.0
USAGE = "Usage: %gq_load JOB [NAME ...], such as %gq_load job-4f1c model, or %gq_load last model for your newest job"


class Events(Protocol):
    """IPython's events."""

    def register(self, event: str, function: Callable[[ExecutedCell], None]) -> None:
        """Call the function at each event of this kind."""


class ExecutedCell(Protocol):
    """The result of a cell, as IPython describes it."""

    error_in_exec: BaseException | None


class Shell(TrainShell, Protocol):
    """The part of IPython's shell that is used here."""

    events: Events

    def register_magic_function(self, func: Callable[..., object], magic_kind: str, magic_name: str) -> None:
        """Make a function a magic of this name."""


def stop_copies_in_log() -> None:
    """Let the log of a job have the output of programs once; do nothing in other kernels.

    What a program of a cell writes, ipykernel shows under the cell, and copies to the kernel's own standard output as
    well. In a job that is the log, into which the runner writes what is shown.
    """
    if "GQ_RUN_DIR" not in os.environ:
        return
    for stream in (sys.stdout, sys.stderr):
        if isinstance(getattr(stream, "_original_stdstream_copy", None), int):
            # The former file stays open: ipykernel logs to it.
            vars(stream)["_original_stdstream_copy"] = os.open(os.devnull, os.O_WRONLY)


def load_ipython_extension(shell: Shell) -> None:
    """Add the magics and the hint to a shell; IPython calls this once."""
    stop_copies_in_log()

    def gq_load(line: str) -> None:
        """Load variables that a job brought back: %gq_load JOB [NAME ...]; without names, all of them.

        JOB is the id of a job, or "last" for the one that you sent last.
        """
        from IPython.core.error import UsageError

        words = line.split()
        if not words:
            raise UsageError(USAGE)
        try:
            job = find_id(words[0])
            values, reasons = load_possible(job, words[1:] or None)
        except ResultError as error:
            raise UsageError(str(error)) from None
        shell.push(values)
        listed = ", ".join(f"{name} ({type(value).__name__})" for name, value in values.items())
        if listed:
            print(f"Loaded {listed}" + ("" if job == words[0] else f" from {job}"))  # noqa: T201
        if reasons:
            raise UsageError("\n".join(reasons))

    def train_cell(line: str, cell: str) -> None:
        """Send this cell to a training queue: %%train [--gpus 0.5] [--queue NAME] ...; %train --help lists options."""
        train(shell, line, cell)

    def train_line(line: str) -> None:
        """List the options of %%train: %train --help."""
        describe_train(line)

    def gq_jobs(line: str) -> Table | None:
        """List your jobs: %gq_jobs [--all] [--group SWEEP]."""
        return list_jobs(line)

    shell.register_magic_function(train_cell, "cell", "train")
    shell.register_magic_function(train_line, "line", "train")
    shell.register_magic_function(gq_jobs, "line", "gq_jobs")
    shell.register_magic_function(gq_load, "line", "gq_load")
    shell.events.register("post_run_cell", hint_at_job)


def hint_at_job(executed: ExecutedCell) -> None:
    """Print where the missing name of a NameError is to be had, or why a job of the user could not bring it back."""
    error, socket = executed.error_in_exec, server_socket()
    name = getattr(error, "name", None)
    if socket is None or not isinstance(error, NameError) or not isinstance(name, str):
        return
    status, body = ask_server(socket, ["names", name], {}, HINT_TIMEOUT)
    if status == 200:
        found = json.loads(body)
        way = f"has brought {name} back. Load it with: %gq_load {found['job']} {name}"
        if found.get("reason"):
            way = f"could not bring {name} back. {found['reason']}"
        sys.stderr.write(f"The job {found['title']!r} {way}\n")
