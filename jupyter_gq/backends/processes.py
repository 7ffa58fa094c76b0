"""Processes of this machine, as /proc shows them at one moment.

Rules
-----
- Identity: a process is identified by its id and its start time (see `devices.linux.processes`).
- Marks: processes that left their parent and their session are found by a variable in their environment, the mark.
"""

import os
import signal
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from jupyter_gq.devices.linux.processes import Process, read_process
from jupyter_gq.devices.linux.signals import send_signal

_PROC = Path("/proc")
#: Age in seconds up to which a cached process table is used if no process has ended.
_MAX_TABLE_AGE = 3.0
#: Bytes of an environment that are read.
_MOST_ENVIRONMENT = 256 * 1024


class ProcessTable:
    """An unchanging table of all processes at one moment."""

    def __init__(self, processes: Iterable[Process]) -> None:
        self._by_pid = {process.pid: process for process in processes}
        self._children: dict[int, list[int]] = {}
        self._sessions: dict[int, list[int]] = {}
        for process in self._by_pid.values():
            self._children.setdefault(process.parent, []).append(process.pid)
            self._sessions.setdefault(process.session, []).append(process.pid)
        self._marks: dict[str, dict[str, list[int]]] = {}

    @classmethod
    def read(cls) -> "ProcessTable":
        """Return a table of all processes that run now."""
        found = (read_process(int(name)) for name in os.listdir(_PROC) if name.isdecimal())
        return cls(process for process in found if process is not None)

    def alive(self, pid: int, ticks: int) -> bool:
        """Return whether the process with this pid and start time runs."""
        process = self._by_pid.get(pid)
        return process is not None and process.ticks == ticks and not process.dead

    def tree(self, pid: int) -> set[int]:
        """Return the ids of living processes: the given one, the session that it leads, and all their descendants."""
        found: set[int] = set()
        waiting = [pid, *self._sessions.get(pid, ())]
        while waiting:
            member = waiting.pop()
            if member not in found:
                found.add(member)
                waiting.extend(self._children.get(member, ()))
        return {member for member in found if member in self._by_pid and not self._by_pid[member].dead}

    def find_marked(self, variable: str, value: str, uid: int | None = None) -> set[int]:
        """Return the ids of living processes that have this variable with this value, if their environment may be read.

        With `uid`, return only processes of that user, because another user could copy the mark.
        """
        found = self._pids_by_value(variable).get(value, ())
        return {pid for pid in found if uid is None or user_of(pid) == uid}

    def signal(self, pids: Iterable[int], number: signal.Signals) -> None:
        """Send a signal to these processes, except to those that have ended or whose id was used again."""
        for pid in pids:
            process = self._by_pid.get(pid)
            if process is not None:
                send_signal(pid, process.ticks, number)

    def process(self, pid: int) -> Process | None:
        """Return the process with this pid in the table, which may be a zombie; None if there is none."""
        return self._by_pid.get(pid)

    def _pids_by_value(self, variable: str) -> dict[str, list[int]]:
        """Return the ids of the living processes that have this variable, by its value; read once for each table."""
        if variable not in self._marks:
            values: dict[str, list[int]] = {}
            for process in self._by_pid.values():
                value = None if process.dead else (environment_of(process.pid) or {}).get(variable)
                if value is not None:
                    values.setdefault(value, []).append(process.pid)
            self._marks[variable] = values
        return self._marks[variable]


class ProcessTableCache:
    """A cache of the process table: reading it takes 0.1 ms for each process, and backends need it every second."""

    def __init__(self, awake: Callable[[], float]) -> None:
        """Create an empty cache; `awake` returns the seconds for which the machine has been awake."""
        self._awake = awake
        self._table = ProcessTable(())
        self._read_at = float("-inf")

    def read(self, leaders: Iterable[tuple[int, int]]) -> ProcessTable:
        """Return the table; read it anew after a few seconds, or if one of these processes (id, ticks) is not alive.

        So the state of `leaders` is always right, but processes that they have started since may be missing.
        """
        if self._awake() - self._read_at >= _MAX_TABLE_AGE or not all(self._is_alive(*leader) for leader in leaders):
            self._table = ProcessTable.read()
            self._read_at = self._awake()
        return self._table

    def _is_alive(self, pid: int, ticks: int) -> bool:
        """Return whether a process is alive in the cached table and in fact."""
        process = read_process(pid) if self._table.alive(pid, ticks) else None
        return process is not None and process.ticks == ticks and not process.dead


def environment_of(pid: int) -> dict[str, str] | None:
    """Return the environment with which a process was started; None if it is gone or may not be read.

    Only the first `_MOST_ENVIRONMENT` bytes are read: the owner of a process chooses the size of its environment, and
    all processes are looked at.
    """
    try:
        with (_PROC / str(pid) / "environ").open("rb") as file:
            content = file.read(_MOST_ENVIRONMENT)
    except OSError:
        return None
    entries = (entry.partition(b"=") for entry in content.split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries}


def user_of(pid: int) -> int | None:
    """Return the real user id of a process; None if the process is gone."""
    with suppress(OSError, StopIteration, ValueError):
        # Split at line feeds only: the name of the process comes first, and may have every other character.
        lines = (_PROC / str(pid) / "status").read_bytes().split(b"\n")
        return int(next(line for line in lines if line.startswith(b"Uid:")).split()[1])
    return None


def reap(children: Collection[int]) -> dict[int, int]:
    """Reap the child processes that have ended; return their exit codes, negative if a signal ended the child."""
    codes: dict[int, int] = {}
    for pid in children:
        with suppress(ChildProcessError):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                codes[pid] = os.waitstatus_to_exitcode(status)
    return codes
