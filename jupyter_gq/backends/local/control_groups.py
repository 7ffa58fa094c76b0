"""Control groups of version 2 for runs, on machines that let the service make groups below its own.

A process cannot leave its group without the rights of the service. So a group shows every process of a run, even one
that has killed its supervisor. Without such a right, `members` knows the processes by other means.
"""

import os
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc/self")
_PROCESSES = "cgroup.procs"


def find_own_group(proc: Path = _PROC) -> Path | None:
    """Return the folder of the service's control group if this process may make groups in it; None otherwise.

    `proc` is the folder of this process in /proc.
    """
    try:
        mounts = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
        groups = (proc / "cgroup").read_text().splitlines()
    except OSError:
        return None
    # A line of mountinfo: id, parent, device, root, place, options, ..., "-", type, source, options.
    place = next((fields[4] for fields in mounts if fields[fields.index("-") + 1] == "cgroup2"), None)
    own = next((line.removeprefix("0::/") for line in groups if line.startswith("0::/")), None)
    if place is None or own is None:
        return None
    folder = Path(place) / own
    return folder if all(os.access(each, os.W_OK) for each in (folder, folder / _PROCESSES)) else None


def make_group(parent: Path | None, name: str) -> str:
    """Make the control group of a run below `parent`; return its path, or "" if there is none or it is refused."""
    if parent is None:
        return ""
    group = parent / name
    try:
        group.mkdir(exist_ok=True)
    except OSError:
        return ""
    return str(group)


def add_process(group: str, pid: int) -> None:
    """Move a process into a control group, with whatever it will start.

    Do nothing if there is no group, if the process has ended, or if the right is missing.
    """
    if group:
        with suppress(OSError):  # the process has ended, or the right was taken away
            (Path(group) / _PROCESSES).write_text(f"{pid}\n")


def pids_of(group: str) -> set[int]:
    """Return the ids of the processes of a control group; none if there is no group, or if it cannot be read."""
    if not group:
        return set()
    try:
        return {int(pid) for pid in (Path(group) / _PROCESSES).read_text().split()}
    except OSError:
        return set()


def kill_group(group: str) -> None:
    """Kill all processes of a control group at once, so that none can start another one meanwhile.

    Does nothing if there is no group, or on a Linux before 5.14.
    """
    if group:
        with suppress(OSError):
            (Path(group) / "cgroup.kill").write_text("1\n")


def remove_group(group: str) -> None:
    """Remove the control group of a run that has ended; do nothing if there is none, or if a process is left in it."""
    if group:
        with suppress(OSError):
            Path(group).rmdir()
