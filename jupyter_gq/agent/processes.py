"""The processes of a node by the pod that they belong to, as /proc shows them at one moment.

Rules
-----
- Unreadable means no pod: a process that ends meanwhile, or that may not be read, belongs to no pod.
- No process means unknown, not idle: without `hostPID` the agent sees no process of any pod.
- Main process: what a container was started with. If that is only an init or a shell, what it started first counts too.
"""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from jupyter_gq.devices.linux.processes import ProcessId, identify, read_proc_file, read_process

#: A function that returns the uid of a process's pod from its folder in /proc; None if the process is in no pod.
PodFinder = Callable[[str], str | None]

#: The environment variable that names the pod if a kubelet runs pods without cgroups.
POD_VARIABLE = "JUPYTER_GQ_POD_UID"
#: Names of programs that only start another one and wait for its end, as the kernel keeps names.
_WRAPPERS = frozenset(
    {"bash", "catatonit", "dash", "docker-init", "dumb-init", "s6-svscan", "sh", "start.sh", "tini", "tini-static"}
)
#: Bytes; the owner of a process chooses the size of its environment.
_MOST_ENVIRONMENT = 256 * 1024
#: Bytes; a cgroup of version 1 has a dozen lines.
_MOST_CGROUP = 64 * 1024
#: A segment of a cgroup's path. With systemd `kubepods-burstable-pod<uid>.slice`, its dashes written as underscores;
#: with cgroupfs `pod<uid>`. The uid of a static pod is a hash without dashes.
_POD = re.compile(
    r"(?:^|[-/])pod([0-9a-f]{8}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{12})(?:\.slice)?(?:/|$)"
)


def parse_pod_of_cgroup(text: str) -> str | None:
    """Return the uid of the pod in the content of a `/proc/<pid>/cgroup`, of version 1 or 2; None if there is none."""
    for line in text.splitlines():
        found = _POD.search(line.split(":", 2)[-1])
        if found is not None:
            return found[1].replace("_", "-")
    return None


def parse_pod_of_environment(block: bytes) -> str | None:
    """Return the uid of the pod in the content of a `/proc/<pid>/environ`; None if there is none."""
    prefix = f"{POD_VARIABLE}=".encode()
    if prefix not in block:  # most processes of a node are in no pod
        return None
    for entry in block.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace") or None
    return None


def find_pod_by_cgroup(process: str) -> str | None:
    """Return the uid of a process's pod by its cgroup, which a process cannot leave; None if the process is in no pod.

    Raises `OSError` if the process cannot be read.
    """
    return parse_pod_of_cgroup(read_proc_file(f"{process}/cgroup", _MOST_CGROUP).decode(errors="replace"))


def find_pod_by_environment(process: str) -> str | None:
    """Return the uid of the pod that a process's environment names; None if there is none.

    Used for kubelets that run pods as plain processes. Raises `OSError` if the process cannot be read.
    """
    return parse_pod_of_environment(read_proc_file(f"{process}/environ", _MOST_ENVIRONMENT))


class Processes:
    """The processes below one /proc."""

    def __init__(self, proc: Path, find_pod: PodFinder) -> None:
        self._proc, self._find_pod = proc, find_pod

    def by_pod(self, uids: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Return the process ids of each of these pods, sorted; pods without a visible process are left out."""
        with suppress(OSError):
            return self.list_by_pod(uids)
        return {}

    def list_by_pod(self, uids: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Return what `by_pod` returns; raise `OSError` if the processes cannot be listed, so that all are unknown."""
        found: dict[str, list[int]] = {}
        wanted = frozenset(uids)
        for pid in self._list_pids() if wanted else ():
            with suppress(OSError):
                pod = self._find_pod(f"{self._proc}/{pid}")
                if pod in wanted and pod is not None:
                    found.setdefault(pod, []).append(pid)
        return {pod: tuple(sorted(pids)) for pod, pids in found.items()}

    def list_pod(self, uid: str) -> tuple[int, ...]:
        """Return the process ids of one pod, sorted; none if no process of it is visible."""
        return self.by_pod([uid]).get(uid, ())

    def without_entry_processes(self, pids: Sequence[int]) -> tuple[int, ...]:
        """Return these processes of one pod without those that have children and whose parent is outside of the pod.

        Such entry processes are what the pod was started with: a notebook server, a runner. A simulated device takes
        CPU use as device use, and the CPU use of a server that answers an open page must not count.
        """
        parents = {pid: self._parent(pid) for pid in pids}
        having_children = set(parents.values())
        return tuple(pid for pid in pids if parents[pid] in parents or pid not in having_children)

    def identify(self, pid: int) -> ProcessId | None:
        """Return the identity of a living process; None if there is none."""
        return identify(pid, self._proc)

    def runs_program(self, name: str) -> bool:
        """Return whether a living process has this name, which is what the kernel keeps: at most 15 bytes."""
        with suppress(OSError):
            found = (read_process(pid, self._proc) for pid in self._list_pids())
            return any(process is not None and not process.dead and process.name == name for process in found)
        return False

    def is_in_pod(self, pid: int, uid: str) -> bool:
        """Return whether a process belongs to this pod now; False if it cannot be read."""
        with suppress(OSError):
            return self._find_pod(f"{self._proc}/{pid}") == uid
        return False

    def find_main_processes(self, uid: str) -> frozenset[int]:
        """Return the ids of the main processes of a pod's containers; what they have started is not among them.

        A main process has a parent outside of the pod. Below an init or a shell, the oldest child is added: that is the
        notebook server or the runner.
        """
        found = {pid: read_process(pid, self._proc) for pid in self.list_pod(uid)}
        members = {pid: process for pid, process in found.items() if process is not None}
        waiting = [process for process in members.values() if process.parent not in members]
        main: set[int] = set()
        while waiting:
            process = waiting.pop()
            main.add(process.pid)
            children = [(each.ticks, each.pid) for each in members.values() if each.parent == process.pid]
            if process.name in _WRAPPERS and children:
                waiting.append(members[min(children)[1]])
        return frozenset(main)

    def _list_pids(self) -> list[int]:
        """Return the ids of all processes. Raises `OSError` if they cannot be listed."""
        return [int(name) for name in os.listdir(self._proc) if name.isdecimal()]

    def _parent(self, pid: int) -> int | None:
        """Return the id of a process's parent; None if the process is gone."""
        found = read_process(pid, self._proc)
        return None if found is None else found.parent
