"""Checks of what people ask for jobs: the queue, the priority, and the limits on numbers of jobs."""

from collections.abc import Sequence

from jupyter_gq.backends.protocol import Backend
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.records.records import Records
from jupyter_gq.controller.settings.config import Settings
from jupyter_gq.controller.settings.queues import TrainingQueue
from jupyter_gq.domain.amount import format_bytes, format_memory
from jupyter_gq.domain.errors import LimitReached, NeverFits, NotAMember, PriorityTooHigh, Resource, UnknownQueue
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload


def find_usable_queue(settings: Settings, caller: Caller, name: str) -> TrainingQueue:
    """Return the training queue of that name; raise `UnknownQueue` or `NotAMember` if the caller cannot use it."""
    queue = find_queue(settings, caller, name)
    usable = settings.leaves_of(caller.user, caller.groups)
    if name not in usable and not caller.admin:
        raise NotAMember(caller.user, name, usable)
    return queue


def find_queue(settings: Settings, caller: Caller, name: str) -> TrainingQueue:
    """Return the training queue of that name; raise `UnknownQueue`, with the caller's queues, if there is none."""
    for entry in settings.leaves():
        if entry.queue.name == name:
            return entry
    raise UnknownQueue(name, settings.leaves_of(caller.user, caller.groups))


def check_priority(queue: TrainingQueue, caller: Caller, priority: int) -> None:
    """Raise `PriorityTooHigh` if the caller may not give this priority to a job in the queue."""
    highest = queue.highest_priority(caller)
    if priority > highest:
        raise PriorityTooHigh(requested=priority, highest=highest, queue=queue.queue.name)


def check_tasks(backend: Backend, least: int, most: int) -> None:
    """Raise `NeverFits` for a job that could run with fewer tasks than it has, if the backend cannot resize jobs."""
    resizing = backend.capabilities.resizing
    if least < most and resizing is None:
        raise NeverFits(
            f"You asked for {least} to {most} tasks, but the number of tasks of a job cannot "
            f"change here. Leave min_tasks away, and all {most} tasks start together or none; "
            f"or ask for {least} {'task' if least == 1 else 'tasks'}.",
            Resource.TASKS,
        )


def check_limits_of_user(settings: Settings, records: Records, user: str) -> None:
    """Raise `LimitReached` if the user has as many unfinished jobs as the settings allow."""
    jobs = [job for job in _unfinished_jobs(records) if job.owner == user]
    there, remedy = "You have {} jobs that wait", "Cancel some, or wait until some {}."
    _check_number(len(jobs), settings.max_jobs_per_user, f"{there} or run", remedy.format("end"))
    _check_number(_count_waiting(jobs), settings.max_waiting_jobs_per_user, there, remedy.format("start"))


def check_limits_of_queue(settings: Settings, records: Records, queue: str) -> None:
    """Raise `LimitReached` if the queue has as many unfinished jobs as the settings allow."""
    jobs = [job for job in _unfinished_jobs(records) if job.queue == queue]
    there, remedy = f"The queue {queue!r} has {{}} jobs that wait", "Choose another queue, or try again later."
    _check_number(len(jobs), settings.max_jobs_per_queue, f"{there} or run", remedy)
    _check_number(_count_waiting(jobs), settings.max_waiting_jobs_per_queue, there, remedy)


def check_kept_size(context: Context, user: str) -> None:
    """Raise `LimitReached` if the user's jobs take more bytes of the database than the settings allow.

    The bytes are those of the last measurement; see `loop.limits.database_limit`.
    """
    limit, used = context.settings.max_user_database_bytes, context.kept_sizes.of_users().get(user, 0)
    if limit and used > limit:
        unfinished = {job.id for job in _unfinished_jobs(context.records)}
        largest = context.kept_sizes.largest(user, besides=unfinished.union(context.deletions.requested))
        remedy = "Jobs can be deleted once they have ended (jupyter-gq delete)"
        if largest is not None:
            job, size = largest
            remedy = f"Delete ended jobs that you do not need: jupyter-gq delete {job} frees {format_bytes(size)}"
        raise LimitReached(
            f"The outputs of your jobs take {format_bytes(used)} of the database, and at most {format_bytes(limit)} "
            f"are allowed. {remedy}; or ask your administrator for c.TrainingQueues.max_user_database_mib."
        )


def check_disk(context: Context, user: str) -> None:
    """Raise `LimitReached` if the files of the user's jobs take more disk than the settings allow.

    The space is that of the last measurement; see `loop.limits.disk_limit`.
    """
    limit, uses = context.settings.max_user_disk, context.disk_uses
    used = uses.of_user(user)
    if limit and used > limit:
        largest, such_as, command = uses.largest_job(user, besides=context.deletions.requested), "", "jupyter-gq delete"
        if largest is not None:
            job, size = largest
            such_as = f", such as those of {job} ({format_memory(size)})"
            command += "" if context.records.find_unfinished(job) else f" {job}"
        raise LimitReached(
            f"The files of your jobs take {format_memory(used)} of disk, and at most {format_memory(limit)} are "
            f"allowed. Delete checkpoints that you do not need{such_as}, or ended jobs with all their files "
            f"({command}), and try again some minutes later; or ask your administrator for "
            "c.TrainingQueues.max_user_disk."
        )


def _check_number(found: int, most: int, words: str, remedy: str) -> None:
    """Raise `LimitReached` if there are `most` jobs already; `words` have a place for the number."""
    if found >= most:
        raise LimitReached(f"{words.format(found)}, and at most {most} are possible. {remedy}")


def _unfinished_jobs(records: Records) -> list[Workload]:
    return [each.workload for each in records.unfinished() if each.workload.kind is Kind.TRAINING]


def _count_waiting(jobs: Sequence[Workload]) -> int:
    """Return how many of the jobs wait, for the first time or after a pause."""
    return sum(job.state is State.PENDING for job in jobs)
