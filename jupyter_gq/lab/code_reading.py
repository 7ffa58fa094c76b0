"""Threads that read the code of many cells and modules, while Python collects no garbage.

See docs/decisions/0491-read-code-without-the-garbage-collector.md.
"""

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


async def read_code(read: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Return what `read` returns, in a thread; raise what it raises."""

    def read_without_collector() -> _R:
        with _COLLECTOR.paused():
            return read(*args, **kwargs)

    return await asyncio.to_thread(read_without_collector)


class _Collector:
    """The garbage collector of this process, which several threads may pause at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pauses = 0
        #: Whether the collector was on before the first pause.
        self._was_on = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let nothing be collected meanwhile; afterwards the collector is on if it was on before."""
        with self._lock:
            if self._pauses == 0:
                self._was_on = gc.isenabled()
                gc.disable()
            self._pauses += 1
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1
                if self._pauses == 0 and self._was_on:
                    gc.enable()


_COLLECTOR = _Collector()
