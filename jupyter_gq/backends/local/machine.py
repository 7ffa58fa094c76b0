"""How many CPU cores and how much memory this machine has, as far as this process may use them.

A container sees the whole machine in `/proc`: the limits of its control group, and of those above it, count where they
are smaller. Version 2 of control groups only; where there is none, what the machine has.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from jupyter_gq.domain.amount import ONE_CORE, MiB, MilliCpu

_MEBIBYTE = 2**20
_GROUPS = Path("sys/fs/cgroup")


def cpus(root: Path = Path("/")) -> MilliCpu:
    """Thousandths of a core; `root` is where the files of the system are."""
    found = len(os.sched_getaffinity(0)) * ONE_CORE
    for limit in _limits(root, "cpu.max"):
        quota, _, period = limit.partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            found = min(found, int(quota) * ONE_CORE // int(period))
    return MilliCpu(found)


def memory(root: Path = Path("/")) -> MiB:
    """Return the memory of the machine, or of the smallest control group around this process."""
    found = _total(root)
    for limit in _limits(root, "memory.max"):
        if limit.isdigit():
            found = min(found, int(limit) // _MEBIBYTE)
    return MiB(found)


def _total(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) // 1024
    raise OSError("/proc/meminfo says nothing of MemTotal")


def _limits(root: Path, name: str) -> Iterator[str]:
    """Yield the limits of the control group of this process and of those above it."""
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
            continue  # the root has no limits, and not every controller is on everywhere
