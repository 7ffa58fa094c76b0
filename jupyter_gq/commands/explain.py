"""`jupyter-gq explain`: say why a job is in its state, and when it will probably start."""

import argparse
from collections.abc import Iterator, Sequence

from jupyter_gq.client.http import ServiceClient
from jupyter_gq.client.models import ExpectedStart, JobView, QueueView
from jupyter_gq.domain.phases import ENDED, describe_phase

from .answers import add_output_argument, print_json, print_lines
from .clock import now
from .connection import add_service_arguments, ask_service
from .gpu_use import describe_memory
from .job_lists import find_job
from .tables import format_duration

#: The argument that names a job, in help and for completion.
JOB_METAVAR = "JOB"
JOB_HELP = 'id of a job, or its beginning if that is unique; "last" is the job that was sent last'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq explain`."""
    parser.add_argument("job", metavar=JOB_METAVAR, help=JOB_HELP)
    add_output_argument(parser, "the object JobView of the API")
    add_service_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print why the job is in its state, and return 0.

    Raises `CommandRefused` if the service cannot be asked or refuses, or if there is no such job.
    """
    job, queues = ask_service(arguments, lambda client: _look_up(client, arguments.job))
    if arguments.output == "json":
        print_json(job)
    else:
        print_lines(explain(job, queues, now()))
    return 0


async def _look_up(client: ServiceClient, text: str) -> tuple[JobView, Sequence[QueueView]]:
    return await find_job(client, text), (await client.queues()).queues


def explain(job: JobView, queues: Sequence[QueueView], now: float) -> Iterator[str]:
    """Yield sentences: the state and its reason, the GPU use of a running job, what it says of itself, and its queue.

    A waiting job has its place and its start; a job that was paused has its last pause. A job that runs or is paused
    has what its pause costs.
    """
    at = now if job.finished_at is None else job.finished_at
    since = format_duration(max(0.0, at - job.submitted_at))
    yield f"{describe_job(job)} {describe_phase(job.phase)}, {since} after it was sent."
    if job.sentence:
        yield job.sentence
    if job.phase == "running":
        yield from _describe_run(job, now)
    if job.pause is not None:
        yield job.pause.sentence
    if job.position is not None:
        yield f"Place in the queue: {job.position}."
    if job.expected_start is not None:
        yield describe_start(job.expected_start, now)
    if job.over_quota is not None:
        yield f"It holds {job.over_quota} GPU above the quota of its queue, which others may take back."
    if job.phase not in ENDED:
        yield from (_describe_queue(queue) for queue in queues if queue.name == job.queue)
    if job.eviction is not None and job.phase != "pausing" and job.eviction.sentence != job.sentence:
        yield f"Its last pause: {job.eviction.sentence}"
    if job.phase == "failed":
        yield f"`jupyter-gq logs {job.id}` prints its output."


def _describe_run(job: JobView, now: float) -> Iterator[str]:
    """Yield what is known of a running job: its time, its progress, its GPU use and its last checkpoint."""
    if job.running_since is not None:
        ran = format_duration(job.ran_seconds + max(0.0, now - job.running_since))
        expected = "" if job.expected_seconds is None else f" of {format_duration(job.expected_seconds)} expected"
        yield f"It has run for {ran}{expected}."
    if job.progress is not None:
        done = "" if job.progress.fraction is None else f"{job.progress.fraction:.0%}"
        if told := ", ".join(filter(None, [done, job.progress.text])):
            yield f"Progress: {told}."
    if job.utilisation is not None:
        yield f"It uses {job.utilisation} % of its GPU."
    if memory := describe_memory(job):
        yield f"It holds {memory} of GPU memory."
    if job.saved_at is not None:
        yield f"It last saved its state {format_duration(max(0.0, now - job.saved_at))} ago."


def describe_job(job: JobView) -> str:
    """Return name and id of a job, or its id if it has no name."""
    return f"{job.name} ({job.id})" if job.name else job.id


def describe_start(start: ExpectedStart, now: float) -> str:
    """Return the forecast as a sentence with times from now on."""
    half, most = (format_duration(max(0.0, at - now)) for at in (start.p50, start.p90))
    known = f"from {start.outcomes} earlier forecasts" if start.outcomes else "a guess"
    return f"Half of such jobs start within {half}, nine of ten within {most} ({known})."


def _describe_queue(queue: QueueView) -> str:
    limit = "" if queue.limit is None else f", at most {queue.limit}"
    return (
        f"Queue {queue.name}: {queue.used} of {queue.quota} GPU in use ({queue.over_quota} borrowed{limit}), "
        f"{queue.running} running, {queue.waiting} waiting."
    )
