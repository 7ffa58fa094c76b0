"""Supervision of a task's processes: reap the ended ones, and leave none alive. Linux only.

In a pod, process 1 supervises its runner itself. On a machine, `supervise` makes a process for that.

Rules
-----
Orphans: the supervisor is a subreaper, so a process that leaves its parent, its session and its environment becomes a
    child of the supervisor.
Last: the supervisor ends after all of its descendants. So a task without a supervisor uses no device.

See docs/decisions/0081-supervise-each-task-with-a-subreaper.md.
"""

import ctypes
import logging
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from subprocess import Popen

from .clock import monotonic

log = logging.getLogger(__name__)

#: The signals that a supervisor waits for.
_AWAITED = {signal.SIGTERM, signal.SIGCHLD}
_SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE, _SET_CHILD_SUBREAPER = 1, 4, 36
#: Seconds between two messages about descendants that cannot be killed.
_KILL_TIMEOUT = 60.0
#: Looks at the own children after each look at all processes: a program that forks and ends for ever is met there only.
_QUICK_LOOKS = 100


def supervise() -> None:
    """Fork, and return in the child only; the child is killed if this process is killed.

    This process hands SIGTERM on to the child, and exits as the child did once all descendants have been killed.
    """
    become_subreaper()
    supervisor = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, the kernel sends none and reaps by itself
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    child = os.fork()
    if child:
        _exit_as(_await_end(child))
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(1)  # the supervisor was killed before the signal was set
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)


def _await_end(child: int) -> int:
    """Wait for the end of the child, and hand SIGTERM on to it meanwhile; return the child's exit code.

    Then all other descendants are killed, for as long as that takes.
    """
    # The signals stay blocked and are waited for. A handler would run too late for one that comes right before a wait.
    while (code := _reap(child)) is None:
        if signal.sigwait(_AWAITED) == signal.SIGTERM:
            os.kill(child, signal.SIGTERM)
    while not kill_descendants(_KILL_TIMEOUT):
        os.write(2, b"Some processes of this run cannot be killed; the run ends after them.\n")
    return code


def _reap(child: int) -> int | None:
    """Reap all children that have ended; return the exit code of this one, None while it runs."""
    while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        _, status = os.waitpid(ended.si_pid, 0)
        if ended.si_pid == child:
            return os.waitstatus_to_exitcode(status)
    return None


def _exit_as(code: int) -> None:
    """End this process with an exit code; a negative code names the signal to end by."""
    if code < 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


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


def reap_children(known: Iterable["Popen[bytes]"]) -> bool:
    """Reap the children that have ended, without waiting for others; return whether any child is left.

    The `known` ones keep their exit code for the code that started them.
    """
    known_by_pid = {process.pid: process for process in known if process.returncode is None}
    while True:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        if dead is None:
            return True
        if dead.si_pid in known_by_pid:
            known_by_pid[dead.si_pid].poll()
        else:
            os.waitpid(dead.si_pid, os.WNOHANG)


def kill_descendants(seconds: float) -> bool:
    """Kill all descendants of this process, also new ones, for up to `seconds`; return whether none is left."""
    until = monotonic() + seconds
    # A reading of /proc misses a process that comes during it. The kernel does not miss a child, and orphans are ours.
    while reap_children(()):
        if monotonic() >= until:
            return False
        _kill(_descendants(os.getpid()))
        for _ in range(_QUICK_LOOKS):
            _kill(_read_children())
            reap_children(())
        time.sleep(0.01)
    return True


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue  # a program of another user, such as sudo, is waited for


def _read_children() -> list[int]:
    """Return the ids of this process's own children; none if this kernel does not list them."""
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:
        return []


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
