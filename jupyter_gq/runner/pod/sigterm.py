"""SIGTERM to process 1 of a pod: at first it ends everything at once, later it is passed on to the runner."""

import os
import select
import signal
from types import FrameType

from jupyter_gq.runner.clock import steady


class Halted(BaseException):
    """The pod was told to end before anything of the job was run."""


class Halt:
    """Whether this pod was told to end, and by when. Belongs to the main thread."""

    def __init__(self) -> None:
        #: Seconds until the kill that follows SIGTERM; known once the environment was read.
        self.grace = 30.0
        #: In steady seconds; None while nobody asked.
        self.deadline: float | None = None
        #: Who is told; None: `Halted` is raised wherever we are.
        self._runner: int | None = None
        self._raises = True
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    @property
    def asked(self) -> bool:
        """It was told to end."""
        return self.deadline is not None

    def install(self) -> None:
        """From now on SIGTERM is a request; and `wait` returns at each signal."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only to be woken
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def defer(self) -> None:
        """From now on a request is kept, until `tell` says for whom."""
        self._raises = False

    def tell(self, pid: int) -> None:
        """Pass the request on to this process, also one that came meanwhile."""
        self._runner = pid
        if self.asked:
            self._pass_on()

    def nobody(self) -> None:
        """The process has ended; its number may be another's by now."""
        self._runner = None

    def wait(self, seconds: float) -> None:
        """Until a signal comes, but not longer."""
        select.select([self._reader], [], [], max(0.0, seconds))
        try:
            os.read(self._reader, 4096)
        except BlockingIOError:
            return

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            return
        self.deadline = steady() + self.grace
        if self._raises:
            raise Halted
        self._pass_on()

    def _pass_on(self) -> None:
        if self._runner is not None:
            try:
                os.kill(self._runner, signal.SIGTERM)
            except ProcessLookupError:
                return
