"""Log records and printed lines that no text of a user can falsify, since they have no control characters.

All handlers and formatters of the process get such records, whatever their format.
"""

import logging
import sys

from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.plain_text import strip_controls

_TRACEBACKS = logging.Formatter()


class PlainRecord(logging.LogRecord):
    """A log record whose message is one plain line, and whose traceback is plain lines."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # the arguments of logging's own factory
        if self.exc_info and self.exc_info[0] is not None:
            self.exc_text = _make_plain(_TRACEBACKS.formatException(self.exc_info))

    def getMessage(self) -> str:
        """Return the message on one line."""
        return strip_controls(reveal(super().getMessage()))


def log_plainly() -> None:
    """Make all later log records of this process plain ones."""
    logging.setLogRecordFactory(PlainRecord)


def print_plain(text: str) -> None:
    """Print a text of one or more lines with all names, without control and bidirectional characters."""
    sys.stdout.write(_make_plain(text) + "\n")


def _make_plain(text: str) -> str:
    """Return a text of one or more lines with all names, without control and bidirectional characters."""
    return strip_controls(reveal(text), lines=True)
