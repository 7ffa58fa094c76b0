"""`jupyter-gq logs`: print the outputs of a job, and follow them to its end."""

import argparse

from jupyter_gq.client.models import JobView
from jupyter_gq.client.models.logs import LONGEST_TEXT
from jupyter_gq.client.plain_output import print_plain
from jupyter_gq.domain.phases import tell_state
from jupyter_gq.domain.plain_text import strip_controls
from jupyter_gq.notebook.job_options import parse_whole

from .connecting.connection import add_service_arguments, ask_service
from .connecting.patience import PatientClient
from .explain import JOB_HELP, JOB_METAVAR, describe_job
from .follow import follow, read_outputs
from .job_lists import find_job
from .printing.printer import JsonPrinter, StatePrinter, TextPrinter
from .refusal import CommandRefused, ExitCode
from .whole_log import print_lines, print_whole_log


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
        "--runner",
        action="store_true",
        help="print the end of the last run's log instead, with messages from outside of the cells",
    )
    parser.add_argument(
        "--task",
        type=parse_whole,
        metavar="N",
        help="print the log of this task of the last run instead, from 0: all that its cells print, and messages",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="print the whole log of the job's last run instead, not only its end; a file gets it as it was printed",
    )
    parser.add_argument(
        "--grep",
        metavar="TEXT",
        help="print the lines of the whole log that have this text in them, as it is written, with their numbers; the "
        "exit code is 1 if there is none",
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
    """Print the outputs or the log of the job; return 0.

    Returns 1 with `--follow` if the job did not succeed, and with `--grep` if no line has the text.

    Raises `CommandRefused` if the service cannot be asked or refuses, or if there is no such job.
    """
    return ask_service(arguments, lambda client: _print_logs(client, arguments))


async def _print_logs(client: PatientClient, arguments: argparse.Namespace) -> int:
    job = await find_job(client, arguments.job)
    if arguments.task is not None and arguments.follow:
        raise CommandRefused("The log of a task is not followed. Leave out --follow, or --task to follow task 0.")
    if arguments.all or arguments.grep is not None:
        return await _print_whole(client, job, arguments)
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


async def _print_whole(client: PatientClient, job: JobView, arguments: argparse.Namespace) -> int:
    """Print the whole log or the lines with a text; raise `CommandRefused` if other options do not go with that."""
    if arguments.all and arguments.grep is not None:
        raise CommandRefused("Name --all or --grep, not both: --grep looks through the whole log anyway.")
    if arguments.follow or arguments.output == "json":
        raise CommandRefused("--all and --grep print the log as it is now, as text. Leave out --follow and --output.")
    if arguments.all:
        return await print_whole_log(client, job.id, arguments.task)
    return await print_lines(client, job.id, arguments.task, _check_text(arguments.grep))


def _check_text(text: str) -> str:
    """Return a text to look for; raise `CommandRefused` for one that the service would refuse."""
    if not 0 < len(text) <= LONGEST_TEXT or strip_controls(text) != text:
        raise CommandRefused(
            f"--grep expects a text on one line of 1 to {LONGEST_TEXT} characters, without control characters."
        )
    return text


async def follow_to_end(client: PatientClient, job: JobView, printer: StatePrinter) -> int:
    """Print the news of a job until it has ended, and how it ended; return 0 if it succeeded, else 1."""
    job = await follow(client, job, printer)
    printer.end()
    printer.tell(f"{describe_job(job)}: {tell_state(job.sentence, job.phase, job.phase)}")
    return ExitCode.OK if job.phase == "done" else ExitCode.FAILED
