"""Gangs: a workload starts with at least the smallest number of tasks of each of its groups, or not at all."""

from jupyter_gq.domain.workload import TaskGroup, TaskPlacement, Workload

from .placement import DeviceLedger, View


def place(ledger: DeviceLedger, pool: str, workload: Workload, view: View) -> tuple[TaskPlacement, ...] | None:
    """Take places for its smallest gang, all or nothing; None changes nothing. Large requests go first.

    Who needs no device gets as many tasks as there is room for at once.
    """
    groups = groups_of(workload)
    if not may_fit(ledger, pool, workload, view):
        return None
    mark = ledger.mark()
    tasks: list[TaskPlacement] = []
    for group in sorted(groups, key=_largest_first) if len(groups) > 1 else groups:
        wanted = group.min_members if group.request.devices or workload.elastic else group.tasks
        for number in range(wanted):
            task = ledger.place(pool, group.request, view, group=group.name)
            if task is None and number < group.min_members:
                ledger.rollback(mark)
                return None
            if task is None:
                break
            tasks.append(task)
    return tuple(tasks)


def may_fit(ledger: DeviceLedger, pool: str, workload: Workload, view: View) -> bool:
    """A cheap bound before anything is placed: False is certain."""
    if not workload.groups:
        return ledger.slots(pool, workload.request, view) >= workload.min_members
    return all(ledger.slots(pool, each.request, view) >= each.min_members for each in groups_of(workload))


def _largest_first(group: TaskGroup) -> tuple[int, int, int, int]:
    request = group.request
    return (-request.devices, -request.milli_per_device, -request.cpu_milli, -request.memory)


def needs_devices(workload: Workload) -> bool:
    """Some of its tasks use a device."""
    if workload.groups:
        return any(group.request.devices for group in groups_of(workload))
    return workload.request.devices > 0


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
