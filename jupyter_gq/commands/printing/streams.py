"""The standard streams of the command, which the shell may have closed and a reader may close at any time."""

import errno
import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from jupyter_gq.commands.refusal import ExitCode

#: Why a write to standard output fails: a full disk or quota, a broken disk, a stream that is not open for writing.
_WRITE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


def prepare_streams() -> None:
    """Open the null device for each standard stream that is closed, and let every text be read and printed.

    With standard error closed, Python would print errors to standard output. A character that the encoding lacks is
    printed as an escape sequence, and bytes that are no text are read as lone surrogates.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in the order of their numbers
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    for stream, errors in ((sys.stdin, "surrogateescape"), (sys.stdout, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def run_with_output(run: Callable[[], int]) -> int:
    """Return what `run` returns once its output is written; return 1 if standard output cannot be written.

    A full disk is told on standard error, and so is a stream that the code of a file has closed; a closed pipe, such
    as that of `| head`, is not.
    """
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        if error.errno not in _WRITE_ERRORS or error.filename is not None:
            raise
        _discard_output()
        _tell_failure(error.strerror or str(error))
    except ValueError:
        if not sys.stdout.closed:
            raise
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
        _tell_failure("the code of a file has closed standard output")
    return ExitCode.FAILED


def _tell_failure(why: str) -> None:
    with suppress(OSError, ValueError):
        print(f"jupyter-gq: the output cannot be written: {why}.", file=sys.stderr)


def _discard_output() -> None:
    """Send the rest of standard output to the null device, since Python writes what it has buffered at its end."""
    with suppress(OSError):  # in a test, the stream may have no file descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
