"""`jupyter-gq cancel`: cancel jobs."""

import argparse

from jupyter_gq.client.connection.http import ServiceClient

from .job_acts import add_jobs_arguments, run_on_jobs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq cancel`."""
    add_jobs_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Cancel each of the jobs; return 0 if that succeeded for all, otherwise 3.

    Raises `CommandRefused` if the service cannot be asked.
    """
    return run_on_jobs(arguments, ServiceClient.cancel)
