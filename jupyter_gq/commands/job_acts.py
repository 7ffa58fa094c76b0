"""Acts on several jobs at once, such as `cancel`: each job by itself, and one exit code for all."""

import argparse
import sys
from collections.abc import Awaitable, Callable

from jupyter_gq.client.connection.http import ServiceClient, ServiceError, ServiceUnavailable
from jupyter_gq.client.models import JobList, JobView
from jupyter_gq.domain.plain_text import shorten, strip_controls

from .connecting.connection import add_service_arguments, ask_service
from .explain import JOB_HELP, JOB_METAVAR, describe_job
from .job_lists import JobNotFound, find_job
from .printing.answers import add_output_argument, print_json, print_lines
from .refusal import ExitCode

#: An act on the job of this id.
Act = Callable[[ServiceClient, str], Awaitable[JobView]]


def add_jobs_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the jobs, the option `--output` and those of the service to the parser."""
    parser.add_argument("jobs", metavar=JOB_METAVAR, nargs="+", help=f"{JOB_HELP}; may be repeated")
    add_output_argument(parser, "the object JobList of the API")
    add_service_arguments(parser)


def run_on_jobs(arguments: argparse.Namespace, act: Act, add: Callable[[JobView], str] = lambda _: "") -> int:
    """Carry out the act on each of the jobs and print what became of them; return 0, or 3 if one was refused.

    What `add` returns for a job follows the sentence of the job. A refused job is named on standard error, and the
    others are still acted on. Raises `CommandRefused` if the service cannot be asked.
    """
    changed, refused = ask_service(arguments, lambda client: _act_on_all(client, arguments, act))
    if arguments.output == "json":
        print_json(JobList(jobs=list(changed)))
    else:
        print_lines(f"{describe_job(job)}: {job.sentence or job.phase} {add(job)}".rstrip() for job in changed)
    return ExitCode.REFUSED if refused else ExitCode.OK


async def _act_on_all(client: ServiceClient, arguments: argparse.Namespace, act: Act) -> tuple[list[JobView], bool]:
    """Return the jobs that were acted on, each once, and whether a text or a job was refused; print why.

    All jobs are found before the first act, since an act may change which job is the last one.
    """
    found = [await _try(arguments.command, text, find_job(client, text)) for text in arguments.jobs]
    texts = {job.id: text for text, job in zip(arguments.jobs, found, strict=True) if job is not None}
    changed = [await _try(arguments.command, text, act(client, job)) for job, text in texts.items()]
    return [job for job in changed if job is not None], None in found or None in changed


async def _try(command: str, text: str, asked: Awaitable[JobView]) -> JobView | None:
    """Return the job that the service answers with; print why and return None if the service refuses it.

    `text` is what the user wrote for the job. Raises `ServiceError` if nothing else can be asked either.
    """
    try:
        return await asked
    except (ServiceError, JobNotFound) as error:
        if isinstance(error, ServiceUnavailable) or getattr(error, "status", None) == 401:
            raise
        said = error.problem.message if isinstance(error, ServiceError) else error
        named = f"{strip_controls(shorten(text))}: " if text else ""
        print(f"jupyter-gq {command}: {named}{said}", file=sys.stderr)
        return None
