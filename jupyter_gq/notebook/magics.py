"""The IPython extension of kernels: its magics, and a hint after a NameError for a variable that a job has.

Our start-up file loads it in each kernel; elsewhere `%load_ext jupyter_gq` does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Protocol

from .command_input import close_input_of_commands
from .last_words import keep_last_words
from .program_output import KernelStreams, is_job_kernel
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


def load_ipython_extension(shell: Shell) -> None:
    """Add the magics and the hint to a shell; IPython calls this once."""
    if is_job_kernel():
        keep_last_words()
        close_input_of_commands()
        streams = KernelStreams(shell)
        shell.events.register("pre_run_cell", streams.begin_cell)
        shell.events.register("post_run_cell", streams.wait_for_output)

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
    """Print which job has brought back the missing name of a NameError, or why a job of the user could not.

    Does nothing for other errors, or if the server knows of no such job or does not answer in time.
    """
    error, socket = executed.error_in_exec, server_socket()
    name = getattr(error, "name", None)
    if socket is None or not isinstance(error, NameError) or not isinstance(name, str):
        return
    status, body = ask_server(socket, ["names", name], {}, HINT_TIMEOUT)
    if status == 200:
        sys.stderr.write(describe_hint(name, json.loads(body)))


def describe_hint(name: str, found: Mapping[str, object]) -> str:
    """Return the hint after a NameError: which job has brought the name back, or could not, and which newer one may.

    `found` is the answer to `GET /names/<name>` of `lab/handlers/kernel_socket.py`, parsed.
    """
    lines = []
    if found["job"] and found.get("reason"):
        lines.append(f"The job {found['title']!r} could not bring {name} back. {found['reason']}\n")
    elif found["job"]:
        way = f"Load it with: %gq_load {found['job']} {name}"
        lines.append(f"The job {found['title']!r} has brought {name} back. {way}\n")
    newer = found.get("newer")  # an earlier release of the server does not send it
    if isinstance(newer, dict):
        lines.append(f"The {'newer ' if lines else ''}job {newer['title']!r} brings {name} back when it is done; ")
        lines.append(f"it is {newer['phase']} now.\n")
    return "".join(lines)
