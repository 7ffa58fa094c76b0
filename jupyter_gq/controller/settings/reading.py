"""Calls that read files in threads of their own, because a file, a network or an administrator's code may hang.

Rules
-----
Deadline: a call has `READ_TIMEOUT` seconds. Only the start of the service waits so long; a service that runs waits for
`MOMENT` seconds, and then looks from time to time whether the call has ended.

Abandoned: Python cannot end a thread that waits outside Python, and such a thread is left alone. A look that
computes without end is interrupted once a file that it reads is replaced; code that catches `SystemExit` goes on. Since
the threads are daemons, the process can still end.

See docs/decisions/0104-abandon-the-reading-of-a-file-that-hangs.md and, for the log,
docs/decisions/0478-make-the-handlers-of-the-log-with-a-deadline.md.
"""

import asyncio
import concurrent.futures
import ctypes
import sys
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from pathlib import Path
from traceback import walk_stack
from typing import Generic, TypeVar

from traitlets.config import Config

from jupyter_gq.controller.clock import SystemClock

T = TypeVar("T")

#: Seconds that a file has, to be tried, read and executed.
READ_TIMEOUT = 40.0
#: Seconds that the loop of the service waits for a file; nothing is decided meanwhile.
MOMENT = 3.0


class Abandoned(SystemExit):
    """The end of a call whose result nobody waits for any more."""


class Reading(Generic[T]):
    """A call of a function in a daemon thread."""

    def __init__(self, read: Callable[[], T], after: "Reading[Config] | None" = None) -> None:
        """Start the call of `read`, which begins by waiting for the call `after`: the two have one deadline."""
        self._elapsed = SystemClock().elapsed
        self._after = None if after is None or after.has_ended() else after
        self._began: float = self._elapsed() if self._after is None else self._after._began
        self._outcome: Future[T] = Future()
        self._ended: Future[None] = Future()
        self._ended.set_running_or_notify_cancel()  # so that nobody who waits can cancel it
        self._thread = threading.Thread(target=self._run, args=(read,), name="read settings", daemon=True)
        self._thread.start()

    def has_ended(self) -> bool:
        """Return whether the call has returned or raised."""
        return self._ended.done()

    def is_overdue(self) -> bool:
        """Return whether the call goes on after `READ_TIMEOUT`."""
        return not self.has_ended() and self._elapsed() - self._began >= READ_TIMEOUT

    def wait_in_time(self) -> bool:
        """Wait until the call ends, and return True; return False after `READ_TIMEOUT`."""
        concurrent.futures.wait([self._ended], max(0.0, self._began + READ_TIMEOUT - self._elapsed()))
        return self.has_ended()

    def wait_for_end(self) -> None:
        """Block the calling thread until the call ends, without a time-out; only a thread that may hang calls this."""
        concurrent.futures.wait([self._ended])

    async def wait_a_moment(self) -> None:
        """Wait until the call ends, at most for a `MOMENT`, without blocking the loop."""
        await self._wait(MOMENT)

    async def wait(self) -> None:
        """Wait until the call ends, however long that takes, without blocking the loop."""
        await self._wait(None)

    def result(self) -> T:
        """Return what the call returned, or raise what it raised; only for a call that has ended."""
        return self._outcome.result()

    def abandon(self) -> None:
        """Raise `Abandoned` in the thread of the call; do nothing if the call has ended.

        Returns at once. The call sees the exception at its next step of Python code: a call that waits outside Python
        sees it late or never. Code that catches `SystemExit` goes on.
        """
        thread = self._thread.ident
        if thread is not None and not self.has_ended():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Abandoned))

    def find_line(self, files: Collection[Path]) -> str:
        """Return the innermost line of these files that the call is executing, such as "a.py, line 3"; "" if none."""
        if self._after is not None and not self._after.has_ended():
            return self._after.find_line(files)
        names = {str(path) for path in files}
        frame = sys._current_frames().get(self._thread.ident or 0)
        for each, line in walk_stack(frame) if frame is not None else ():
            if each.f_code.co_filename in names:
                return f"{each.f_code.co_filename}, line {line}"
        return ""

    async def _wait(self, seconds: float | None) -> None:
        ended = asyncio.wrap_future(self._ended)
        try:
            await asyncio.wait([ended], timeout=seconds)
        finally:
            ended.cancel()  # or an abandoned call would report to a loop that is closed

    def _run(self, read: Callable[[], T]) -> None:
        try:
            self._outcome.set_result(read())
        except BaseException as error:  # noqa: BLE001 - the caller raises the error
            self._outcome.set_exception(error)
        finally:
            self._ended.set_result(None)
