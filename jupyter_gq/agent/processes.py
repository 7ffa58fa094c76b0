"""Which processes of the node belong to which pod, as /proc shows it at one moment.

Rules
-----
1. A process that ends while it is looked at, or may not be looked at, belongs to no pod.
2. A pod without a process that can be seen is unknown, not idle: without `hostPID` every pod looks like that.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

#: Tells the uid of the pod that a process belongs to, from its folder in /proc; None when it belongs to none.
PodOf = Callable[[Path], str | None]

#: The mark that stands in for cgroups where pods have none.
POD_VARIABLE = "JUPYTER_GQ_POD_UID"
#: Bytes; the owner of a process chooses the size of its environment.
_MOST_ENVIRONMENT = 256 * 1024
#: A segment of a cgroup's path. With systemd `kubepods-burstable-pod<uid>.slice`, its dashes written as underscores;
#: with cgroupfs `pod<uid>`. The uid of a static pod is a hash without dashes.
_POD = re.compile(
    r"(?:^|[-/])pod([0-9a-f]{8}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{12})(?:\.slice)?(?:/|$)"
)


def pod_in_cgroup(text: str) -> str | None:
    """Return the uid of the pod in the text of a `/proc/<pid>/cgroup`, of version 1 or 2."""
    for line in text.splitlines():
        found = _POD.search(line.split(":", 2)[-1])
        if found is not None:
            return found[1].replace("_", "-")
    return None


def pod_in_environment(block: bytes) -> str | None:
    """Return the uid of the pod in a `/proc/<pid>/environ`."""
    prefix = f"{POD_VARIABLE}=".encode()
    for entry in block.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace") or None
    return None


def by_cgroup(process: Path) -> str | None:
    """Return the pod by the cgroup of the process, which no process can leave."""
    return pod_in_cgroup((process / "cgroup").read_text(errors="replace"))


def by_environment(process: Path) -> str | None:
    """Return the pod by the environment, for kubelets that run pods as plain processes."""
    with (process / "environ").open("rb") as file:
        return pod_in_environment(file.read(_MOST_ENVIRONMENT))


class Processes:
    """The processes below this /proc."""

    def __init__(self, proc: Path, pod_of: PodOf) -> None:
        self._proc, self._pod_of = proc, pod_of

    def of_pods(self, uids: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Return the processes of each of these pods, in order; a pod without a visible process is left out."""
        found: dict[str, list[int]] = {}
        wanted = frozenset(uids)
        for pid in self._pids() if wanted else ():
            with suppress(OSError):
                pod = self._pod_of(self._proc / str(pid))
                if pod in wanted and pod is not None:
                    found.setdefault(pod, []).append(pid)
        return {pod: tuple(sorted(pids)) for pod, pids in found.items()}

    def without_entry(self, pids: Sequence[int]) -> tuple[int, ...]:
        """Return these processes of one pod without those that came from outside it and have children here.

        They are what the pod was started with: a notebook server, a runner. Where use is guessed from the CPU, what
        they do for an open page would count.
        """
        parents = {pid: self._parent(pid) for pid in pids}
        having_children = set(parents.values())
        return tuple(pid for pid in pids if parents[pid] in parents or pid not in having_children)

    def _pids(self) -> Iterator[int]:
        with suppress(OSError):
            for entry in self._proc.iterdir():
                if entry.name.isdecimal():
                    yield int(entry.name)

    def _parent(self, pid: int) -> int | None:
        with suppress(OSError, ValueError, IndexError):
            # The name of a program may hold spaces and brackets; what follows the last bracket is in columns.
            return int((self._proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        return None
