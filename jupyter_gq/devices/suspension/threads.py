"""The daemon threads in which the driver is called, which may hang."""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from jupyter_gq.domain.errors import MachineError

log = logging.getLogger(__name__)

T = TypeVar("T")


class AlreadyTold(MachineError, OSError):
    """An error of the disk that the log has told already: each thread that it ends would only repeat it."""


def run_aside(name: str, work: Callable[[], None]) -> None:
    """Run `work` in a daemon thread whose end nobody awaits; an error is logged, unless it is `AlreadyTold`."""

    def run() -> None:
        try:
            work()
        except AlreadyTold as error:
            log.debug("%s failed: %s", name, error)
        except Exception:  # the last guard of a thread
            log.exception("%s failed", name)

    threading.Thread(target=run, name=name, daemon=True).start()


def run_in_thread(name: str, work: Callable[[], T], finish: Callable[[T | None], None]) -> None:
    """Start `work` in a daemon thread; later call `finish` in the running loop with its result, or None if it raised.

    An error of `work` is logged, unless it is `AlreadyTold`. If the loop is closed by then, `finish` is not called.
    Raises `RuntimeError` if no thread can be started.
    """
    loop = asyncio.get_running_loop()

    def run() -> None:
        result: T | None = None
        try:
            result = work()
        except AlreadyTold as error:
            log.debug("%s failed: %s", name, error)
        except Exception:  # the last guard of a thread
            log.exception("%s failed", name)
        with suppress(RuntimeError):  # the loop is closed: the service has ended, and its successor recovers
            loop.call_soon_threadsafe(finish, result)

    threading.Thread(target=run, name=name, daemon=True).start()
