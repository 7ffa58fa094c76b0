"""The groups of a table's job: its tree of sub-groups, and tasks of one group that ask for different amounts.

Rules
-----
1. A job of one group without a place of its own, whose tasks all ask for the same, has no groups with us.
2. Where tasks of one group differ, those that ask for the same are a group of ours. What the group needs at least are
   its first tasks in their order.
3. A task that has ended does not count; but what is needed at least is needed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jupyter_gq.domain.workload import Request, TaskGroup, TopologyConstraint

from .verdict import Case

#: The label of a node whose value a task's affinity names.
AFFINITY = "kai.scheduler/type"
ENDED = frozenset({"Failed", "Succeeded"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Grouped:
    """The groups of a job (none: its tasks are alike), and the name of each task's group."""

    groups: tuple[TaskGroup, ...]
    of_task: dict[str, str]
    #: What its first task asks for.
    request: Request
    topology: TopologyConstraint | None


def grouped(job: Case, request: Request) -> Grouped:
    """Sort the tasks of a job, each of which asks for `request` unless it says otherwise itself."""
    tree = job.get("subgroup_tree") or {}
    holders, sets = _unfold(tree) if tree else ([], [])
    if not sets:
        sets = [({"name": "default", "min_available": job["min_available"]}, None)]
    of_task: dict[str, str] = {}
    groups = list(holders)
    for podset, parent in sets:
        members = [task for task in job["tasks"] if len(sets) == 1 or task.get("subgroup", "") == podset["name"]]
        groups += _like(podset, parent, members, request, of_task)
    first = _request_of(job["tasks"][0], request) if job["tasks"] else request
    topology = topology_of(tree.get("topology"))
    if len(groups) == 1 and groups[0].topology is None:
        return Grouped(groups=(), of_task=dict.fromkeys(of_task, ""), request=first, topology=topology)
    return Grouped(groups=tuple(groups), of_task=of_task, request=first, topology=topology)


def topology_of(raw: Case | None) -> TopologyConstraint | None:
    """A table says "" for a level that it does not ask for."""
    if not raw or not (raw.get("required") or raw.get("preferred")):
        return None
    return TopologyConstraint(
        topology=raw["topology"], required=raw.get("required") or None, preferred=raw.get("preferred") or None
    )


def of_leaving(groups: tuple[TaskGroup, ...], names: Sequence[str]) -> tuple[TaskGroup, ...]:
    """The same groups with as many tasks as there are names of each."""
    return tuple(replace(group, tasks=names.count(group.name), min_members=0) for group in groups)


def _unfold(tree: Case) -> tuple[list[TaskGroup], list[tuple[Case, str | None]]]:
    """Groups that only hold others together, and the sets of tasks with the group that they are in."""
    holders: list[TaskGroup] = []
    sets: list[tuple[Case, str | None]] = [(podset, None) for podset in tree.get("podsets", [])]
    for below, parent in _below(tree, None):
        topology = topology_of(below.get("topology"))
        holder = TaskGroup(
            name=below["name"], request=Request(devices=0), tasks=0, min_members=0, parent=parent, topology=topology
        )
        holders.append(holder)
        sets += [(podset, below["name"]) for podset in below.get("podsets", [])]
    return holders, sets


def _below(tree: Case, parent: str | None) -> Iterator[tuple[Case, str | None]]:
    for below in tree.get("subgroups", []):
        yield below, parent
        yield from _below(below, below["name"])


def _like(
    podset: Case, parent: str | None, members: Sequence[Case], request: Request, of_task: dict[str, str]
) -> Iterator[TaskGroup]:
    """Rule 2 for one set of tasks; notes the group of each task."""
    least = int(podset["min_available"])
    there = [task for task in members if task["state"] not in ENDED]
    there.sort(key=lambda task: -int(task.get("order_priority", 0)))
    requests = list(dict.fromkeys(_request_of(task, request) for task in members)) or [request]
    for number, each in enumerate(requests):
        name = podset["name"] if len(requests) == 1 else f"{podset['name']}/{number}"
        like = [task for task in there if _request_of(task, request) == each]
        of_task |= {task["name"]: name for task in members if _request_of(task, request) == each}
        needed = sum(_request_of(task, request) == each for task in there[:least])
        if len(requests) == 1:
            needed = least
        yield TaskGroup(
            name=name,
            request=each,
            tasks=max(len(like), needed),
            min_members=needed,
            parent=parent,
            topology=topology_of(podset.get("topology")),
        )


def _request_of(task: Case, request: Request) -> Request:
    labels = tuple((AFFINITY, value) for value in task.get("node_affinity", ()))
    devices = int(task["gpus"]) if "gpus" in task else request.devices
    return replace(request, devices=devices, node_labels=labels)
