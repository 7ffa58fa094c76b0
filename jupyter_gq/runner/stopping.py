"""Being told to end: SIGTERM becomes the file `stop`, which `jupyter_gq.should_stop` sees in the kernel."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from .clock import now

#: Seconds until whoever sent SIGTERM kills, unless the environment says otherwise.
DEFAULT_GRACE = 30.0
GRACE_VARIABLE = "GQ_STOP_GRACE"


class StopRequest:
    """Whether this run was told to end, and by when."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._listener: Callable[[], None] | None = None
        #: Seconds since the epoch; None while nobody asked.
        self.deadline: float | None = None

    @property
    def asked(self) -> bool:
        """The run was told to end."""
        return self.deadline is not None

    def install(self) -> None:
        """From now on SIGTERM is a request, not the end."""
        signal.signal(signal.SIGTERM, self._on_signal)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` once the run is told to end; at once if it already was."""
        self._listener = listener
        if self.asked:
            listener()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            return
        self.deadline = now() + _grace()
        try:
            self._file.write_text(json.dumps({"deadline": self.deadline}), encoding="ascii")
        except OSError:
            # A full disk: an empty file still tells the kernel. Raising here would hit whatever code runs now.
            self._touch()
        if self._listener is not None:
            self._listener()

    def _touch(self) -> None:
        try:
            self._file.touch()
        except OSError as error:
            os.write(2, f"The request to stop could not be passed on: {error}\n".encode())


def _grace() -> float:
    try:
        return max(1.0, float(os.environ.get(GRACE_VARIABLE, DEFAULT_GRACE)))
    except ValueError:
        return DEFAULT_GRACE
