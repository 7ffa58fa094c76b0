"""Parts: what an elastic workload can lose or get while the rest of it goes on.

Rules
-----
1. A part is written as a workload that has nothing but those tasks, so every rule of the core applies to it.
2. What it holds above its smallest gang are parts of one task each, by group; the first tasks of a group are its
   smallest gang, the last one goes first. The smallest gang keeps the id of the workload: when it goes, all goes.
3. What it could still have are parts of one task each. What it lacks of its smallest gang is one part, all or nothing.
4. A workload whose backend can neither add nor take tasks has no parts once it has started.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Leaving, TaskGroup, TaskPlacement, Workload

from . import gang


@dataclass(frozen=True, kw_only=True, slots=True)
class Replica(Workload):
    """Some tasks of a workload. Its id is its own."""

    #: The workload that it is a part of, as the snapshot has it.
    whole: Workload
    #: Its place among those of its kind: the higher goes first and comes last.
    index: int
    #: It belongs to the smallest gang, which the workload has lost in part.
    vital: bool = False


def whole_workload(workload: Workload) -> Workload:
    """The workload that it is a part of; itself if it is no part."""
    return workload.whole if isinstance(workload, Replica) else workload


def is_surplus(workload: Workload) -> bool:
    """One task more than its workload needs."""
    return isinstance(workload, Replica) and not workload.vital


def split_replicas(workload: Workload) -> tuple[Workload, list[Replica]]:
    """Its smallest gang, under its own id, and what it holds above it; the part that goes first is the last one."""
    spare = set(_above_smallest(workload)) if workload.elastic else None
    if not spare:
        return workload, []
    kept = tuple(task for index, task in enumerate(workload.placement) if index not in spare)
    parts = [
        _replica(workload, f"{workload.id}~{index}", workload.placement[index].group, index, state=workload.state)
        for index in sorted(spare)
    ]
    placed = [replace(part, placement=(workload.placement[part.index],)) for part in parts]
    return replace(workload, placement=kept), placed


def stopping_replicas(workload: Workload) -> Iterator[Replica]:
    """Its tasks that were told to stop while it goes on."""
    for index, leaving in enumerate(workload.leaving):
        yield _stopping_replica(workload, leaving, index)


def is_short(workload: Workload) -> bool:
    """It holds devices, but less than its smallest gang."""
    return workload.holds and any(_missing(workload))


def wanted_replicas(workload: Workload, *, start: int = 0) -> list[Replica]:
    """What it could still have: what it lacks of its smallest gang, or else each task that it was not given."""
    if is_short(workload):
        return [_repair(workload)]
    if workload.leaving:  # it does not grow at one end while it shrinks at the other
        return []
    found = []
    for group in gang.groups_of(workload):
        has = sum(task.group == group.name for task in workload.placement)
        found += [(number, group.name) for number in range(has, group.tasks)]
    return [
        _replica(workload, f"{workload.id}+{index}", name, index)
        for index, (_, name) in enumerate(sorted(found, key=lambda pair: pair[0]), start=start)
    ]


def without(workload: Workload, placement: tuple[TaskPlacement, ...]) -> Workload:
    """The workload once it has given these tasks up, the last ones of equal place first."""
    left = list(workload.placement)
    for task in placement:
        position = len(left) - 1 - left[::-1].index(task)
        del left[position]
    return replace(workload, placement=tuple(left))


def _above_smallest(workload: Workload) -> Iterator[int]:
    """Positions in its placement of the tasks that its smallest gang does not need."""
    seen: dict[str, int] = {}
    least = {group.name: group.min_members for group in gang.groups_of(workload)}
    for index, task in enumerate(workload.placement):
        seen[task.group] = seen.get(task.group, 0) + 1
        if seen[task.group] > least.get(task.group, 0):
            yield index


def _missing(workload: Workload) -> Iterator[int]:
    """By group, how many tasks of its smallest gang it lacks."""
    for group in gang.groups_of(workload):
        yield max(0, group.min_members - sum(task.group == group.name for task in workload.placement))


def _replica(workload: Workload, name: str, group: str, index: int, state: State = State.PENDING) -> Replica:
    """One task of that group."""
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
    return Replica(**_fields(alone), whole=workload, index=index)


def _repair(workload: Workload) -> Replica:
    """All that it lacks of its smallest gang."""
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
    return Replica(**_fields(lacking), whole=workload, index=0, vital=True)


def _stopping_replica(workload: Workload, leaving: Leaving, index: int) -> Replica:
    part = _replica(workload, f"{workload.id}-{index}", leaving.task.group, index, state=State.STOPPING)
    return replace(part, placement=(leaving.task,), stop=leaving.stop)


def _only_group(workload: Workload, group: str, tasks: int) -> tuple[TaskGroup, ...]:
    """Its groups, of which only this one has tasks."""
    return tuple(
        replace(each, tasks=tasks if each.name == group else 0, min_members=tasks if each.name == group else 0)
        for each in workload.groups
    )


def _fields(workload: Workload) -> dict[str, Any]:
    return {field.name: getattr(workload, field.name) for field in fields(Workload)}
