"""A trial of a configuration file in a process of its own, which is killed at its limits.

Rules
-----
First there: whatever the file computes, a time-out in this process may be of no use. `9**9**9` is one step of Python
that no signal and no other thread interrupts, and all other threads stand still meanwhile. A list that fills the memory
ends the whole process. So a file is executed in a process of its own before it is executed in this one.
Limits: the file has `SECONDS` from the beginning of its execution, and `MEMORY_MIB`, or half of the machine's memory,
with the programs that it started. What it has only reserved does not count, as libraries do for each processor. The
same limits hold for the check of values. The programs are killed with the process.
Only limits: any other error is found again, and told, where the file is executed next.
Not the machine: if the process cannot be started, or does not begin within `_STARTED_WITHIN`, there is no trial, and
the file is executed without one. A slow machine is not the fault of the file.

See docs/decisions/0500-try-the-file-in-a-process-that-can-be-killed.md.
"""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.json_types import JsonObject

from .config_file import ConfigFileError, ExecutedFiles, identify

log = logging.getLogger(__name__)

#: Tries the file at a path, and adds the files that it executed to the given ones if it refuses it.
Trial = Callable[[Path, ExecutedFiles], None]

#: Seconds that the execution of a file and the check of its values may take.
SECONDS = 20.0
#: The most memory of a trial, in MiB.
MEMORY_MIB = 1024
#: The part of the machine's memory that a trial may use, if that is less.
_MOST_OF_MACHINE = 0.5
#: Seconds in which the process has to begin, and those that it may take to write its stack.
_STARTED_WITHIN, _ENDED_WITHIN = 8.0, 1.0
#: Seconds between two looks at the process, and two at what is below it, for which all processes are listed.
_INTERVAL, _PROGRAMS_INTERVAL = 0.02, 0.2
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


def make_trial(names: Mapping[str, Collection[str]], machine_memory: MiB) -> Trial:
    """Return a trial of files.

    `names` are the traits of our sections that are read at a start, by section; `machine_memory` is what this process
    and its children may use.
    """
    listed = {section: sorted(traits) for section, traits in names.items()}
    memory = max(1, min(MEMORY_MIB, int(machine_memory * _MOST_OF_MACHINE)))

    def try_file(path: Path, executed: ExecutedFiles) -> None:
        """Execute a file in another process; raise `ConfigFileError` if that exceeds a limit or ends the process."""
        try:
            found = _execute(path, listed, memory)
        except OSError as error:
            log.warning("%s: the file is executed without a trial: %s", path, error.strerror or error)
            return
        began = [path, *(Path(each) for each in found["began"])]
        told = _describe_end(path, found, began)
        if told:
            executed.update({each: identify(each) for each in began})
            raise ConfigFileError(f"{told} Undo the last change of the file.")

    return try_file


def _execute(path: Path, names: Mapping[str, Collection[str]], memory: int) -> JsonObject:
    """Execute a file in another process; return what that process has told, and how it ended.

    "code" is its exit status, negative for a signal; None: it was killed at its deadline, or it did not begin. "greedy"
    is the limit of `memory` in MiB if it was exceeded, or else 0. Raises `OSError` if no process can be started.
    """
    # Not a file: a full disk is no reason to refuse what the administrator changes because of it.
    with os.fdopen(os.memfd_create("report"), "w+b") as report:
        task = {
            "file": str(path),
            "names": names,
            "path": [each for each in sys.path if isinstance(each, str)],  # Python accepts others too
            "report": report.fileno(),
            "seconds": SECONDS,
        }
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-P", "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[report.fileno()],
            start_new_session=True,
        )
        seen: dict[int, psutil.Process] = {}
        try:
            _send(process, task)
            is_greedy = _wait(process, report, memory * _MEBIBYTE, seen)
            code = process.poll()
        finally:
            _kill(process, seen.values())
        return {**_read(report), "code": code, "greedy": memory if is_greedy else 0}


def _send(process: "subprocess.Popen[bytes]", task: Mapping[str, object]) -> None:
    """Write the task to standard input of a process, which may have ended."""
    if process.stdin is not None:
        with suppress(OSError), process.stdin as stdin:
            stdin.write(json.dumps(task).encode())


def _wait(process: "subprocess.Popen[bytes]", report: IO[bytes], memory: int, seen: dict[int, psutil.Process]) -> bool:
    """Wait until the process has ended, has not begun in time, has not ended at its deadline, or has too much memory.

    Returns whether it has more than `memory` bytes; then it has been told to write its stack. Adds to `seen` the
    process and the programs below it, by their ids: a program whose parent has ended is not found any more.
    """
    elapsed = SystemClock().elapsed
    deadline, has_begun, looked_at = elapsed() + _STARTED_WITHIN, False, 0.0
    while process.poll() is None and elapsed() < deadline:
        if not has_begun and _size_of(report):
            deadline, has_begun = elapsed() + SECONDS + _ENDED_WITHIN, True
        if elapsed() - looked_at >= _PROGRAMS_INTERVAL:
            seen |= {each.pid: each for each in _list_processes(process.pid)}
            looked_at = elapsed()
        if has_begun and _measure_memory(seen.values()) > memory:
            _ask_for_stack(process, report)
            return True
        time.sleep(_INTERVAL)
    return False


def _ask_for_stack(process: "subprocess.Popen[bytes]", report: IO[bytes]) -> None:
    """Let the process write its stack, and wait for the end of that, at most for `_ENDED_WITHIN`."""
    elapsed, before, last = SystemClock().elapsed, _size_of(report), -1
    deadline = elapsed() + _ENDED_WITHIN
    process.send_signal(STACK_SIGNAL)
    while process.poll() is None and elapsed() < deadline and not before < _size_of(report) == last:
        last = _size_of(report)
        time.sleep(_INTERVAL)


def _size_of(report: IO[bytes]) -> int:
    return os.fstat(report.fileno()).st_size


def _list_processes(pid: int) -> list[psutil.Process]:
    """Return a process and the programs below it; [] if it has ended."""
    with suppress(OSError, psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def _measure_memory(processes: Collection[psutil.Process]) -> int:
    """Return how many bytes of memory these processes have written to, with the files that they read."""
    sizes = []
    for process in processes:
        with suppress(OSError, psutil.Error):
            sizes.append(process.memory_info().rss)
    return sum(sizes)


def _kill(process: "subprocess.Popen[bytes]", seen: Collection[psutil.Process]) -> None:
    """Kill a process, its process group and the programs that were `seen` below it, also in sessions of their own."""
    for each in seen:
        with suppress(OSError, psutil.Error):
            each.kill()
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


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
    if not found["begins"]:
        log.warning("%s: the file is executed without a trial: no process began in time", path)
        return ""
    where = _find_line(found["stack"], began) or str(list(began)[-1])
    if found["greedy"]:
        most = f"{found['greedy']} MiB while it is executed and checked"
        return f"{where}: the file uses too much memory. It may use {most}."
    if "done" in found:
        return ""
    if _DEADLINE in found["stack"] or found["code"] is None:
        return (
            f"{where}: the file has not been executed and checked within {SECONDS:g} s. Something there waits or "
            "computes for too long: a look-up without a deadline, a file system that does not answer, or a number with "
            "millions of digits."
        )
    end = f"exit status {found['code']}" if found["code"] >= 0 else signal.Signals(-found["code"]).name
    return f"{where}: the file ends the process that executes it ({end})."


def _find_line(stack: str, files: Collection[Path]) -> str:
    """Return the innermost line of these files in a stack that Python wrote; "" if there is none."""
    names = {str(each) for each in files}
    return next((f"{name}, line {line}" for name, line in _STACK_LINE.findall(stack) if name in names), "")
