"""Control groups of version 2 for runs, on machines that let the service make groups below its own.

Rules
-----
Complete: a process cannot leave its group without the rights of the service. So a group shows every process of a run,
    even one that has killed its supervisor. If no group can be made, `members` finds the processes by other means.
Limits: a group limits its run as the container of a pod would be: memory to what the job requests, without swap; CPU by
    weight, in proportion to the request; and the number of processes. Memory and CPU that are not requested have no
    limit.
Delegation: Linux limits groups only below a group without processes. If the service's own group was delegated to it,
    the service moves the processes of that group, its own among them, one level down, and never those of other groups.

See docs/decisions/0103-limit-runs-by-control-groups.md.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_gq.devices.linux.control_group import find_group

log = logging.getLogger(__name__)

_PROC = Path("/proc/self")
_PROCESSES, _CONTROL = "cgroup.procs", "cgroup.subtree_control"
#: What a group may limit.
_CONTROLLERS = ("cpu", "memory", "pids")
#: Name of the group into which the processes of a delegated group are moved.
LEAF = "jupyter-gq-hub"
#: Attributes by which systemd marks a delegated group.
_MARKS = ("user.delegate", "trusted.delegate")
_MEBIBYTE = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class ParentGroup:
    """The control group below which runs get groups of their own."""

    folder: Path
    #: What the groups below it can limit: "cpu", "memory", "pids".
    controllers: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunLimits:
    """The limits of a run, over all of its tasks; 0 = no limit."""

    cpu_milli: int = 0
    memory_mib: int = 0
    processes: int = 0

    def times(self, tasks: int) -> "RunLimits":
        """Return the limits of so many tasks of which each has these."""
        return RunLimits(
            cpu_milli=tasks * self.cpu_milli, memory_mib=tasks * self.memory_mib, processes=tasks * self.processes
        )

    def files(self, controllers: frozenset[str]) -> Mapping[str, str]:
        """Return the contents of the files of a control group that set these limits, by the name of the file."""
        found: dict[str, str] = {}
        if "memory" in controllers and self.memory_mib:
            found |= {"memory.max": str(self.memory_mib * _MEBIBYTE), "memory.swap.max": "0"}
        if "cpu" in controllers and self.cpu_milli:
            found["cpu.weight"] = str(_weigh(self.cpu_milli))
        if "pids" in controllers and self.processes:
            found["pids.max"] = str(self.processes)
        return found


def find_own_group(proc: Path = _PROC) -> Path | None:
    """Return the folder of the service's control group if this process may make groups in it; None otherwise.

    `proc` is the folder of this process in /proc.
    """
    folder = find_group(proc)
    if folder is None:
        return None
    return folder if all(os.access(each, os.W_OK) for each in (folder, folder / _PROCESSES)) else None


def find_parent_folder(own: Path) -> Path:
    """Return the folder of the group below which runs get groups; `own` is that of the service."""
    return own.parent if own.name == LEAF else own


def prepare_parent(own: Path | None) -> ParentGroup | None:
    """Return the group below which runs get groups, with limits if the kernel and the delegation allow them.

    `own` is the group of the service, or None. Processes of a delegated group are moved if that is needed.
    """
    if own is None:
        return None
    folder = find_parent_folder(own)
    controllers = _enable(folder)
    if not controllers and _is_delegated(folder):
        _move_processes(folder)
        controllers = _enable(folder)
    return ParentGroup(folder=folder, controllers=controllers)


def enable_device_memory(parent: ParentGroup | None) -> None:
    """Let the groups below `parent` limit the memory of devices, if the kernel can and the delegation allows it.

    A driver that counts without the kernel does not need that.
    """
    if parent is not None:
        with suppress(OSError):
            (parent.folder / _CONTROL).write_text("+dmem\n")


def describe_limits(parent: ParentGroup | None) -> str:
    """Return one sentence for administrators on what keeps jobs within their requests."""
    missing = [each for each in _CONTROLLERS if parent is None or each not in parent.controllers]
    if not missing:
        return "Control groups limit each job's memory and number of processes, and weigh its CPU."
    what = {"cpu": "CPU", "memory": "memory", "pids": "number of processes"}
    return (
        f"Nothing limits the {', '.join(what[each] for each in missing)} of jobs: the service has no control groups of "
        "version 2 for that. With systemd, set Delegate=yes in the unit of the Hub."
    )


def make_group(parent: ParentGroup | None, name: str, limits: RunLimits) -> str:
    """Make the control group of a run, with its limits; return its path, or "" if there is none or it is refused.

    A limit that the kernel refuses is logged.
    """
    if parent is None:
        return ""
    group = parent.folder / name
    try:
        group.mkdir(exist_ok=True)
    except OSError:
        return ""
    set_limits(parent, str(group), limits)
    return str(group)


def set_limits(parent: ParentGroup | None, group: str, limits: RunLimits) -> None:
    """Set the limits of a control group below `parent`; do nothing if there is none. A refused limit is logged."""
    if parent is None or not group:
        return
    for file, value in limits.files(parent.controllers).items():
        try:
            (Path(group) / file).write_text(f"{value}\n")
        except OSError as error:
            log.warning("%s of the control group %s could not be set to %s: %s", file, group, value, error.strerror)


def add_process(group: str, pid: int) -> None:
    """Move a process into a control group, with whatever it will start.

    Do nothing if there is no group, if the process has ended, or if the right is missing.
    """
    if group:
        with suppress(OSError):  # the process has ended, or the right was taken away
            (Path(group) / _PROCESSES).write_text(f"{pid}\n")


def pids_of(group: str) -> set[int]:
    """Return the ids of the processes of a control group; none if there is no group, or if it cannot be read."""
    return (read_pids(group) or set()) if group else set()


def read_pids(group: str) -> set[int] | None:
    """Return the ids of the processes of a control group; none if it has been removed, and None if it is not read."""
    try:
        return {int(pid) for pid in (Path(group) / _PROCESSES).read_text().split()}
    except FileNotFoundError:
        return set()
    except OSError:
        return None


def kill_group(group: str) -> None:
    """Kill all processes of a control group at once, so that none can start another one meanwhile.

    Does nothing if there is no group, or on a Linux before 5.14.
    """
    if group:
        with suppress(OSError):
            (Path(group) / "cgroup.kill").write_text("1\n")


def freeze_group(group: str, frozen: bool) -> None:
    """Freeze the processes of a control group, with whatever they start, or let them go on if `frozen` is False.

    A frozen process goes on with no signal, and can be killed. Do nothing if there is no group, or on a Linux before
    5.2.
    """
    file = Path(group) / "cgroup.freeze"
    if group and file.exists():
        with suppress(OSError):  # the group is being removed, or the right was taken away
            file.write_text(f"{int(frozen)}\n")


def remove_group(group: str) -> None:
    """Remove the control group of a run that has ended; do nothing if there is none, or if a process is left in it."""
    if group:
        with suppress(OSError):
            Path(group).rmdir()


def _enable(folder: Path) -> frozenset[str]:
    """Let the groups below a group have limits, as far as the kernel allows; return what they can limit."""
    try:
        offered = (folder / "cgroup.controllers").read_text().split()
        for controller in set(_CONTROLLERS).intersection(offered):
            with suppress(OSError):  # the group has processes, or the right is missing
                (folder / _CONTROL).write_text(f"+{controller}\n")
        return frozenset(_CONTROLLERS).intersection((folder / _CONTROL).read_text().split())
    except OSError:
        return frozenset()


def _is_delegated(folder: Path) -> bool:
    """Return whether a group is the service's to arrange: marked by systemd, or the outermost one of a container."""
    for mark in _MARKS:
        with suppress(OSError):
            if os.getxattr(folder, mark) == b"1":
                return True
    # The root of the whole machine has no type, and its processes are not the service's.
    return (folder / "cgroup.type").exists() and not (folder.parent / _PROCESSES).exists()


def _move_processes(folder: Path) -> None:
    """Move all processes of a group into the group `LEAF` below it; those that cannot be moved stay."""
    leaf = folder / LEAF
    try:
        leaf.mkdir(exist_ok=True)
        pids = (folder / _PROCESSES).read_text().split()
    except OSError as error:
        log.warning("the processes of the control group %s could not be moved: %s", folder, error.strerror)
        return
    for pid in pids:
        add_process(str(leaf), int(pid))
    log.info("%d processes of the control group %s were moved to %s", len(pids), folder, leaf.name)


def _weigh(cpu_milli: int) -> int:
    """Return the weight of a request for CPU, as Kubernetes computes it: 1 to 10000, and about 39 for one core."""
    shares = max(2, cpu_milli * 1024 // 1000)
    return max(1, min(10_000, 1 + (shares - 2) * 9999 // 262_142))
