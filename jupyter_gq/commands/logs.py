"""`jupyter-gq logs`: print the outputs of a job, and follow them to its end."""

import argparse

from jupyter_gq.client.http import ServiceClient
from jupyter_gq.client.models import JobView
from jupyter_gq.client.plain_output import print_plain

from .connection import add_service_arguments, ask_service
from .explain import JOB_HELP, JOB_METAVAR, describe_job
from .follow import follow, read_outputs
from .job_lists import find_job
from .printer import JsonPrinter, StatePrinter, TextPrinter
from .refusal import CommandRefused, ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq logs`."""
    parser.add_argument("job", metavar=JOB_METAVAR, help=JOB_HELP)
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="print outputs as they come, until the job has ended; the exit code is 0 if it succeeded, else 1",
    )
    parser.add_argument(
        "--runner", action="store_true", help="print the log of the job's last run instead: messages outside of cells"
    )
    parser.add_argument(
        "--task",
        type=int,
        metavar="N",
        help="print the log of this task of the last run instead, from 0: all that its cells print, and messages",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=["text", "json"],
        default="text",
        help="json: each numbered piece of output as a line, an OutputEvent of the API (default: text)",
    )
    add_service_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the outputs of the job; return 0, or with `--follow` 1 if the job did not succeed.

    Raises `CommandRefused` if the service cannot be asked or refuses, or if there is no such job.
    """
    return ask_service(arguments, lambda client: _print_logs(client, arguments))


async def _print_logs(client: ServiceClient, arguments: argparse.Namespace) -> int:
    job = await find_job(client, arguments.job)
    if arguments.task is not None and arguments.follow:
        raise CommandRefused("The log of a task is not followed. Leave out --follow, or --task to follow task 0.")
    if arguments.runner or arguments.task is not None:
        print_plain((await client.log(job.id, arguments.task)).removesuffix("\n"))
        return ExitCode.OK
    printer = JsonPrinter() if arguments.output == "json" else TextPrinter()
    if arguments.follow:
        return await follow_to_end(client, job, printer)
    async for pieces in read_outputs(client, job.id, 0):
        printer.show_pieces(pieces)
    printer.end()
    return ExitCode.OK


async def follow_to_end(client: ServiceClient, job: JobView, printer: StatePrinter) -> int:
    """Print the news of a job until it has ended, and how it ended; return 0 if it succeeded, else 1."""
    job = await follow(client, job, printer)
    printer.end()
    printer.tell(f"{describe_job(job)}: {job.phase}. {job.sentence}".rstrip())
    return ExitCode.OK if job.phase == "done" else ExitCode.FAILED
