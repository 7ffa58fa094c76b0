"""What process 1 owes to the processes of its pod: to bury the dead, and to leave none alive. Linux only."""

import ctypes
import logging
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from subprocess import Popen
from typing import Any

from jupyter_gq.runner.clock import steady

log = logging.getLogger(__name__)

_SET_DUMPABLE, _SET_CHILD_SUBREAPER = 4, 36


def adopt_orphans() -> None:
    """Whoever loses his parent below us becomes our child, also where we are not process 1."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def hide() -> None:
    """Other processes of this user can no longer read our memory, where our token is; root still can."""
    _prctl(_SET_DUMPABLE, 0)


def bury(known: Iterable["Popen[bytes]"]) -> None:
    """Collect the children that have ended; those that are `known` keep their exit code for who started them."""
    ours = {process.pid: process for process in known if process.returncode is None}
    while True:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if dead is None:
            return
        if dead.si_pid in ours:
            ours[dead.si_pid].poll()
        else:
            os.waitpid(dead.si_pid, os.WNOHANG)


def end_all(seconds: float) -> bool:
    """Kill all that descends from us, and what takes their place; True when nothing is left after so long."""
    until = steady() + seconds
    while descendants := _descendants(os.getpid()):
        for pid in descendants:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        bury(())
        if steady() >= until:
            return False
        time.sleep(0.01)
    bury(())
    return True


def _descendants(root: int) -> list[int]:
    """Living processes below this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                # The name is in parentheses and may contain anything.
                state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            if state not in "ZX":
                children.setdefault(int(parent), []).append(int(entry.name))
    found, look = [], [root]
    while look:
        below = children.get(look.pop(), [])
        found += below
        look += below
    return found


def _prctl(option: int, value: int) -> None:
    libc: Any = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        # A sandbox that does not know it: as process 1 orphans come to us anyway, and it isolates by itself.
        log.info("This kernel refuses prctl(%d): %s", option, os.strerror(ctypes.get_errno()))
