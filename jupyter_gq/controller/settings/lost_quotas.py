"""The quotas that are lower after a change of the settings, and the running work that would then be above them."""

from collections.abc import Callable, Iterator, Mapping

from jupyter_gq.domain.amount import format_gpus, format_memory
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.queue_tree import path_of
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.wording import describe_cores
from jupyter_gq.scheduling.workloads import gang

from .config import Settings

#: The amounts of a queue: a name, how to read the amount, and how to write it. None = nothing is guaranteed.
_QUOTAS: tuple[tuple[str, Callable[[Queue], int | None], Callable[[int], str]], ...] = (
    ("quota", lambda queue: queue.quota, lambda milli: f"{format_gpus(milli)} GPU"),
    ("quota_cpus", lambda queue: queue.cpu_quota, describe_cores),
    ("quota_memory", lambda queue: queue.memory_quota, format_memory),
)
#: What a running job takes of each of these quotas, in the unit of the quota.
_HELD: tuple[Callable[[Workload], int], ...] = (
    gang.occupied,
    lambda workload: gang.held_host(workload)[0],
    lambda workload: gang.held_host(workload)[1],
)
#: The limits of a queue, likewise. None = no limit.
_LIMITS: tuple[tuple[str, Callable[[Queue], int | None], Callable[[int], str]], ...] = (
    ("limit", lambda queue: queue.limit, lambda milli: f"{format_gpus(milli)} GPU"),
    ("limit_cpus", lambda queue: queue.cpu_limit, describe_cores),
    ("limit_memory", lambda queue: queue.memory_limit, format_memory),
)


def find_lost_quotas(before: Settings, after: Settings, groups: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Yield a line for each user, group and queue whose quota or limit is lower after the change, or gone.

    `groups` maps users who have work to their groups; other users are compared by the names in the settings.
    """
    if after.default_quota < before.default_quota:
        yield f"users who are named nowhere: {_change(before.default_quota, after.default_quota)}"
    for group in sorted({*before.group_quotas, *after.group_quotas}):
        old, new = (each.group_quotas.get(group, each.default_quota) for each in (before, after))
        if new < old:
            yield f"group {group}: {_change(old, new)}"
    for user in sorted({*before.user_quotas, *after.user_quotas, *groups}):
        old, new = (each.fixed_quota(user, groups.get(user, frozenset())) for each in (before, after))
        if new < old:
            yield f"user {user}: {_change(old, new)}"
    queues = {entry.queue.name: entry.queue for entry in after.training}
    for entry in before.training:
        yield from _lost_by_queue(entry.queue, queues.get(entry.queue.name))


def find_work_over_quota(
    before: Settings, after: Settings, groups: Mapping[str, frozenset[str]], workloads: list[Workload]
) -> Iterator[str]:
    """Yield a line for each running job, and for each user with servers, that the change puts further above a quota.

    A running job whose queue is removed has a line as well. `groups` maps users to their groups.
    """
    holding = [workload for workload in workloads if workload.holds]
    jobs = [workload for workload in holding if workload.kind is Kind.TRAINING]
    old, new = _excess_by_job(jobs, before), _excess_by_job(jobs, after)
    queues = {entry.queue.name for entry in after.training}
    for job in jobs:
        name = f"{job.owner}'s job {job.name or job.id} in {job.queue}"
        if job.queue not in queues:
            yield f"{name}: the queue is removed"
            continue
        more = [
            write(then)
            for (_, _, write), was, then in zip(_QUOTAS, old[job.id], new[job.id], strict=True)
            if then > was
        ]
        if more:
            yield f"{name}: {', '.join(more)} above the quota of the queue"
    for user in sorted({workload.owner for workload in holding if workload.kind is Kind.NOTEBOOK}):
        used = sum(each.milli for each in holding if each.kind is Kind.NOTEBOOK and each.owner == user)
        was, will = (each.fixed_quota(user, groups.get(user, frozenset())) for each in (before, after))
        if used > will and will < was:
            yield f"{user}'s servers: {format_gpus(used - will)} GPU above the fixed quota of {format_gpus(will)}"


def _excess_by_job(jobs: list[Workload], settings: Settings) -> dict[str, list[int]]:
    """Return, by job id, what each running job has above each of `_QUOTAS` of its queue or of any queue above that.

    The part above a quota is attributed to the newest jobs.
    """
    queues = {entry.queue.name: entry.queue for entry in settings.training}
    over = {job.id: [0] * len(_QUOTAS) for job in jobs}
    for queue in queues.values():
        inside = [job for job in jobs if queue in path_of(job.queue, queues)]
        inside.sort(key=lambda job: (job.started_at or 0.0, job.id), reverse=True)
        for which, ((_, read, _), held) in enumerate(zip(_QUOTAS, _HELD, strict=True)):
            quota = read(queue)
            left = 0 if quota is None else sum(map(held, inside)) - quota
            for job in inside:
                over[job.id][which] = max(over[job.id][which], min(held(job), max(0, left)))
                left -= held(job)
    return over


def _lost_by_queue(before: Queue, after: Queue | None) -> Iterator[str]:
    """Yield a line for each quota and limit of a queue that is lower after the change, or one for its removal."""
    if after is None:
        yield f"queue {before.name}: {format_gpus(before.quota)} GPU -> the queue is removed"
        return
    for name, read, write in _QUOTAS:
        old, new = read(before), read(after)
        if old is not None and (new is None or new < old):
            yield f"queue {before.name}, {name}: {write(old)} -> {'none' if new is None else write(new)}"
    for name, read, write in _LIMITS:
        old, new = read(before), read(after)
        if new is not None and (old is None or new < old):
            yield f"queue {before.name}, {name}: {'none' if old is None else write(old)} -> {write(new)}"


def _change(before: int, after: int) -> str:
    return f"{format_gpus(before)} GPU -> {format_gpus(after)} GPU"
