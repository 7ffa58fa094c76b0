"""Log records and printed lines that no text of a user can falsify, since they have no control characters.

All handlers and formatters of the process get such records, whatever their format. The service and the agents make all
their records plain. The Hub and notebook servers also run code of others, and make only records of this package plain.

See docs/decisions/0100-make-only-our-own-log-records-plain.md.
"""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.plain_text import strip_controls

_TRACEBACKS = logging.Formatter()
_PACKAGE = str(Path(__file__).parents[1]) + os.sep


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


def log_own_records_plainly() -> None:
    """Make all later log records of this package's code plain; records of other code stay as they are.

    Does nothing if that was done before.
    """
    present = logging.getLogRecordFactory()
    if present is not PlainRecord and not isinstance(present, _OwnPlainRecords):
        logging.setLogRecordFactory(_OwnPlainRecords(present))


class _OwnPlainRecords:
    """A factory of log records, plain ones for code of this package."""

    def __init__(self, others: Callable[..., logging.LogRecord]) -> None:
        """Store the factory of the records of other code."""
        self._others = others

    def __call__(self, name: str, level: int, pathname: str, *args: object, **kwargs: object) -> logging.LogRecord:
        """Return a record of the code in the file `pathname`."""
        factory = PlainRecord if pathname.startswith(_PACKAGE) else self._others
        return factory(name, level, pathname, *args, **kwargs)


def print_plain(text: str, stream: TextIO | None = None) -> None:
    """Print a text of one or more lines with all names, without control and bidirectional characters.

    Without a `stream`, the text goes to standard output.
    """
    (stream or sys.stdout).write(_make_plain(text) + "\n")


def _make_plain(text: str) -> str:
    """Return a text of one or more lines with all names, without control and bidirectional characters."""
    return strip_controls(reveal(text), lines=True)
