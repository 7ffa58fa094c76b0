"""`jupyter-gq move`: move jobs that do not run to another queue."""

import argparse

from .job_acts import add_jobs_arguments, run_on_jobs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq move`."""
    add_jobs_arguments(parser)
    parser.add_argument("--queue", required=True, help="the queue in which the jobs wait from now on")


def run(arguments: argparse.Namespace) -> int:
    """Move each of the jobs to the queue; return 0 if that succeeded for all, otherwise 3.

    Raises `CommandRefused` if the service cannot be asked.
    """
    return run_on_jobs(arguments, lambda client, job: client.move(job, arguments.queue))
