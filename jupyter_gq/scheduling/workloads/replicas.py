"""Replicas: the tasks that an elastic workload can lose or get while the rest of it goes on.

Rules
-----
1. Form. A replica is written as a workload that has nothing but those tasks, so every rule of the core applies to it.
2. Surplus replicas. What a workload holds above its smallest gang is one replica for each task, by group. The first
   tasks of a group are its smallest gang, and the last task goes first. The smallest gang keeps the id of the workload:
   if it goes, everything goes.
3. Wanted replicas. What a workload could still have is one replica for each task. What it lacks of its smallest gang is
   one replica, all or nothing.
4. Rigid work. A workload whose backend can neither add nor take tasks has no replicas once it has started.

See docs/decisions/0013-grow-and-shrink-elastic-jobs-by-task.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Leaving, TaskGroup, TaskPlacement, Workload

from . import gang


@dataclass(frozen=True, kw_only=True, slots=True)
class Replica(Workload):
    """A replica: some tasks of a workload, under an id of their own."""

    #: The workload that it belongs to, as the snapshot has it.
    whole: Workload
    #: Place among the replicas of the workload: the highest goes first and comes last.
    index: int
    #: The tasks belong to the smallest gang, which the workload has lost in part.
    vital: bool = False


def whole_workload(workload: Workload) -> Workload:
    """Return the workload that a replica belongs to; any other workload is returned unchanged."""
    return workload.whole if isinstance(workload, Replica) else workload


def is_surplus(workload: Workload) -> bool:
    """Tell whether this is a replica above the smallest gang of its workload."""
    return isinstance(workload, Replica) and not workload.vital


def split_replicas(workload: Workload) -> tuple[Workload, list[Replica]]:
    """Return the smallest gang, under the workload's own id, and the surplus replicas that the workload holds.

    The replica that goes first is the last one of the list. A workload that is not elastic is returned whole.
    """
    surplus = set(_above_smallest(workload)) if workload.elastic else None
    if not surplus:
        return workload, []
    kept = tuple(task for index, task in enumerate(workload.placement) if index not in surplus)
    replicas = [
        _replica(workload, f"{workload.id}~{index}", workload.placement[index].group, index, state=workload.state)
        for index in sorted(surplus)
    ]
    placed = [replace(replica, placement=(workload.placement[replica.index],)) for replica in replicas]
    return replace(workload, placement=kept), placed


def stopping_replicas(workload: Workload) -> Iterator[Replica]:
    """Yield, as replicas, the tasks that were told to stop while the workload goes on."""
    for index, leaving in enumerate(workload.leaving):
        yield _stopping_replica(workload, leaving, index)


def is_short(workload: Workload) -> bool:
    """Tell whether the workload holds devices, but fewer tasks than its smallest gang in some task group."""
    return workload.holds and any(_missing(workload))


def wanted_replicas(workload: Workload) -> list[Replica]:
    """Return as replicas what the workload could still get.

    If it lacks tasks of its smallest gang, that is one replica for all of them. Otherwise it is one replica for each
    task above its placement; none while tasks of the workload are stopping.
    """
    if is_short(workload):
        return [_repair(workload)]
    if workload.leaving:  # a workload does not grow at one end while it shrinks at the other
        return []
    found = []
    for group in gang.groups_of(workload):
        has = sum(task.group == group.name for task in workload.placement)
        found += [(number, group.name) for number in range(has, group.tasks)]
    return [
        _replica(workload, f"{workload.id}+{index}", name, index)
        for index, (_, name) in enumerate(sorted(found, key=lambda pair: pair[0]))
    ]


def without(workload: Workload, placement: tuple[TaskPlacement, ...]) -> Workload:
    """Return the workload without these tasks of its placement; among equal places the last one goes first.

    Raises `ValueError` if the workload does not hold one of the tasks.
    """
    left = list(workload.placement)
    for task in placement:
        position = len(left) - 1 - left[::-1].index(task)
        del left[position]
    return replace(workload, placement=tuple(left))


def _above_smallest(workload: Workload) -> Iterator[int]:
    """Yield the positions in the placement of the tasks above the min replicas of their groups."""
    seen: dict[str, int] = {}
    least = {group.name: group.min_members for group in gang.groups_of(workload)}
    for index, task in enumerate(workload.placement):
        seen[task.group] = seen.get(task.group, 0) + 1
        if seen[task.group] > least.get(task.group, 0):
            yield index


def _missing(workload: Workload) -> Iterator[int]:
    """Yield, for each group, how many tasks of its min replicas are missing; 0 if none."""
    for group in gang.groups_of(workload):
        yield max(0, group.min_members - sum(task.group == group.name for task in workload.placement))


def _replica(workload: Workload, name: str, group: str, index: int, state: State = State.PENDING) -> Replica:
    """Return one task of that group as a replica without a placement, under the id `name`."""
    alone = replace(
        workload,
        id=name,
        request=workload.request_of(group),
        tasks=1,
        min_members=1,
        groups=_only_group(workload, group, 1),
        state=state,
        placement=(),
        leaving=(),
        stop=None,
    )
    return _as_replica(alone, workload, index)


def _repair(workload: Workload) -> Replica:
    """Return all tasks that the workload lacks of its smallest gang as one vital, pending replica."""
    missing = dict(zip((group.name for group in gang.groups_of(workload)), _missing(workload), strict=True))
    count = sum(missing.values())
    groups = tuple(
        replace(group, tasks=missing.get(group.name, 0), min_members=missing.get(group.name, 0))
        for group in workload.groups
    )
    lacking = replace(
        workload,
        id=f"{workload.id}+",
        tasks=count,
        min_members=count,
        groups=groups,
        state=State.PENDING,
        placement=(),
        leaving=(),
        stop=None,
    )
    return _as_replica(lacking, workload, 0, vital=True)


def _stopping_replica(workload: Workload, leaving: Leaving, index: int) -> Replica:
    replica = _replica(workload, f"{workload.id}-{index}", leaving.task.group, index, state=State.STOPPING)
    return replace(replica, placement=(leaving.task,), stop=leaving.stop)


def _only_group(workload: Workload, group: str, tasks: int) -> tuple[TaskGroup, ...]:
    """Return the workload's groups with `tasks` tasks in the named group and none in the others."""
    return tuple(
        replace(each, tasks=tasks if each.name == group else 0, min_members=tasks if each.name == group else 0)
        for each in workload.groups
    )


def _as_replica(task: Workload, whole: Workload, index: int, *, vital: bool = False) -> Replica:
    """Return a replica of `whole` that has the fields of the workload `task`."""
    same = {field.name: getattr(task, field.name) for field in fields(Workload)}
    return Replica(**same, whole=whole, index=index, vital=vital)
