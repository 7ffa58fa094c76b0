"""The state of this process that code under test may change for good, and that each test finds as the one before did.

Tests of one worker share a process, and which of them come first differs from run to run.
"""

import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator

#: Handlers of these are what a program sets for itself.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
#: Loggers that applications of ours configure, and those above them.
_LOGS = (None, "jupyter_gq", "SchedulerService", "NodeAgent", "JupyterGQ", "ServerApp", "tornado")
#: pytest changes this variable itself.
_OF_PYTEST = "PYTEST_CURRENT_TEST"


@contextlib.contextmanager
def kept_process_state() -> Iterator[None]:
    """Put everything back at the end: environment, umask, signal handlers, the log, and settings of the interpreter."""
    restore = [
        _keep_environment(),
        _keep_umask(),
        _keep_signals(),
        *(_keep_log(logging.getLogger(name)) for name in _LOGS),
        _keep_records(),
        _keep_interpreter(),
    ]
    try:
        yield
    finally:
        for each in restore:
            each()


def _keep_environment() -> Callable[[], None]:
    before = dict(os.environ)

    def restore() -> None:
        for name in os.environ.keys() | before.keys():
            if name == _OF_PYTEST or os.environ.get(name) == before.get(name):
                continue
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]

    return restore


def _keep_umask() -> Callable[[], None]:
    before = os.umask(0o022)
    os.umask(before)

    def restore() -> None:
        os.umask(before)

    return restore


def _keep_signals() -> Callable[[], None]:
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)

    return restore


def _keep_log(log: logging.Logger) -> Callable[[], None]:
    before, parent, level, disabled = list(log.handlers), log.parent, log.level, log.disabled
    propagate = log.propagate

    def restore() -> None:
        log.parent, log.disabled, log.propagate = parent, disabled, propagate
        log.setLevel(level)
        log.handlers[:] = before

    return restore


def _keep_records() -> Callable[[], None]:
    factory, errors = logging.getLogRecordFactory(), logging.raiseExceptions

    def restore() -> None:
        logging.setLogRecordFactory(factory)
        logging.raiseExceptions = errors

    return restore


def _keep_interpreter() -> Callable[[], None]:
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()

    def restore() -> None:
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)

    return restore
