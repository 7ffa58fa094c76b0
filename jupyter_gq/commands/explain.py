"""`jupyter-gq explain`: say why a job is in its state, and when it will probably start."""

import argparse
from collections.abc import Iterator, Sequence

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.models import ExpectedStart, JobView, QueueView
from jupyter_gq.domain.phases import ENDED, describe_phase, omit_state

from .clock import now
from .connecting.connection import add_service_arguments, ask_service
from .job_lists import HELD, find_job, is_held
from .printing.answers import add_output_argument, print_json, print_lines
from .printing.gpu_use import describe_memory
from .printing.tables import format_duration, format_estimate, format_percent

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
    """Yield sentences about a job: its state and the reason, and what applies of the following.

    A job that continues from another one names it. A running job has its time, its progress and its GPU use. A job
    that has started and not ended has what its pause costs. A waiting job has its place and its expected start. A job
    that was paused has the sentence of its last pause, a job that has not ended its queue, and a failed job the command
    that prints its output.
    """
    yield from _describe_state(job, now)
    if job.continue_from:
        yield f"Continues from the checkpoints of {job.continue_from}."
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
        yield f"Its last pause: {omit_state(job.eviction.sentence, 'paused')}"
    if job.phase == "failed":
        yield f"`jupyter-gq logs {job.id}` prints its output."


def _describe_state(job: JobView, now: float) -> Iterator[str]:
    """Yield the state of a job with its time, and the sentence of the job; the word of the state is said once."""
    at = now if job.finished_at is None else job.finished_at
    since = format_duration(max(0.0, at - job.submitted_at))
    rest = omit_state(job.sentence, HELD if is_held(job) else job.phase)
    if rest in {"", job.sentence}:
        yield f"{describe_job(job)} {describe_phase(job.phase)}, {since} after it was sent."
    elif job.phase in ENDED:
        yield f"{describe_job(job)} ended {since} after it was sent."
    else:
        yield f"{describe_job(job)} was sent {since} ago."
    if rest:
        yield job.sentence


def _describe_run(job: JobView, now: float) -> Iterator[str]:
    """Yield what is known of a running job: its time, its progress, its GPU use and its last checkpoint."""
    if job.running_since is not None:
        ran = format_duration(job.ran_seconds + max(0.0, now - job.running_since))
        expected = "" if job.expected_seconds is None else f" of {format_duration(job.expected_seconds)} expected"
        yield f"It has run for {ran}{expected}."
    if job.progress is not None:
        done = "" if job.progress.fraction is None else format_percent(job.progress.fraction)
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
    """Return the forecast as a sentence with times from now on, as JupyterLab words it."""
    known = f"from {start.outcomes} earlier forecasts" if start.outcomes else "a guess"
    likely, surely = (format_estimate(at - now) for at in (start.p50, start.p90))
    bound = "" if likely == surely else f", almost surely within {surely}"
    return f"Probably starts within {likely}{bound} ({known})."


def _describe_queue(queue: QueueView) -> str:
    limit = "" if queue.limit is None else f", at most {queue.limit}"
    return (
        f"Queue {queue.name}: {queue.used} of {queue.quota} GPU in use ({queue.over_quota} borrowed{limit}), "
        f"{queue.running} running, {queue.waiting} waiting."
    )
