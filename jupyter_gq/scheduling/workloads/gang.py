"""Gangs: a workload starts with at least the smallest number of tasks of each of its groups, or not at all.

Amounts only. The placement of gangs is in `placement.gang_placement`.
"""

from collections.abc import Sequence
from dataclasses import replace

from jupyter_gq.domain.workload import TaskGroup, TaskPlacement, Workload


def needs_devices(workload: Workload) -> bool:
    """Tell whether some task of the workload uses a device."""
    if workload.groups:
        return any(group.request.devices for group in groups_of(workload))
    return workload.request.devices > 0


#: Processors in thousandths of a core, and memory of nodes in MiB.
HostAmounts = tuple[int, int]
NO_HOST: HostAmounts = (0, 0)


def groups_of(workload: Workload) -> tuple[TaskGroup, ...]:
    """Return the task groups that have tasks; one group named "" if all tasks are alike."""
    if workload.groups:
        return tuple(group for group in workload.groups if group.tasks)
    alike = TaskGroup(name="", request=workload.request, tasks=workload.tasks, min_members=workload.min_members)
    return (alike,)


def smallest(workload: Workload) -> int:
    """Return the milli-GPU of the smallest gang: of the min replicas of all task groups."""
    if workload.groups:
        return sum(group.request.milli * group.min_members for group in groups_of(workload))
    return workload.request.milli * workload.min_members


def held(workload: Workload) -> int:
    """Return the milli-GPU of the tasks in the placement; without a placement, of all tasks that the workload wants."""
    return of_tasks(workload, workload.placement) if workload.placement else workload.milli


def of_tasks(workload: Workload, tasks: Sequence[TaskPlacement]) -> int:
    """Return the milli-GPU that these tasks of the workload take."""
    if workload.groups:
        return sum(workload.request_of(task.group).milli for task in tasks)
    return workload.request.milli * len(tasks)


def occupied(workload: Workload) -> int:
    """Return the milli-GPU of all tasks that hold devices, with those that were told to leave."""
    return held(workload) + sum(workload.request_of(leaving.task.group).milli for leaving in workload.leaving)


def as_it_stands(workload: Workload) -> Workload:
    """Return a copy of the workload that wants and needs exactly the tasks of its present placement."""
    groups = tuple(
        replace(group, tasks=count, min_members=count)
        for group in workload.groups
        for count in [sum(task.group == group.name for task in workload.placement)]
    )
    count = len(workload.placement)
    return replace(workload, tasks=count, min_members=count, groups=groups)


def smallest_host(workload: Workload) -> HostAmounts:
    """Return the CPU (in thousandths of a core) and memory (in MiB) of the smallest gang."""
    groups = groups_of(workload)
    return (
        sum(group.request.cpu_milli * group.min_members for group in groups),
        sum(group.request.memory * group.min_members for group in groups),
    )


def held_host(workload: Workload) -> HostAmounts:
    """Return the CPU (in thousandths of a core) and memory (in MiB) of the tasks in the placement.

    Without a placement, the amounts are 0.
    """
    return host_of_tasks(workload, workload.placement)


def host_of_tasks(workload: Workload, tasks: Sequence[TaskPlacement]) -> HostAmounts:
    """Return the CPU (in thousandths of a core) and memory (in MiB) that these tasks of the workload take."""
    requests = [workload.request_of(task.group) for task in tasks]
    return (sum(request.cpu_milli for request in requests), sum(request.memory for request in requests))
