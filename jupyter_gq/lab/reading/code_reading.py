"""Threads that read the code of many cells and modules, while Python collects no garbage.

See docs/decisions/0491-read-code-without-the-garbage-collector.md.
"""

import asyncio
import gc
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Most seconds of a pause: a file system that does not answer may hold up a thread for ever.
_LONGEST: Final = 10.0


async def read_code(read: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Return what `read` returns, called in a thread; raise what it raises.

    Python collects no garbage in the whole process meanwhile, for `_LONGEST` seconds at most. If the caller is
    cancelled, `read` goes on.
    """
    end = _COLLECTOR.pause()
    asyncio.get_running_loop().call_later(_LONGEST, end)

    def read_and_end() -> _R:
        try:
            return read(*args, **kwargs)
        finally:
            end()

    return await asyncio.to_thread(read_and_end)


class _Collector:
    """The garbage collector of this process, which several readings may pause at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: What stands for each pause that has not ended.
        self._pauses: set[object] = set()
        #: Whether the collector was on before the first pause.
        self._was_on = False

    def pause(self) -> Callable[[], None]:
        """Let nothing be collected until the returned function is called; a further call of it does nothing.

        After the last pause, the collector is on if it was on before the first one.
        """
        pause = object()
        with self._lock:
            if not self._pauses:
                self._was_on = gc.isenabled()
                gc.disable()
            self._pauses.add(pause)
        return partial(self._end, pause)

    def _end(self, pause: object) -> None:
        with self._lock:
            if pause not in self._pauses:
                return
            self._pauses.remove(pause)
            if not self._pauses and self._was_on:
                gc.enable()


_COLLECTOR = _Collector()
