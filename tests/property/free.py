"""Free room by the judge's own arithmetic: what is free of devices and nodes, and what suspended notebooks have lent.

Nothing here calls the scheduling core (see `arithmetic`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Request, TaskPlacement, Workload

GPU = 1000
#: More of a resource than any node has: it is not counted there.
UNCOUNTED = 10**15


@dataclass(frozen=True, slots=True)
class Free:
    """What is free of each healthy device in milli-GPU, and of each node in processors, memory and tasks."""

    devices: dict[str, int]
    nodes: dict[str, tuple[int, int, int]]

    def take(self, workload: Workload, place: Sequence[TaskPlacement], sign: int = 1) -> None:
        """Take the place of these tasks. Devices and nodes that are not there any more are left out."""
        for task in place:
            request = workload.request_of(task.group)
            for device in task.devices:
                if device in self.devices:
                    self.devices[device] -= sign * request.milli_per_device
            if task.node in self.nodes:
                cpu, memory, tasks = self.nodes[task.node]
                self.nodes[task.node] = (cpu - sign * request.cpu_milli, memory - sign * request.memory, tasks - sign)

    def take_lent(
        self,
        lenders: Iterable[Workload],
        staying: Iterable[tuple[Workload, Sequence[TaskPlacement]]],
        gone: Sequence[Workload] = (),
    ) -> None:
        """Take what suspended notebooks have lent, as far as none of those who stay and could go again uses it."""
        lent, used = Counter[str](), Counter[str]()
        for notebook in lenders:
            lent.update(_milli_of(notebook, notebook.placement))
        for workload, place in staying:
            if _borrows(workload):
                used.update(_milli_of(workload, place))
        for victim in gone:
            if _borrows(victim):
                used.subtract(_milli_of(victim, victim.placement))
        for device in lent.keys() & self.devices.keys():
            self.devices[device] -= max(0, lent[device] - used[device])

    def give_back(self, workload: Workload, place: Sequence[TaskPlacement]) -> None:
        """Undo `take`."""
        self.take(workload, place, sign=-1)

    def has_room(self, node: str, request: Request) -> bool:
        """Whether the node has processors and memory for one more task of this kind."""
        cpu, memory, tasks = self.nodes.get(node, (0, 0, 0))
        return cpu >= request.cpu_milli and memory >= request.memory and tasks > 0

    def without(self, node: str, devices: Sequence[str], request: Request) -> "Free":
        """What is left when one more task takes these devices of the node."""
        cpu, memory, tasks = self.nodes[node]
        left = {device: self.devices[device] - request.milli_per_device for device in devices}
        room = (cpu - request.cpu_milli, memory - request.memory, tasks - 1)
        return Free({**self.devices, **left}, {**self.nodes, node: room})

    def has_all(self, devices: Iterable[str]) -> bool:
        """Whether no more is taken of these devices than is there."""
        return all(self.devices.get(device, 0) >= 0 for device in devices)

    def holds(self) -> bool:
        """Whether nothing is taken that is not there."""
        return min((*self.devices.values(), *(min(room) for room in self.nodes.values())), default=0) >= 0


def _borrows(workload: Workload) -> bool:
    return workload.preemptible and workload.kind is Kind.TRAINING


def _milli_of(workload: Workload, place: Sequence[TaskPlacement]) -> Counter[str]:
    found = Counter[str]()
    for task in place:
        for device in task.devices:
            found[device] += workload.request_of(task.group).milli_per_device
    return found


def staying_at(snapshot: Snapshot) -> list[tuple[Workload, Sequence[TaskPlacement]]]:
    """What has devices and is not stopping, with its places."""
    holding = (w for w in snapshot.workloads if w.holds and w.state not in {State.SUSPENDED, State.STOPPING})
    return [(workload, workload.placement) for workload in holding]


def free_soon(snapshot: Snapshot) -> Free:
    """What is free once everything that is stopping has stopped."""
    counted = [(n.name, (n.cpu_milli, n.memory, n.max_tasks)) for n in snapshot.nodes if not n.closed]
    free = Free(
        {device.id: GPU for node in snapshot.nodes for device in node.devices if device.healthy},
        {name: tuple(UNCOUNTED if has is None else has for has in room) for name, room in counted},
    )
    for workload in snapshot.workloads:
        if workload.state is State.SUSPENDED:  # it keeps its cores and memory
            free.take(workload, [replace(task, devices=()) for task in workload.placement])
        elif workload.holds and workload.state is not State.STOPPING:
            free.take(workload, workload.placement)
    return free


def lenders_to(snapshot: Snapshot, taker: Workload) -> Iterator[Workload]:
    """The suspended notebooks whose devices the taker may not have: they are used again, or it could not go again."""
    borrows = _borrows(taker)
    for workload in snapshot.workloads:
        is_used = workload.activity is not None and workload.activity.busy is True
        if workload.state is State.SUSPENDED and (is_used or not borrows):
            yield workload
