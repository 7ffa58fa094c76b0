"""`jupyter-gq cancel`: cancel jobs."""

import argparse
import sys

from jupyter_gq.client.http import ServiceClient, ServiceError, ServiceUnavailable
from jupyter_gq.client.models import JobList, JobView

from .answers import add_output_argument, print_json, print_lines
from .connection import add_service_arguments, ask_service
from .explain import JOB_HELP, describe_job
from .job_lists import JobNotFound, find_job
from .refusal import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq cancel`."""
    parser.add_argument("jobs", metavar="JOB", nargs="+", help=f"{JOB_HELP}; may be repeated")
    add_output_argument(parser, JobList)
    add_service_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Cancel each of the jobs; return 0 if all were cancelled, otherwise 3.

    A job that cannot be cancelled is named on standard error, and the others are still cancelled. Raises
    `CommandRefused` if the service cannot be asked.
    """
    cancelled = ask_service(arguments, lambda client: _cancel_all(client, arguments.jobs))
    if arguments.output == "json":
        print_json(JobList(jobs=list(cancelled)))
    else:
        print_lines(f"{describe_job(job)}: {job.sentence or job.phase}" for job in cancelled)
    return ExitCode.OK if len(cancelled) == len(arguments.jobs) else ExitCode.REFUSED


async def _cancel_all(client: ServiceClient, texts: list[str]) -> list[JobView]:
    """Return the jobs that were cancelled; print why the others were not."""
    cancelled = []
    for text in texts:
        try:
            job = await find_job(client, text)
            cancelled.append(await client.cancel(job.id))
        except (ServiceError, JobNotFound) as error:
            if isinstance(error, ServiceUnavailable) or getattr(error, "status", None) == 401:
                raise
            print(f"jupyter-gq cancel: {text}: {error}", file=sys.stderr)
    return cancelled
