"""A trial of a configuration file in a process of its own, which is killed at its limits.

Rules
-----
First there: whatever the file computes, a time-out in this process may be of no use. `9**9**9` is one step of Python
that no signal and no other thread interrupts, and all other threads stand still meanwhile. A list that fills the memory
ends the whole process. So a file is executed in a process of its own before it is executed in this one.
Limits: the file has `SECONDS` from the beginning of its execution, and `find_memory_limit` of memory. What it has only
reserved does not count, as libraries do for each processor. The same limits hold for the check of values. Programs
that the file started are killed with the process.
Only limits: any other error is found again, and told, where the file is executed next.
Not the machine: if the process does not begin within `_STARTED_WITHIN`, there is no trial, and the file is executed
without one. A slow machine is not the fault of the file.

See docs/decisions/0500-try-the-file-in-a-process-that-can-be-killed.md.
"""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.domain.json_types import JsonObject

from .config_file import ConfigFileError, ExecutedFiles, identify

log = logging.getLogger(__name__)

#: Tries the file at a path, and adds the files that it executed to the given ones if it refuses it.
Trial = Callable[[Path, ExecutedFiles], None]

#: Seconds that the execution of a file and the check of its values may take.
SECONDS = 20.0
#: The most memory of a trial, in MiB.
MEMORY_MIB = 1024
#: Seconds in which the process has to begin, and those that it may take to write its stack.
_STARTED_WITHIN, _ENDED_WITHIN = 8.0, 1.0
#: Seconds between two looks at the process.
_INTERVAL = 0.02
_MODULE = "jupyter_gq.controller.settings.trial_process"
#: The signal at which the process writes the stack of its main thread.
STACK_SIGNAL = signal.SIGUSR1
#: A line of the stack that Python writes at the deadline.
_STACK_LINE = re.compile(r'^  File "(.+)", line (\d+) in ', re.MULTILINE)
#: The beginning of that text; it also writes a stack when a library crashes.
_DEADLINE = "Timeout ("
_MEBIBYTE = 1024 * 1024


def no_trial(_path: Path, _executed: ExecutedFiles) -> None:
    """Accept every file without executing it."""


def make_trial(names: Mapping[str, Collection[str]]) -> Trial:
    """Return a trial of files; `names` are the traits of our sections that are read at a start, by section."""
    listed = {section: sorted(traits) for section, traits in names.items()}

    def try_file(path: Path, executed: ExecutedFiles) -> None:
        """Execute a file in another process; raise `ConfigFileError` if that exceeds a limit or ends the process."""
        found = _execute(path, listed)
        began = [path, *(Path(each) for each in found.get("began", []))]
        told = _describe_end(path, found, began)
        if told:
            executed.update({each: identify(each) for each in began})
            raise ConfigFileError(told)

    return try_file


def find_memory_limit() -> int:
    """Return the most memory of a trial in MiB: `MEMORY_MIB`, or half of what the container of this process may use."""
    with suppress(OSError, ValueError):
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())  # "max" where there is no limit
        return max(1, min(MEMORY_MIB, limit // _MEBIBYTE // 2))
    return MEMORY_MIB


def _execute(path: Path, names: Mapping[str, Collection[str]]) -> JsonObject:
    """Execute a file in another process; return what that process has told, and how it ended.

    "code" is its exit status, negative for a signal; None: it was killed at its deadline, or it did not begin.
    """
    with tempfile.TemporaryFile() as report:
        task = {
            "file": str(path),
            "names": names,
            "path": sys.path,
            "report": report.fileno(),
            "seconds": SECONDS,
        }
        try:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-m", _MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[report.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            log.warning("%s: the file is executed without a trial: %s", path, error.strerror or error)
            return {"code": None}
        try:
            _send(process, task)
            is_greedy = _wait(process, report)
            code = process.poll()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return {**_read(report), "code": code, "greedy": is_greedy}


def _send(process: "subprocess.Popen[bytes]", task: Mapping[str, object]) -> None:
    """Write the task to standard input of a process, which may have ended."""
    if process.stdin is not None:
        with suppress(OSError), process.stdin as stdin:
            stdin.write(json.dumps(task).encode())


def _wait(process: "subprocess.Popen[bytes]", report: IO[bytes]) -> bool:
    """Wait until the process has ended, has not begun in time, has not ended at its deadline, or has too much memory.

    Returns whether it has too much memory; then it has been told to write its stack.
    """
    elapsed = SystemClock().elapsed
    deadline, has_begun, is_greedy, stack_from = elapsed() + _STARTED_WITHIN, False, False, 0
    limit = find_memory_limit() * _MEBIBYTE
    while process.poll() is None and elapsed() < deadline:
        if not has_begun and os.fstat(report.fileno()).st_size:
            deadline, has_begun = elapsed() + SECONDS + _ENDED_WITHIN, True
        if has_begun and not is_greedy and _measure_memory(process.pid) > limit:
            is_greedy, deadline = True, elapsed() + _ENDED_WITHIN
            process.send_signal(STACK_SIGNAL)
            stack_from = os.fstat(report.fileno()).st_size
        if is_greedy and os.fstat(report.fileno()).st_size > stack_from:
            break
        time.sleep(_INTERVAL)
    return is_greedy


def _measure_memory(pid: int) -> int:
    """Return how many bytes of memory a process has written to, with the files that it reads; 0 if it has ended."""
    with suppress(OSError, psutil.NoSuchProcess):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


def _read(report: IO[bytes]) -> JsonObject:
    """Return what a process has told: "begins", "began" and "done" are its own lines, "stack" is all other text."""
    report.seek(0)
    found: JsonObject = {"began": [], "stack": "", "begins": False}
    for line in report.read().decode(errors="replace").splitlines(keepends=True):
        try:
            told = json.loads(line)
        except ValueError:
            found["stack"] += line
            continue
        if "began" in told:
            found["began"].append(told["began"])
        found |= {key: value for key, value in told.items() if key != "began"}
    return found


def _describe_end(path: Path, found: JsonObject, began: Collection[Path]) -> str:
    """Return the sentence about a trial that exceeded a limit or ended its process; "" for any other end."""
    if not found.get("begins"):
        if "stack" in found:
            log.warning("%s: the file is executed without a trial: no process began in time", path)
        return ""
    where = _find_line(found["stack"], began) or str(list(began)[-1])
    if found["greedy"]:
        return (
            f"{where}: the file uses too much memory. It may use {find_memory_limit()} MiB while it is executed and "
            "checked. Undo its last change."
        )
    if "done" in found:
        return ""
    if _DEADLINE in found["stack"] or found["code"] is None:
        return (
            f"{where}: the file has not been executed and checked within {SECONDS:g} s. Something there waits or "
            "computes for too long: a look-up without a deadline, a file system that does not answer, or a number with "
            "millions of digits. Mend the file."
        )
    end = f"exit status {found['code']}" if found["code"] >= 0 else signal.Signals(-found["code"]).name
    return f"{where}: the file ends the process that executes it ({end}). Undo its last change."


def _find_line(stack: str, files: Collection[Path]) -> str:
    """Return the innermost line of these files in a stack that Python wrote; "" if there is none."""
    names = {str(each) for each in files}
    return next((f"{name}, line {line}" for name, line in _STACK_LINE.findall(stack) if name in names), "")
