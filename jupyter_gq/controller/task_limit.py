"""The limit on uncounted tasks that run on one machine at the same time: they request no GPU, no CPU and no memory.

Nothing that the machine counts bounds such tasks.

Rules
-----
Jobs only: notebooks, and jobs that request any amount, neither count nor wait.

Input of the cycle: a job beyond the limit is held in what the core sees, so it has no place in line, and the cycle
explains it. The record of the job stays as it is.

Order: jobs of a higher priority first, then by submission. No job overtakes one that waits for the limit.

Never for ever: a job that has more tasks than the limit runs when no other one runs.

Not idle: a job takes no place, and others overtake it, if it pauses after a failed start or if its queue was removed
from the settings.

See docs/decisions/0411-limit-the-tasks-of-a-machine-that-name-no-amounts.md.
"""

from collections.abc import Container, Sequence
from dataclasses import replace

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Hold, Kind, Workload


def hold_beyond_task_limit(
    views: Sequence[Workload], limit: int | None, now: Instant, queues: Container[str]
) -> tuple[Workload, ...]:
    """Return all workloads in their order, with each pending job beyond the limit replaced by a copy on hold.

    `limit` is the most tasks of jobs that request no GPU, CPU or memory; None = there is no limit. Tasks of such jobs
    that have started count first. Then pending jobs fill the limit by priority and submission. The first job that does
    not fit is held, and so are all after it. If nothing is counted, a job of any size may start. A pending job is left
    as it is and takes no place if it is on hold already, is backing off at `now`, or is in none of the `queues`, which
    are the names of those in the settings.
    """
    if limit is None:
        return tuple(views)
    uncounted = [each for each in views if _is_uncounted(each)]
    taken = sum(each.tasks for each in uncounted if each.state is not State.PENDING)
    pending = (each for each in uncounted if each.state is State.PENDING)
    ready = (each for each in pending if each.hold is None and not each.is_backing_off(now) and each.queue in queues)
    waiting = sorted(ready, key=lambda each: (-each.priority, each.submission))
    held: dict[str, Workload] = {}
    for each in waiting:
        if held or (taken and taken + each.tasks > limit):
            held[each.id] = replace(each, hold=_make_hold(each, limit, taken))
        else:
            taken += each.tasks
    return tuple(held.get(each.id, each) for each in views)


def _is_uncounted(workload: Workload) -> bool:
    """Tell whether the workload is a job of which the machine counts nothing."""
    request = workload.request
    amounts = (request.devices, request.cpu_milli, request.memory)
    return workload.kind is Kind.TRAINING and not workload.groups and not any(amounts)


def _make_hold(workload: Workload, limit: int, taken: int) -> Hold:
    """Return the hold of a job that waits for the limit, while `taken` tasks run or start."""
    sentence = (
        f"Waiting: {taken} tasks that name no GPU, CPU or memory run on this machine, and at most {limit} may. "
        "It starts by itself when enough of them have ended, at a time that is not foretold. A job that names its CPU "
        "cores does not wait for them."
    )
    return Hold(by="", at=workload.submitted_at, sentence=sentence)
