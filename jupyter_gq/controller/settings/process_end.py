"""Config files that end the process: a call of `os._exit` raises an error in the thread that executes a file.

The Hub and the service would otherwise end without a word, and again after each start. Other threads, and child
processes, end as they ask. `sys.exit` raises an error anyway.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from jupyter_gq.domain.errors import AdminError

#: The calls that end a process at once.
_CALLS = ("_exit", "abort")
_executing = threading.local()


class EndsTheProcess(AdminError):
    """A config file that would end the process that executes it."""


@contextmanager
def forbid_process_end() -> Iterator[None]:
    """Raise `EndsTheProcess` if this thread and process asks in the block to be ended at once."""
    for name in _CALLS:
        present = getattr(os, name)
        if not isinstance(present, _Guard):
            setattr(os, name, _Guard(name, present))
    _executing.process = os.getpid()
    try:
        yield
    finally:
        _executing.process = None


class _Guard:
    """A call that ends a process, refused to threads that execute a config file; after a file the guard stays."""

    def __init__(self, name: str, end: Callable[..., NoReturn]) -> None:
        self._name, self._end = name, end

    def __call__(self, *arguments: int, **named: int) -> NoReturn:
        """End the process, or raise `EndsTheProcess`."""
        if getattr(_executing, "process", None) == os.getpid():
            raise EndsTheProcess(f"os.{self._name} would end the Hub and the service")
        self._end(*arguments, **named)
