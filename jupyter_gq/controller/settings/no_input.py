"""Config files that ask a person: standard input is empty while a file is executed, also for programs that it starts.

The file would otherwise wait for ever where nobody answers. Standard input belongs to the process, so it is empty for
the other threads, too, until the last of the files that are executed at the same time has ended.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

#: The file descriptor that programs read as their standard input.
_DESCRIPTOR = 0


@dataclass(slots=True)
class _Blocks:
    """The blocks that are executed now, in all threads."""

    count: int = 0
    #: Brings back what was there before the first one.
    restore: ExitStack = field(default_factory=ExitStack)
    lock: threading.Lock = field(default_factory=threading.Lock)


_blocks = _Blocks()


@contextmanager
def no_input() -> Iterator[None]:
    """Let standard input be empty in the block, for this process and for programs that it starts."""
    with _blocks.lock:
        _blocks.count += 1
        if _blocks.count == 1:
            _empty(_blocks.restore.callback)
    try:
        yield
    finally:
        with _blocks.lock:
            _blocks.count -= 1
            if _blocks.count == 0:
                _blocks.restore.close()


def _empty(at_end: Callable[..., object]) -> None:
    """Put /dev/null in the place of standard input; pass what brings it back to `at_end`."""
    nothing = open(os.devnull)  # noqa: SIM115 - it is closed at the end of the last block
    at_end(nothing.close)
    at_end(setattr, sys, "stdin", sys.stdin)
    sys.stdin = nothing
    if sys.__stdin__ is None:
        return  # the process began without standard input: the descriptor may be of any other file
    try:
        before = os.dup(_DESCRIPTOR)
    except OSError:  # somebody has closed it since
        return
    at_end(os.close, before)
    at_end(os.dup2, before, _DESCRIPTOR)
    os.dup2(nothing.fileno(), _DESCRIPTOR)
