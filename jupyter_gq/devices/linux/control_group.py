"""The control group of a process, and what Linux counts of its memory.

Rules
-----
- Cause: Linux counts in a group each process of it that was killed for want of memory, and also how often the
  group reached its own limit. If it did not, the machine was short of memory, or a group around it.
- Only what is known: groups of version 1 and groups without these files count nothing.

See docs/decisions/0230-tell-who-was-short-of-memory.md.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.memory_kill import MemoryKill

from .mounts import read_mounts

_MEBIBYTE = 2**20
#: The beginning of the names of the groups that are made for runs on one machine.
RUN_GROUP = "jupyter-gq-"


def find_group(proc: Path) -> Path | None:
    """Return the folder of the control group of a process, `proc` is its folder in /proc; None if that is unknown."""
    try:
        mounts = read_mounts(proc / "mountinfo")
        groups = os.fsdecode((proc / "cgroup").read_bytes()).split("\n")  # users may choose names of groups, too
    except OSError:
        return None
    place = next((mount.point for mount in mounts if mount.kind == "cgroup2"), None)
    own = next((line.removeprefix("0::/") for line in groups if line.startswith("0::/")), None)
    return None if place is None or own is None else Path(place) / own


def find_group_of_run(*, in_pod: bool) -> Path | None:
    """Return the folder of the control group that this run has for itself: its own, or that of its container.

    None if there is none: on one machine without such groups, other runs and the service are in the group as well.
    """
    group = find_group(Path("/proc/self"))
    return group if group is not None and (in_pod or group.name.startswith(RUN_GROUP)) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Counts:
    """The numbers that Linux has counted in a group since the group was made."""

    #: Times that the group could not get more memory because of its limit.
    refused: int = 0
    #: Processes that were killed to get memory back.
    killed: int = 0


class MemoryWatch:
    """A look at the processes of a control group that Linux killed for want of memory."""

    def __init__(self, group: Path | None, *, since_made: bool = False) -> None:
        """Watch a group, if it is not None, from now on, or since the group was made."""
        self._group = group
        self._before = _Counts() if since_made else _read_counts(group)

    @property
    def is_known(self) -> bool:
        """Whether Linux tells what it counts."""
        return _read_counts(self._group) is not None

    def restart(self) -> None:
        """Forget what was counted so far."""
        self._before = _read_counts(self._group)

    def find_kill(self) -> MemoryKill | None:
        """Return how Linux has killed a process of the group since the last look; None if it has not, or is unknown."""
        before, now = self._before, _read_counts(self._group)
        if before is None or now is None or now.killed <= before.killed:
            return None
        return MemoryKill(limit=_read_limit(self._group) if now.refused > before.refused else None)


def _read_counts(group: Path | None) -> _Counts | None:
    """Return what Linux counts; None if it counts nothing."""
    if group is None:
        return None
    try:
        lines = (group / "memory.events").read_text().splitlines()
        counts = {name: int(number) for name, _, number in (line.partition(" ") for line in lines)}
        return _Counts(refused=counts["oom"], killed=counts["oom_kill"])
    except (OSError, ValueError, KeyError):
        return None


def _read_limit(group: Path | None) -> MiB | None:
    """Return the memory limit of a group; None if it has none."""
    with suppress(OSError, ValueError):
        if group is not None:
            return MiB(int((group / "memory.max").read_text()) // _MEBIBYTE)
    return None
