"""Borrowers: the work that may use what suspended notebooks have lent, since it can give it back at any moment.

See docs/decisions/0324-take-a-lent-share-back-from-the-job-that-came-last.md.
"""

from collections.abc import Collection, Iterable
from math import inf

from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.workload import Kind, Workload


def may_borrow(workload: Workload) -> bool:
    """Tell whether a workload may use what a suspended notebook has lent: preemptible training work can give it back.

    See the rule on borrowers in `idle.lending`.
    """
    return workload.preemptible and workload.kind is Kind.TRAINING


def borrowers_on(
    device: str, lenders: Iterable[Workload], users: Iterable[Workload], above_quota: Collection[str]
) -> list[Workload]:
    """Return the `users` of a device that use what the `lenders` have lent there, the one with the best right first.

    The room beside the lenders goes to the users in the order of their rights: work that may not borrow, then work of
    queues within their quotas, then work that started first. A user for which no room is left uses what is lent, and
    is returned unless it may not borrow. `above_quota` has the names of the leaf queues above their quotas.
    """
    room = ONE_GPU - sum(milli_on(device, lender) for lender in lenders)
    found = []
    for user in sorted(users, key=lambda each: _precedence(each, above_quota)):
        milli = milli_on(device, user)
        if milli > room and may_borrow(user):
            found.append(user)
        else:
            room -= milli
    return found


def milli_on(device: str, workload: Workload) -> int:
    """Return the milli-GPU that a workload holds of the device, also for tasks that were told to leave."""
    tasks = (task for task in workload.held_places if device in task.devices)
    return sum(workload.request_of(task.group).milli_per_device for task in tasks)


def _precedence(workload: Workload, above_quota: Collection[str]) -> tuple[bool, bool, float, float, str]:
    """Return the sort key by which work has its place on a lent device in its own right."""
    started = inf if workload.started_at is None else workload.started_at
    return (may_borrow(workload), workload.queue in above_quota, started, workload.submitted_at, workload.id)
