"""`jupyter-gq submit`: send a notebook or a script to a training queue."""

import argparse
import shlex
import sys
import uuid
from dataclasses import replace
from pathlib import Path

from jupyter_gq.client.models import MAX_NAME, Alternative, JobFields, JobRequest, JobSubmission, JobView, Preview
from jupyter_gq.client.plain_output import print_plain
from jupyter_gq.domain.plain_text import quoted, shorten
from jupyter_gq.domain.reasons import word_as_waiting
from jupyter_gq.lab.requests import FilesPlan
from jupyter_gq.notebook.job_options import add_also_option, add_job_options, add_returns_option, read_job_options

from .clock import now
from .connecting.address import is_on_this_machine
from .connecting.connection import add_service_arguments, ask_as, ask_service, find_login
from .connecting.patience import PatientClient
from .explain import describe_job, describe_start
from .files_to_send import FileToSend, JobFromFile, read_file
from .job_lists import find_job
from .logs import follow_to_end
from .printing.answers import print_json
from .printing.file_lines import describe_files, list_files
from .printing.printer import JsonPrinter, StatePrinter, TextPrinter
from .refusal import CommandRefused, ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq submit`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a notebook (.ipynb) or a Python script (.py)")
    # With a default, argparse does not name the arguments as required where the file is missing.
    parser.add_argument(
        "script_arguments", nargs="*", default=[], metavar="ARGUMENT", help="arguments of a script, after --"
    )
    add_job_options(parser, named_after="file")
    add_returns_option(parser)
    files = parser.add_mutually_exclusive_group()
    add_also_option(files)
    files.add_argument(
        "--live",
        action="store_true",
        help="run in the live folder: no file goes along, and the job sees each later change of a file",
    )
    software = parser.add_mutually_exclusive_group()
    software.add_argument("--kernel", help="name of the kernel (default: that of the notebook; python3 for a script)")
    software.add_argument(
        "--software",
        default="",
        metavar="NAME",
        help="an image that the service offers, or another kernel of the same language that is installed here "
        "(default: that of the notebook)",
    )
    parser.add_argument(
        "--folder",
        help="working folder on another machine or in the pod of the job, to which no variables are sent but those of "
        "--env (default: the folder of the file, on this machine)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="environment variable of the job, with the value that it has here if none is written; no secrets; may be "
        "given several times",
    )
    parser.add_argument(
        "--secret",
        action="append",
        default=[],
        metavar="NAME",
        help="secret that the job finds in a variable of this name (see `jupyter-gq secret`); may be given several "
        "times",
    )
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--dry-run", action="store_true", help="say what would happen, and send nothing")
    ways.add_argument("--wait", action="store_true", help="wait until the job has ended; exit code 0 if it succeeded")
    ways.add_argument("-f", "--follow", action="store_true", help="as --wait, and print the outputs as they come")
    parser.add_argument(
        "-o",
        "--output",
        choices=["text", "json"],
        default="text",
        help="json: the object JobView of the API, after --wait the last one, with --dry-run Preview, and with the "
        "field `files_plan` for the files that go along; with --follow pieces of output as of `logs` "
        "(default: sentences)",
    )
    add_service_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Send the file and print the job and what happens next; return 0, or 1 if a followed job did not succeed.

    Raises `CommandRefused` if the file cannot run or the service cannot be asked or refuses.
    """
    file = FileToSend(
        path=arguments.file,
        arguments=tuple(arguments.script_arguments),
        folder=arguments.folder,
        kernel=arguments.kernel,
        software=arguments.software,
        variables=tuple(arguments.env),
        secrets=tuple(arguments.secret),
        returns=tuple(arguments.returns),
        also=tuple(arguments.also),
        live=arguments.live,
    )
    if file.folder is not None and not file.folder.startswith("/"):
        raise CommandRefused(
            f"--folder: {quoted(file.folder)} is not the full path of a folder. Write one such as /home/ann/work, or "
            "leave the option out."
        )
    if file.needs_image:
        return ask_service(arguments, lambda client: _submit_in_image(client, arguments, file))
    read = read_file(file)
    read.make_bundle()  # what no bundle can hold is refused before the service is asked
    login = find_login(arguments.url)
    if file.folder is not None and is_on_this_machine(login.url) and not Path(file.folder).is_dir():
        raise CommandRefused(
            f"--folder: there is no folder {quoted(file.folder)} on this machine, and jobs of {login.url} run on it. "
            "Write the path of a folder that you can open, or leave the option out."
        )
    return ask_as(login, lambda client: _submit(client, arguments, read), no_wait=arguments.no_wait)


async def _submit_in_image(client: PatientClient, arguments: argparse.Namespace, file: FileToSend) -> int:
    """Submit a file whose software must be an image of the service, as `run` does."""
    images = (await client.me()).images
    return await _submit(client, arguments, read_file(replace(file, images=tuple(images))))


async def _submit(client: PatientClient, arguments: argparse.Namespace, read: JobFromFile) -> int:
    """Submit a file that was read, as `run` does, or only say what would happen."""
    if arguments.continue_from is not None:
        arguments.continue_from = (await find_job(client, arguments.continue_from)).id
    request = await _make_request(client, arguments)
    preview = await client.preview(_add_runtime(request, read))
    project = await read.find_project(client)
    files, notes = await read.describe_files(project), read.list_notes()
    files.notes += read.describe_missed()
    if arguments.dry_run:
        _print_dry_run(arguments, preview, files, notes)
        return ExitCode.OK
    submission = JobSubmission(**request.model_dump(), bundle=await read.send_files(project, client))
    job, _ = await client.submit(submission, key=uuid.uuid4().hex)
    _print_sent(arguments, job, preview, [*describe_files(files), *notes])
    return await _follow(client, arguments, job, files)


async def _make_request(client: PatientClient, arguments: argparse.Namespace) -> JobFields:
    """Return the request for the job as the options ask for it."""
    return JobFields.model_validate(
        {
            **read_job_options(arguments),
            "name": arguments.name.strip() or shorten(arguments.file.stem, MAX_NAME),
            "queue": arguments.queue or await _choose_queue(client),
            "software": arguments.software,
        }
    )


def _add_runtime(request: JobFields, read: JobFromFile) -> JobRequest:
    """Return the request with what the service must know of the file before it has the bundle."""
    runtime = read.runtime
    return JobRequest(
        **request.model_dump(),
        secrets=list(runtime.secrets),
        home=runtime.environment.get("HOME", ""),
        kernel=runtime.kernel.name,
    )


def _print_dry_run(arguments: argparse.Namespace, preview: Preview, files: FilesPlan, notes: list[str]) -> None:
    """Print what would happen to a job that is not sent, and which files would go along."""
    if arguments.output == "json":
        print_json(preview, files_plan=files)
        if notes:
            print_plain("\n".join(notes), sys.stderr)
        return
    lines = [_describe_preview(preview, preview.sentence), *_describe_software(arguments.software)]
    if arguments.continue_from:
        lines.append(f"It would continue from the checkpoints of {quoted(arguments.continue_from)}.")
    lines += [*_describe_folder(arguments), *_list_offers(preview), *list_files(files), *notes]
    print_plain("\n".join(lines))


def _print_sent(arguments: argparse.Namespace, job: JobView, preview: Preview, lines: list[str]) -> None:
    """Print the lines about the files of a job that was sent, and when it probably starts.

    Standard output gets them unless JSON or the outputs of the job follow there.
    """
    is_json = arguments.output == "json"
    if not is_json or arguments.follow or arguments.wait:
        lines = [*lines, f"{describe_job(job)} was sent to {job.queue}."]
        lines.append(_describe_preview(preview, word_as_waiting(preview.sentence)))
    print_plain("\n".join(lines), sys.stderr if is_json or arguments.follow else sys.stdout)


async def _follow(client: PatientClient, arguments: argparse.Namespace, job: JobView, files: FilesPlan) -> int:
    """Follow a job that was sent if the options ask for it, and print what they ask for; return the exit code."""
    is_json = arguments.output == "json"
    if arguments.follow:
        return await follow_to_end(client, job, JsonPrinter() if is_json else TextPrinter())
    code: int = ExitCode.OK
    if arguments.wait:
        code = await follow_to_end(client, job, StatePrinter())
        job = await client.job(job.id) if is_json else job
    if is_json:
        print_json(job, files_plan=files)
    elif not arguments.wait:
        print_plain(f"`jupyter-gq logs -f {job.id}` follows it.")
    return code


async def _choose_queue(client: PatientClient) -> str:
    """Return the only queue that the user may use; raise `CommandRefused` if there is none or a choice."""
    queues = await client.queues()
    if len(queues.own) != 1:
        raise CommandRefused(queues.ask_for_one("--queue"))
    return queues.own[0]


def _describe_preview(preview: Preview, sentence: str) -> str:
    """Return what happens to a job, as the sentence says, with its place in the queue and its start."""
    place = "" if preview.position is None else f" Place in the queue: {preview.position}."
    return f"{sentence}{place}{_describe_start(preview)}"


def _describe_software(software: str) -> list[str]:
    """Return a line about the software that was chosen; none without a choice."""
    return [f"It would run with the software {quoted(software)}."] if software else []


def _describe_folder(arguments: argparse.Namespace) -> list[str]:
    """Return a line about a working folder that only the machine of the job knows; none for one that was looked at."""
    if arguments.folder is None or is_on_this_machine(find_login(arguments.url).url):
        return []
    return [f"Whether the folder {quoted(arguments.folder)} can be used is known only when the job is sent or runs."]


def _list_offers(preview: Preview) -> list[str]:
    """Return a line for each alternative, with the options that ask for it."""
    return [f"  {offer.sentence} ({_describe_options(offer)})" for offer in preview.alternatives]


def _describe_start(preview: Preview) -> str:
    """Return when a job that would wait probably starts, or that this is not known; "" if it starts now."""
    if preview.starts_now:
        return ""
    if preview.expected_start is None:
        return " Its start is not known."
    return f" {describe_start(preview.expected_start, now())}"


def _describe_options(offer: Alternative) -> str:
    """Return the options of the command that ask for an alternative."""
    model = "" if offer.gpu_model is None else f" --gpu-model {shlex.quote(offer.gpu_model)}"
    return f"--queue {offer.queue} --gpus {offer.gpus}{model}"
