"""The user's jobs: all pages of the list, one job by its id or a part of it, and the table for people."""

from collections.abc import Sequence
from functools import partial

from jupyter_gq.client.connection import named_jobs
from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.connection.pages import read_all_jobs
from jupyter_gq.client.models import JobList, JobSummary, JobView
from jupyter_gq.domain.errors import NotFound
from jupyter_gq.domain.phases import omit_state

from .printing.gpu_use import describe_use
from .printing.tables import format_duration, format_percent, format_table
from .refusal import CommandRefused, ExitCode

_PAGE = 200
#: The state of a waiting or paused job that is held, as the table says it.
HELD = "held"


class JobNotFound(CommandRefused):
    """An error: no job, or more than one, has an id that begins with the given text."""

    exit_code = ExitCode.REFUSED


class QueueNotFound(CommandRefused):
    """An error: the user may see no queue of the given name."""

    exit_code = ExitCode.REFUSED


async def list_jobs(client: ServiceClient, owner: str | None = None, group: str | None = None) -> JobList:
    """Return all jobs of the user, newest first, or those of a group.

    `owner` is for administrators, as in `ServiceClient.jobs`.
    """
    return await read_all_jobs(lambda before: client.jobs(limit=_PAGE, before=before, owner=owner, group=group))


async def list_jobs_of_queues(client: ServiceClient, queues: Sequence[str]) -> JobList:
    """Return the jobs of all users in these queues that have not ended, newest first; for managers of the queues."""
    found = [await read_all_jobs(partial(client.jobs_of_queue, queue, _PAGE)) for queue in queues]
    jobs = {job.id: job for listed in found for job in listed.jobs}
    return JobList(jobs=sorted(jobs.values(), key=lambda job: job.submitted_at, reverse=True))


async def find_job(client: ServiceClient, text: str) -> JobView:
    """Return the job that `text` names, as `named_jobs.find_job` does; raise `JobNotFound` if that is not one job."""
    try:
        return await named_jobs.find_job(client, text, listed_by="`jupyter-gq jobs --all`")
    except NotFound as error:
        raise JobNotFound(str(error)) from None


def format_jobs(
    jobs: Sequence[JobSummary], now: float, *, width: int | None, owners: bool = False, use: bool = False
) -> list[str]:
    """Return the jobs as lines of a table; `now` gives their ages.

    `owners` adds a column, and so does `use`, for the GPU use at the last sample.
    """
    header = ["JOB", *(["OWNER"] if owners else []), "STATE", "NAME", "QUEUE", "GPUS", "AGE"]
    header += [*(["GPU USE"] if use else []), "REASON"]
    rows = [header]
    for job in jobs:
        rows.append(
            [
                job.id,
                *([job.owner] if owners else []),
                describe_phase(job),
                job.name,
                job.queue,
                _describe_gpus(job),
                format_duration(max(0.0, now - job.submitted_at)),
                *([describe_use(job) or "-"] if use else []),
                omit_state(job.sentence, HELD if is_held(job) else job.phase),
            ]
        )
    first = 4 + owners
    return format_table(rows, {first, first + 1}, width=width)


def _describe_gpus(job: JobSummary) -> str:
    """Return the GPUs of a job, such as "2" or "4 x 0.5".

    A job that runs with fewer tasks than it asks for has "3 of 4 x 1"; before its start it has "2 to 4 x 1".
    """
    if job.tasks == 1:
        return job.gpus
    tasks = str(job.tasks)
    if job.tasks_now is not None and job.tasks_now < job.tasks:
        tasks = f"{job.tasks_now} of {tasks}"
    elif job.tasks_now is None and job.min_tasks is not None:
        tasks = f"{job.min_tasks} to {tasks}"
    return f"{tasks} x {job.gpus}"


def is_held(job: JobSummary) -> bool:
    """Return whether the job stays in its queue until it is released."""
    return job.held_since is not None and job.phase in {"waiting", "paused"}


def describe_phase(job: JobSummary) -> str:
    """Return the state of a job in a word or two, with its place in the queue or its progress if they are known."""
    if is_held(job):
        return HELD
    if job.phase == "waiting" and job.position is not None:
        return f"waiting, place {job.position}"
    if job.phase == "running" and job.progress is not None and job.progress.fraction is not None:
        return f"running, {format_percent(job.progress.fraction)}"
    return job.phase
