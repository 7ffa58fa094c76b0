"""The CPU cores and the memory of this machine that this process may use.

In a container `/proc` shows the whole machine, so the limits of the process's control group and of those above it count
if they are smaller. Only control groups of version 2 are read; without them the whole machine counts.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from jupyter_gq.domain.amount import ONE_CORE, MiB, MilliCpu

_MEBIBYTE = 2**20
_GROUPS = Path("sys/fs/cgroup")


def count_cpus(root: Path = Path("/")) -> MilliCpu:
    """Return the CPU cores that this process may use, in thousandths of a core; `root` is the root of the file system.

    This is the smallest of the cores of its affinity and the limits of its control groups.
    """
    found = len(os.sched_getaffinity(0)) * ONE_CORE
    for limit in _read_limits(root, "cpu.max"):
        quota, _, period = limit.partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            found = min(found, int(quota) * ONE_CORE // int(period))
    return MilliCpu(found)


def measure_memory(root: Path = Path("/")) -> MiB:
    """Return the memory of the machine, or the smallest limit of a control group of this process, in MiB."""
    found = _read_total_memory(root)
    for limit in _read_limits(root, "memory.max"):
        if limit.isdigit():
            found = min(found, int(limit) // _MEBIBYTE)
    return MiB(found)


def _read_total_memory(root: Path) -> int:
    """Return the memory of the machine in MiB."""
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) // 1024
    raise OSError("/proc/meminfo says nothing of MemTotal")


def _read_limits(root: Path, name: str) -> Iterator[str]:
    """Yield the content of the file `name` of this process's control group and of each group above it."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
    if own is None:
        return
    folder = root / _GROUPS / own
    for group in (folder, *folder.parents):
        if group == (root / _GROUPS).parent:
            return
        try:
            yield (group / name).read_text().strip()
        except OSError:
            continue  # the root group has no limits, and a controller may be off in a group
