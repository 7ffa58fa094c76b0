"""`jupyter-gq results`: list or copy the files that a job wrote."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.files.file_copies import Existing, FileCopier, FilesExist, choose_files
from jupyter_gq.client.files.target_folder import CopyRefused, TargetFolder
from jupyter_gq.client.files.unlisted_files import explain_omitted
from jupyter_gq.client.models import JobResults
from jupyter_gq.client.models.results import FILES
from jupyter_gq.client.plain_output import print_plain
from jupyter_gq.domain.amount import format_bytes

from .connecting.connection import add_service_arguments, ask_service
from .explain import JOB_HELP, JOB_METAVAR
from .job_lists import find_job
from .printing.answers import add_output_argument, print_json, print_lines
from .printing.tables import format_table
from .refusal import CommandRefused, ExitCode

_CLEAR_LINE = "\r\x1b[K"


class CopyFailed(CommandRefused):
    """An error: a copy could not be written."""

    exit_code = ExitCode.FAILED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq results`."""
    parser.add_argument("job", metavar=JOB_METAVAR, help=JOB_HELP)
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help="path of a file, as --list shows it (default: all but hidden ones)"
    )
    parser.add_argument("-l", "--list", action="store_true", help="list the files with their sizes, and copy nothing")
    parser.add_argument(
        "--to", type=Path, default=Path(), metavar="FOLDER", help="folder of the copies, which must exist (default: .)"
    )
    parser.add_argument("--force", action="store_true", help="replace files that are there and differ")
    add_output_argument(parser, "with --list, the object JobResults of the API")
    add_service_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """List or copy the files of a job; return 0, or 1 if some of the files could not be copied.

    Raises `CommandRefused` if the service cannot be asked or refuses, if there is no such job, file or folder, or if
    files that differ are there and `--force` is not given. Raises `CopyFailed` if the disk is full, and either of the
    two if none of the files could be copied.
    """
    return ask_service(arguments, lambda client: _run(client, arguments))


async def _run(client: ServiceClient, arguments: argparse.Namespace) -> int:
    if arguments.output == "json" and not arguments.list:
        raise CommandRefused("--output json is a form of the list. Add --list, or leave it out.")
    job = await find_job(client, arguments.job)
    results = await client.results(job.id)
    if arguments.list:
        _print_list(results, json=arguments.output == "json")
    else:
        return await _copy(client, job.id, results, arguments)
    return ExitCode.OK


def _print_list(results: JobResults, *, json: bool) -> None:
    """Print the files of a job, as a table or as JSON."""
    if json:
        print_json(results)
        return
    if not results.files:
        print_lines(["The job wrote no files."])
        return
    rows = [["FILE", "SIZE", "REASON"], *([file.path, format_bytes(file.bytes), file.reason] for file in results.files)]
    print_lines(format_table(rows, {1}))  # never cut: paths are copied from it
    if results.omitted_files:
        print_lines([explain_omitted(results)])


async def _copy(client: ServiceClient, job: str, results: JobResults, arguments: argparse.Namespace) -> int:
    """Copy the files that the command names, and print where each one is; return 1 if one could not be copied."""

    async def read(path: str, start: int) -> bytes:
        return await client.result_part(job, FILES + path, start)

    try:
        files, left = await choose_files(results, arguments.files, read, hidden=bool(arguments.files))
        with TargetFolder(arguments.to) as target:
            existing = Existing.REPLACE if arguments.force else Existing.ASK
            progress = _Progress()
            try:
                copies, refused = await FileCopier(target, job, read).copy(files, existing, progress)
            finally:
                progress.end()
    except FilesExist as error:
        raise CommandRefused(f"{error} --force replaces them, and --to names another folder.") from None
    except CopyRefused as error:
        failed = CopyFailed if error.code in {"disk_full", "not_writable", "incomplete"} else CommandRefused
        raise failed(str(error)) from error
    print_lines(f"{arguments.to / copy.target}{' (unchanged)' if copy.unchanged else ''}" for copy in copies)
    _tell([*map(str, refused), *left, *([] if copies or left else ["The job wrote no files."])])
    return ExitCode.FAILED if refused else ExitCode.OK


def _tell(sentences: Sequence[str]) -> None:
    """Print sentences on standard error."""
    for sentence in sentences:
        print_plain(sentence, sys.stderr)


class _Progress:
    """A watcher that shows on a terminal how far the copies are, on one line of standard error."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()

    async def note(self, path: str, done: int, total: int) -> None:
        """Show how many bytes are written."""
        if self._is_terminal:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.write(f"{format_bytes(done)} of {format_bytes(total)}")
            sys.stderr.flush()

    def end(self) -> None:
        """Clear the line."""
        if self._is_terminal:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
