"""Gangs: a workload starts with at least the smallest number of tasks of each of its groups, or not at all.

Amounts only; where its tasks go, see `assemble`.
"""

from dataclasses import replace

from jupyter_gq.domain.workload import TaskGroup, Workload


def needs_devices(workload: Workload) -> bool:
    """Some of its tasks use a device."""
    if workload.groups:
        return any(group.request.devices for group in groups_of(workload))
    return workload.request.devices > 0


#: Processors in thousandths of a core, and memory of nodes in MiB.
Rest = tuple[int, int]
NO_REST: Rest = (0, 0)


def groups_of(workload: Workload) -> tuple[TaskGroup, ...]:
    """Its groups that have tasks; one named "" where all of its tasks are alike."""
    if workload.groups:
        return tuple(group for group in workload.groups if group.tasks)
    alike = TaskGroup(name="", request=workload.request, tasks=workload.tasks, min_members=workload.min_members)
    return (alike,)


def smallest(workload: Workload) -> int:
    """Milli-GPU of its smallest gang."""
    if workload.groups:
        return sum(group.request.milli * group.min_members for group in groups_of(workload))
    return workload.request.milli * workload.min_members


def held(workload: Workload) -> int:
    """Milli-GPU that it holds: an elastic workload may hold fewer tasks than it wants."""
    if not workload.placement:
        return workload.milli
    if workload.groups:
        return sum(workload.request_of(task.group).milli for task in workload.placement)
    return workload.request.milli * len(workload.placement)


def as_it_stands(workload: Workload) -> Workload:
    """The same, with the tasks that it has as all that it wants and needs."""
    groups = tuple(
        replace(group, tasks=count, min_members=count)
        for group in workload.groups
        for count in [sum(task.group == group.name for task in workload.placement)]
    )
    count = len(workload.placement)
    return replace(workload, tasks=count, min_members=count, groups=groups)


def smallest_rest(workload: Workload) -> Rest:
    """Processors and memory of its smallest gang."""
    groups = groups_of(workload)
    return (
        sum(group.request.cpu_milli * group.min_members for group in groups),
        sum(group.request.memory * group.min_members for group in groups),
    )


def held_rest(workload: Workload) -> Rest:
    """Processors and memory that it holds."""
    requests = [workload.request_of(task.group) for task in workload.placement]
    return (sum(request.cpu_milli for request in requests), sum(request.memory for request in requests))
