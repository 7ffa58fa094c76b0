"""Gangs: a workload starts with at least `min_members` tasks, or not at all."""

from jupyter_gq.domain.workload import TaskPlacement, Workload

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


def smallest(workload: Workload) -> int:
    """Milli-GPU of its smallest gang."""
    return workload.request.milli * workload.min_members


def held(workload: Workload) -> int:
    """Milli-GPU that it holds: an elastic workload may hold fewer tasks than it wants."""
    return workload.request.milli * (len(workload.placement) or workload.tasks)
