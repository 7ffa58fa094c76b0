"""Gangs: a workload starts with at least `min_members` tasks, or not at all."""

from jupyter_gq.domain.workload import TaskGroup, TaskPlacement, Workload

from .placement import DeviceLedger, View


def place(ledger: DeviceLedger, pool: str, workload: Workload, view: View) -> tuple[TaskPlacement, ...] | None:
    """Take devices for its smallest gang, all or nothing; None changes nothing."""
    needed = workload.min_members
    if ledger.slots(pool, workload.request, view) < needed:
        return None
    mark = ledger.mark()
    tasks: list[TaskPlacement] = []
    for _ in range(needed):
        task = ledger.place(pool, workload.request, view)
        if task is None:
            ledger.rollback(mark)
            return None
        tasks.append(task)
    return tuple(tasks)


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
