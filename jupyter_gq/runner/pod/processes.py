"""The duties of process 1 to the other processes of its pod: reap the ended ones, and leave none alive. Linux only."""

import ctypes
import logging
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from subprocess import Popen

from jupyter_gq.runner.clock import monotonic

log = logging.getLogger(__name__)

_SET_DUMPABLE, _SET_CHILD_SUBREAPER = 4, 36


def become_subreaper() -> None:
    """Make orphaned descendants children of this process, even if it is not process 1.

    If the kernel refuses, that is only logged.
    """
    _prctl(_SET_CHILD_SUBREAPER, 1)


def protect_memory() -> None:
    """Forbid other processes of this user to read the memory of this one, which holds a token; root still can.

    If the kernel refuses, that is only logged.
    """
    _prctl(_SET_DUMPABLE, 0)


def reap_children(known: Iterable["Popen[bytes]"]) -> None:
    """Reap the children that have ended, without waiting for others.

    The `known` ones keep their exit code for the code that started them.
    """
    known_by_pid = {process.pid: process for process in known if process.returncode is None}
    while True:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if dead is None:
            return
        if dead.si_pid in known_by_pid:
            known_by_pid[dead.si_pid].poll()
        else:
            os.waitpid(dead.si_pid, os.WNOHANG)


def kill_descendants(seconds: float) -> bool:
    """Kill all descendants of this process, also new ones, for up to `seconds`; return whether none is left."""
    until = monotonic() + seconds
    while descendants := _descendants(os.getpid()):
        for pid in descendants:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        reap_children(())
        if monotonic() >= until:
            return False
        time.sleep(0.01)
    reap_children(())
    return True


def _descendants(root: int) -> list[int]:
    """Return the ids of the living processes below the process `root`."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                # The name of the program stands in parentheses and may contain anything.
                state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            if state not in "ZX":
                children.setdefault(int(parent), []).append(int(entry.name))
    found, pending = [], [root]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        # A sandbox without prctl: process 1 gets the orphans anyway, and the sandbox isolates by itself.
        log.info("This kernel refuses prctl(%d): %s", option, os.strerror(ctypes.get_errno()))
