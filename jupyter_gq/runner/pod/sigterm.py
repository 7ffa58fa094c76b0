"""SIGTERM to process 1 of a pod: at first the signal ends everything at once, later it is forwarded to the runner."""

import os
import select
import signal
from types import FrameType

from jupyter_gq.runner.clock import monotonic


class StoppedBeforeStart(BaseException):
    """A stop of the pod before anything of the job was run."""


class SigtermHandler:
    """The request to stop this pod, with its deadline. Used in the main thread only."""

    def __init__(self) -> None:
        #: Seconds between SIGTERM and the kill that follows; set once the environment was read.
        self.grace = 30.0
        #: In seconds of the monotonic clock; None while no stop was requested.
        self.deadline: float | None = None
        #: Id of the process to which SIGTERM is forwarded.
        self._runner: int | None = None
        #: Whether SIGTERM raises `StoppedBeforeStart` in the main thread.
        self._raises = True
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    @property
    def is_requested(self) -> bool:
        """Whether the pod was told to stop."""
        return self.deadline is not None

    def install(self) -> None:
        """Handle SIGTERM as a request to stop from now on, and let `wait` return at each signal.

        Until `defer_signals`, SIGTERM raises `StoppedBeforeStart` in the main thread.
        """
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler is needed for the wake-up
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def defer_signals(self) -> None:
        """Stop raising `StoppedBeforeStart` at SIGTERM; keep a request to stop until `forward_to` names its process."""
        self._raises = False

    def forward_to(self, pid: int) -> None:
        """Forward SIGTERM to this process from now on, and at once if a stop was requested before."""
        self._runner = pid
        if self.is_requested:
            self._forward()

    def stop_forwarding(self) -> None:
        """Forward SIGTERM to no process any more: the runner has ended, and its id may belong to another process."""
        self._runner = None

    def wait(self, seconds: float) -> None:
        """Wait until a signal comes, at most `seconds`."""
        select.select([self._reader], [], [], max(0.0, seconds))
        try:
            os.read(self._reader, 4096)
        except BlockingIOError:
            return

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Set the deadline at the first SIGTERM, and ignore later ones.

        Then raise `StoppedBeforeStart` before `defer_signals`, and forward the signal to the runner after it.
        """
        if self.is_requested:
            return
        self.deadline = monotonic() + self.grace
        if self._raises:
            raise StoppedBeforeStart
        self._forward()

    def _forward(self) -> None:
        if self._runner is not None:
            try:
                os.kill(self._runner, signal.SIGTERM)
            except ProcessLookupError:
                return
