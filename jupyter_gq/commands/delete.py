"""`jupyter-gq delete`: delete ended jobs, with all that is kept of them."""

import argparse

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.models import JobView

from .job_acts import add_jobs_arguments, run_on_jobs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq delete`."""
    add_jobs_arguments(parser)
    parser.epilog = (
        "Only jobs that have ended are deleted. Their outputs, logs and results are deleted for good, and on one "
        "machine their checkpoints. Checkpoints on Kubernetes stay, and so does the output under the cells of a "
        f"notebook. Administrators may also name jobs of other users. {parser.epilog}"
    )


def run(arguments: argparse.Namespace) -> int:
    """Delete each of the jobs that the arguments name; return 0 if that succeeded for all, otherwise 3.

    Raises `CommandRefused` if the service cannot be asked.
    """
    return run_on_jobs(arguments, ServiceClient.delete, _describe)


def _describe(_: JobView) -> str:
    return "Deleted with its outputs, logs and results."
