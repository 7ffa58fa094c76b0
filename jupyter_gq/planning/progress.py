"""The progress line of a replay: it fills while the replay runs, and only on a terminal."""

import sys
from typing import TextIO

_WIDTH = 30


class ProgressLine:
    """A line that shows how far a replay is.

    The line is written anew when the percentage has changed, and never into a file or a pipe.
    """

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self._title = title
        self._stream = stream if stream is not None else sys.stderr
        self._shown = -1
        self._terminal = self._stream.isatty()

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` jobs have ended.

        Write nothing if the percentage is unchanged or there is no terminal.
        """
        percent = 100 * done // total if total else 100
        if not self._terminal or percent == self._shown:
            return
        self._shown = percent
        full = _WIDTH * percent // 100
        bar = "█" * full + "░" * (_WIDTH - full)
        self._stream.write(f"\r{self._title:<28} {bar} {percent:3d} %  {done:,} of {total:,} jobs ")
        self._stream.flush()

    def clear(self) -> None:
        """Remove the line from the terminal, if it was shown."""
        if self._terminal and self._shown >= 0:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
