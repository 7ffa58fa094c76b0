"""The host memory into which the GPU state of processes can be moved.

Rules
-----
- Charged to the process: the driver keeps the state in the memory of the process itself. So the limits of the control
  groups of the process count, from its own up to the outermost one, and not only the free memory of the machine.
- File cache can be reclaimed, and counts as free.
- Beside other containers: the control group of each process must be seen. A limit that is out of sight would be
  exceeded, and the system would end the program whose state is moved.
"""

import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from jupyter_gq.devices.simulated.memory import reported_memory
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.bounded_json import make_whole

_KIB = 1024
_BYTES = 1024 * 1024
_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB$", re.MULTILINE)
_RESIDENT = re.compile(r"^(?:VmRSS|VmSwap):\s+(\d+) kB$", re.MULTILINE)
_FILE_CACHE = re.compile(r"^(?:total_)?inactive_file (\d+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostRoom:
    """The room for GPU state in host memory, and the place that limits it."""

    memory: MiB
    #: Noun phrase for people, such as "this machine" or "the control group /user.slice".
    place: str


class HostMemory(Protocol):
    """A source of the room for GPU state in host memory."""

    def room(self, pids: Collection[int]) -> HostRoom | None:
        """Return the smallest room that any of these processes has; None if that is unknown."""
        ...

    def most_state(self, pid: int) -> MiB | None:
        """Return the most GPU state that a suspended process can have in host memory; None if that is unknown."""
        ...


class SimulatedHostMemory:
    """The host memory for the state of simulated devices, which takes none: there is always room."""

    def room(self, pids: Collection[int]) -> HostRoom | None:
        """Return more room than any process reports."""
        return HostRoom(memory=MiB(2**40), place="the simulation")

    def most_state(self, pid: int) -> MiB | None:
        """Return the memory that the process reports; None if it has ended."""
        try:
            return reported_memory(psutil.Process(pid))
        except psutil.Error:
            return None


class LinuxHostMemory:
    """The host memory of a Linux machine with its control groups, of version 2 or 1."""

    def __init__(
        self, *, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup"), must_see_groups: bool = False
    ) -> None:
        """Read below these folders; with `must_see_groups` the room is unknown if a group cannot be seen."""
        self._proc, self._groups, self._must_see_groups = proc, groups, must_see_groups

    def sees_groups(self, pid: int) -> bool:
        """Return whether the control group of a process that counts its memory can be seen here."""
        # A group outside of the namespace of this process is named by the way up to it.
        folders = [each for each in self._groups_of(pid) if ".." not in each.parts and each != self._groups]
        return any(each.is_dir() for each in folders[:1])

    def room(self, pids: Collection[int]) -> HostRoom | None:
        """Return the smallest room: of the machine, and of each control group of each process that still runs.

        Returns None if `/proc/meminfo` does not tell the memory of the machine.
        """
        found = _AVAILABLE.search(_read(self._proc / "meminfo"))
        if found is None:
            return None
        if self._must_see_groups and not all(map(self.sees_groups, pids)):
            return None
        machine = HostRoom(memory=MiB(int(found[1]) // _KIB), place="this machine")
        groups = {group for pid in pids for group in self._groups_of(pid)}
        rooms = [machine, *(room for group in groups if (room := self._room_of_group(group)) is not None)]
        return min(rooms, key=lambda room: room.memory)

    def most_state(self, pid: int) -> MiB | None:
        """Return the host memory of a process, in the machine's memory and swapped out, rounded up.

        The state is in the memory of the process itself, so it cannot be more.
        """
        found = [int(each) for each in _RESIDENT.findall(_read(self._proc / str(pid) / "status"))]
        return MiB(-(-sum(found) // _KIB)) if found else None

    def _groups_of(self, pid: int) -> Iterator[Path]:
        """Yield the folders of the control groups of a process that count memory, from its own up."""
        for line in _read(self._proc / str(pid) / "cgroup").split("\n"):
            _, controllers, path = [*line.split(":", 2), "", ""][:3]
            if controllers in ("", "memory"):
                root = self._groups / controllers
                folder = root / path.lstrip("/")
                yield from (each for each in (folder, *folder.parents) if each.is_relative_to(root))

    def _room_of_group(self, group: Path) -> HostRoom | None:
        """Return the room of a control group; None if it has no limit or cannot be read."""
        for limit, current in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            with suppress(ValueError):  # "max", or no such file
                most, used = int(_read(group / limit)), int(_read(group / current))
                cache = _FILE_CACHE.search(_read(group / "memory.stat"))
                free = most - used + (int(cache[1]) if cache else 0)
                name = make_whole(f"/{group.relative_to(self._groups)}".removesuffix("/."))
                return HostRoom(memory=MiB(max(0, free // _BYTES)), place=f"the control group {name or '/'}")
        return None


def _read(path: Path) -> str:
    """Return the text of a small file as it is: users choose names of groups in it; "" if it cannot be read."""
    try:
        return os.fsdecode(path.read_bytes())
    except OSError:
        return ""
