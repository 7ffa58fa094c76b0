"""The request to stop a run: SIGTERM becomes the file `stop`, which `jupyter_gq.should_stop` sees in the kernel."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from .clock import now
from .reserved import write_reserved

#: Seconds between SIGTERM and the kill that follows, unless the environment says otherwise.
DEFAULT_GRACE = 30.0
GRACE_VARIABLE = "GQ_STOP_GRACE"


class StopRequest:
    """The request to stop this run, with its deadline."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._listener: Callable[[], None] | None = None
        #: In seconds since the epoch; None while no stop was requested.
        self.deadline: float | None = None

    @property
    def is_requested(self) -> bool:
        """Whether the run was told to stop."""
        return self.deadline is not None

    def install(self) -> None:
        """Install the handler of SIGTERM: from now on the signal requests a stop and does not end the process."""
        signal.signal(signal.SIGTERM, self._on_signal)

    def set_listener(self, listener: Callable[[], None]) -> None:
        """Let `listener` be called once the run is told to stop, or now if it already was."""
        self._listener = listener
        if self.is_requested:
            listener()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Set the deadline at the first SIGTERM, write the file for the kernel, and call the listener.

        Later signals are ignored.
        """
        if self.is_requested:
            return
        self.deadline = now() + _read_grace_seconds()
        try:
            write_reserved(self._file, json.dumps({"deadline": self.deadline}).encode())
        except OSError:
            # The disk may be full. An empty file still tells the kernel; an error raised here would hit any code.
            self._touch()
        if self._listener is not None:
            self._listener()

    def _touch(self) -> None:
        try:
            self._file.touch()
        except OSError as error:
            os.write(2, f"The request to stop could not be passed on: {error}\n".encode())


def _read_grace_seconds() -> float:
    try:
        return max(1.0, float(os.environ.get(GRACE_VARIABLE, DEFAULT_GRACE)))
    except ValueError:
        return DEFAULT_GRACE
