"""The copy of the checkpoint folder at a URL: fetched before the cells run, renewed while they run and at the end.

`checkpoint_store` does the copying in a process of its own; this module decides when that process is started.
"""

import logging
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from jupyter_gq.runner.clock import monotonic
from jupyter_gq.runner.files.continuing import describe_missing
from jupyter_gq.runner.problems import RunError

from .checkpoint_store import NOTHING_KEPT, URL_VARIABLE, WRONG_ADDRESS
from .service import RetriesExhausted
from .settings import PodSettings

log = logging.getLogger(__name__)

#: Number of attempts to fetch the copy.
_TRIES = 3
#: Seconds that the last copy may take if the pod is not being stopped.
LAST_COPY_TIMEOUT = 1800.0

#: Path, size and time of each file.
Fingerprint = frozenset[tuple[str, int, int]]


class Checkpoints:
    """The copy of one task's checkpoint folder."""

    def __init__(self, settings: PodSettings, folder: Path) -> None:
        self._settings, self._folder = settings, folder
        #: Id of another job, at the same URL, from whose checkpoints this one continues; "" = none.
        self._earlier = settings.continue_from if settings.continue_dir is None else ""
        self._copied: Fingerprint = frozenset()
        #: State of the folder that `_child` copies now.
        self._copying: Fingerprint = frozenset()
        self._child: subprocess.Popen[bytes] | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - the file is open as long as this object lives
        self._due = monotonic() + settings.checkpoint_every
        self._failing = False

    @property
    def processes(self) -> Iterable["subprocess.Popen[bytes]"]:
        """The process that copies now, if there is one."""
        return () if self._child is None else (self._child,)

    def fetch(self) -> None:
        """Download the checkpoints of earlier runs into the folder, in up to three attempts.

        If this job has none and continues from another one whose checkpoints are at the URL, those are copied first.
        Raises `RunError` if that can never work, and `RetriesExhausted` if it failed this time. The run must not start
        without them: it would begin from scratch, and its states would count as newer.
        """
        for tries_left in reversed(range(_TRIES)):
            self._start("down")
            try:
                code = self._wait(LAST_COPY_TIMEOUT)
            finally:
                self._kill_child()  # also if a stop of the pod raises here
            if code == 0:
                self._copied = self._fingerprint()
                if self._earlier and (told := self._last_message()):
                    log.info(told)
                return
            if code == WRONG_ADDRESS:
                raise RunError(self._last_message())
            if code == NOTHING_KEPT:
                raise RunError(describe_missing(self._earlier))
            log.warning("The checkpoints could not be fetched: %s", self._last_message())
            if not tries_left:
                whose = f"earlier runs, or those of {self._earlier}," if self._earlier else "earlier runs"
                raise RetriesExhausted(f"The checkpoints of {whose} could not be fetched: {self._last_message()}")

    def poll(self) -> None:
        """Record the end of a running copy, or start a copy if the interval is over and a file has changed.

        Does not wait.
        """
        if self._child is not None:
            code = self._child.poll()
            if code is not None:
                self._record_exit(code)
        elif monotonic() >= self._due:
            self._due = monotonic() + self._settings.checkpoint_every
            if self._fingerprint() != self._copied:
                self._start("up")

    def finish(self, seconds: Callable[[], float]) -> str:
        """Copy the changed files and wait for that; return "" if the copy is complete, else a sentence on the failure.

        `seconds` returns how many seconds are left now.
        """
        if self._child is not None:
            self._record_exit(self._wait(seconds()))
        while self._fingerprint() != self._copied:
            if seconds() <= 0:
                return "No time was left to copy the last checkpoint of the job; the copy before it is complete."
            self._start("up")
            code = self._wait(seconds())
            self._record_exit(code)
            if code != 0:
                return f"The last checkpoint could not be copied: {self._last_message() or 'no time was left'}"
        return ""

    def _start(self, direction: str) -> None:
        """Start the program that copies, `direction` "up" or "down", and pass the URL to its standard input."""
        settings = self._settings
        self._copying = self._fingerprint()
        self._stderr.seek(0)
        self._stderr.truncate()
        arguments = [direction, str(self._folder), settings.job, str(settings.run), str(settings.task)]
        if direction == "down" and self._earlier:
            arguments.append(self._earlier)
        # A socket instead of a pipe: other processes could open a pipe by way of /proc before the memory is protected.
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._child = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-m", "jupyter_gq.runner.pod.checkpoint_store", *arguments],
                env={name: value for name, value in os.environ.items() if name != URL_VARIABLE},
                stdin=theirs.fileno(),
                stderr=self._stderr,
            )
            ours.sendall(f"{settings.checkpoint_url}\n".encode())

    def _wait(self, seconds: float) -> int:
        """Wait for the copying program and return its exit code; kill it after `seconds`."""
        assert self._child is not None
        try:
            return self._child.wait(max(0.05, seconds))
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()

    def _kill_child(self) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        self._child = None

    def _record_exit(self, code: int) -> None:
        """Record how the copying ended; log the first of several failures in a row, and the first success after that.

        Other successes are logged for debugging only.
        """
        self._child = None
        if code == 0:
            self._copied = self._copying
            if self._failing:
                log.info("The checkpoint was copied after earlier failures.")
            else:
                log.debug("The checkpoint was copied.")
        elif not self._failing:
            reason = self._last_message() or f"signal {-code}"
            log.warning("The checkpoint could not be copied; trying again later: %s", reason)
        self._failing = code != 0

    def _last_message(self) -> str:
        """Return the last line that the copying program wrote to standard error; "" if there is none."""
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _fingerprint(self) -> Fingerprint:
        """Return path, size and time of each file that is in the checkpoint folder now."""
        found = set()
        for path in self._folder.rglob("*"):
            try:
                about = path.stat()
            except OSError:
                continue
            if path.is_file():
                found.add((path.relative_to(self._folder).as_posix(), about.st_size, about.st_mtime_ns))
        return frozenset(found)
