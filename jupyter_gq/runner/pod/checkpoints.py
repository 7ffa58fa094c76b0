"""Keeps a copy of the checkpoint folder at a URL: fetched before the cells run, renewed while they do, and at the end.

The copying is done by `checkpoint_store` in a process of its own; this is who starts it, and when.
"""

import logging
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from jupyter_gq.runner.clock import steady
from jupyter_gq.runner.problems import RunError

from .checkpoint_store import URL_VARIABLE, WRONG
from .service import NeverReached
from .settings import PodSettings

log = logging.getLogger(__name__)

#: How often the copy is fetched before it is given up.
_TRIES = 3
#: Seconds that the last copy may take when nobody is in a hurry.
LAST_COPY = 1800.0

#: Path, size and time of each file.
Fingerprint = frozenset[tuple[str, int, int]]


class Checkpoints:
    """The copy of one task's checkpoint folder."""

    def __init__(self, settings: PodSettings, folder: Path) -> None:
        self._settings, self._folder = settings, folder
        self._copied: Fingerprint = frozenset()
        #: What is being copied now, and by whom.
        self._copying: Fingerprint = frozenset()
        self._helper: subprocess.Popen[bytes] | None = None
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as we do
        self._due = steady() + settings.checkpoint_every
        self._failing = False

    @property
    def processes(self) -> Iterable["subprocess.Popen[bytes]"]:
        """Our child, if there is one."""
        return () if self._helper is None else (self._helper,)

    def fetch(self) -> None:
        """Bring down what earlier runs saved. `RunError`: it can never work; `NeverReached`: it did not this time.

        A run without it would begin anew, and its states would count as newer.
        """
        for left in reversed(range(_TRIES)):
            self._start("down")
            try:
                code = self._wait(LAST_COPY)
            finally:
                self._end()  # also when we are told to end
            if code == 0:
                self._copied = self._fingerprint()
                return
            if code == WRONG:
                raise RunError(self._said())
            log.warning("The checkpoints could not be fetched: %s", self._said())
            if not left:
                raise NeverReached(f"The checkpoints of earlier runs could not be fetched: {self._said()}")

    def look(self) -> None:
        """Take note of a copy that is done; begin one when it is time and something has changed."""
        if self._helper is not None:
            code = self._helper.poll()
            if code is not None:
                self._note(code)
        elif steady() >= self._due:
            self._due = steady() + self._settings.checkpoint_every
            if self._fingerprint() != self._copied:
                self._start("up")

    def finish(self, seconds: Callable[[], float]) -> str:
        """Copy what is new; "" when all of it is there after at most so many seconds, else a sentence."""
        if self._helper is not None:
            self._note(self._wait(seconds()))
        while self._fingerprint() != self._copied:
            if seconds() <= 0:
                return "There was no time left to copy its last checkpoint; the one before it is whole."
            self._start("up")
            code = self._wait(seconds())
            self._note(code)
            if code != 0:
                return f"Its last checkpoint could not be copied: {self._said() or 'there was no time left'}"
        return ""

    def _start(self, what: str) -> None:
        settings = self._settings
        self._copying = self._fingerprint()
        self._words.seek(0)
        self._words.truncate()
        arguments = [what, str(self._folder), settings.job, str(settings.run), str(settings.task)]
        # A socket and no pipe: of a process that is not hidden yet, others could open a pipe by way of /proc.
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._helper = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-m", "jupyter_gq.runner.pod.checkpoint_store", *arguments],
                env={name: value for name, value in os.environ.items() if name != URL_VARIABLE},
                stdin=theirs.fileno(),
                stderr=self._words,
            )
            ours.sendall(f"{settings.checkpoint_url}\n".encode())

    def _wait(self, seconds: float) -> int:
        """The exit code of our child; it is killed after so long."""
        assert self._helper is not None
        try:
            return self._helper.wait(max(0.05, seconds))
        except subprocess.TimeoutExpired:
            self._helper.kill()
            return self._helper.wait()

    def _end(self) -> None:
        if self._helper is not None and self._helper.poll() is None:
            self._helper.kill()
            self._helper.wait()
        self._helper = None

    def _note(self, code: int) -> None:
        self._helper = None
        if code == 0:
            self._copied = self._copying
            log.info("The checkpoint was copied%s.", " after all" if self._failing else "")
        elif not self._failing:
            log.warning("The checkpoint could not be copied; it is tried again: %s", self._said() or f"signal {-code}")
        self._failing = code != 0

    def _said(self) -> str:
        """Our child's last line."""
        self._words.seek(0)
        lines = self._words.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _fingerprint(self) -> Fingerprint:
        found = set()
        for path in self._folder.rglob("*"):
            try:
                about = path.stat()
            except OSError:
                continue
            if path.is_file():
                found.add((path.relative_to(self._folder).as_posix(), about.st_size, about.st_mtime_ns))
        return frozenset(found)
