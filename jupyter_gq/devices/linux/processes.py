"""The identity of processes of this machine, as /proc shows them.

Rules
-----
- Identity: a process is identified by its id and its start time, because ids are used again.
- Zombies: a zombie is dead, because it holds neither memory nor devices.
- Host ids: NVIDIA's driver names processes by their ids on the host. In a container with ids of its own, these ids
  belong to other processes.
"""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
#: States of dead processes in /proc/<pid>/stat.
_DEAD = frozenset("ZXx")
#: States of processes that a signal or a debugger has stopped, and of those that a debugger holds.
_STOPPED, _TRACED = frozenset("Tt"), "t"
#: Inode of the first namespace of process ids, which the kernel fixes (PROC_PID_INIT_INO).
_HOST_PIDS = 0xEFFFFFFC


#: Bytes of a /proc/<pid>/stat that are read: a name and fifty numbers.
_MOST_STAT = 4096


@dataclass(frozen=True, slots=True, order=True)
class ProcessId:
    """A process id with the start time of the process, so that a recycled id is not taken for the same process."""

    pid: int
    #: Start time in clock ticks since the start of the machine.
    ticks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """A process of this machine."""

    pid: int
    #: Start time in clock ticks since the start of the machine.
    ticks: int
    parent: int
    session: int
    dead: bool
    #: Whether a signal or a debugger has stopped the process, until it is let go on.
    stopped: bool = False
    #: Whether it is a debugger that holds the stopped process.
    traced: bool = False
    #: Name of the program as the kernel keeps it, of 15 bytes at most.
    name: str = ""

    @property
    def id(self) -> ProcessId:
        """The id with the start time."""
        return ProcessId(self.pid, self.ticks)

    @property
    def started(self) -> float:
        """The start time in seconds since the epoch, as psutil gives it."""
        return _boot_time() + self.ticks / os.sysconf("SC_CLK_TCK")


def read_process(pid: int, proc: Path = _PROC) -> Process | None:
    """Return the process with this pid as it is now, which may be a zombie; None if there is none.

    `proc` is the folder that shows the processes.
    """
    try:
        stat = read_proc_file(f"{proc}/{pid}/stat", _MOST_STAT).decode("utf-8", errors="replace")
    except OSError:
        return None
    # The name is in parentheses and may itself contain spaces and parentheses.
    start, end = stat.index("("), stat.rindex(")")
    fields = stat[end + 2 :].split()
    return Process(
        pid=pid,
        ticks=int(fields[19]),
        parent=int(fields[1]),
        session=int(fields[3]),
        dead=fields[0] in _DEAD,
        stopped=fields[0] in _STOPPED,
        traced=fields[0] == _TRACED,
        name=stat[start + 1 : end],
    )


def read_proc_file(path: str, most: int) -> bytes:
    """Return the first bytes of a file of /proc, at most `most`. Raises `OSError` if the file cannot be read.

    Agents read a file for each process of their node every few seconds, so paths and streams of Python are left out.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, most)
    finally:
        os.close(handle)


def identify(pid: int, proc: Path = _PROC) -> ProcessId | None:
    """Return the identity of a living process; None if there is none."""
    found = read_process(pid, proc)
    return None if found is None or found.dead else found.id


def is_running(process: ProcessId) -> bool:
    """Tell whether exactly this process runs: its id was not used again, and it is no zombie."""
    found = read_process(process.pid)
    return found is not None and not found.dead and found.ticks == process.ticks


def has_host_pids() -> bool:
    """Return whether the process ids of this process are those of the host; False if that is unknown."""
    try:
        return (_PROC / "self/ns/pid").stat().st_ino == _HOST_PIDS
    except OSError:
        return False


def boot_id() -> str:
    """Return an id that differs after each start of the machine, when clock ticks begin anew; "" if unknown."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


@cache
def _boot_time() -> float:
    """Return when the machine was started, in seconds since the epoch."""
    lines = (_PROC / "stat").read_text(encoding="ascii").splitlines()
    return float(next(line for line in lines if line.startswith("btime ")).split()[1])
