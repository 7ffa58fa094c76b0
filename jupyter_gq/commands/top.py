"""`jupyter-gq top`: show devices, queues, notebooks and jobs, again and again on a terminal."""

import argparse
import asyncio
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import BaseModel

from jupyter_gq.client.connection.http import ServiceClient, ServiceUnavailable
from jupyter_gq.client.connection.pages import read_all_notebooks
from jupyter_gq.client.models import DeviceView, JobSummary, NotebookList, NotebookView, QueueView
from jupyter_gq.domain.phases import ENDED
from jupyter_gq.domain.plain_text import strip_controls

from .clock import now
from .connecting.connection import add_service_arguments, ask_service
from .connecting.patience import PatientClient
from .job_lists import format_jobs, list_jobs
from .printing.answers import add_output_argument, print_json, print_lines
from .printing.tables import cut_lines, format_table
from .queues import format_queues
from .refusal import ExitCode

_INTERVAL = 2.0
#: Notebooks of a page of their list.
_PAGE = 200
#: Terminal sequences: to the top left corner, and erase everything below.
_HOME, _ERASE = "\x1b[H", "\x1b[J"


class Overview(BaseModel):
    """Devices, queues, notebooks, and the jobs that have not ended, each as the API shows them."""

    devices: list[DeviceView]
    queues: list[QueueView]
    notebooks: list[NotebookView]
    jobs: list[JobSummary]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq top`."""
    parser.add_argument("--once", action="store_true", help="show one picture and end; so it does without a terminal")
    parser.add_argument("--owner", help='for administrators: notebooks and jobs of this user, or with "*" of everybody')
    add_output_argument(parser, "an object with the lists `devices`, `queues`, `notebooks` and `jobs` of the API")
    add_service_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show devices, queues, notebooks and jobs: on a terminal until Ctrl+C, otherwise once; return 0.

    Raises `CommandRefused` if the service cannot be asked or refuses.
    """
    again = sys.stdout.isatty() and not arguments.once and arguments.output != "json"
    return ask_service(arguments, lambda client: _show(client, arguments, again=again))


async def _show(client: PatientClient, arguments: argparse.Namespace, *, again: bool) -> int:
    overview = await read_overview(client, arguments.owner)
    if arguments.output == "json":
        print_json(overview)
        return ExitCode.OK
    owners = arguments.owner is not None
    if not again:
        print_lines(format_overview(overview, now(), owners=owners))
        return ExitCode.OK
    trouble, client.patience.longest = "", 0.0  # from now on, the picture says that nobody answers
    while True:
        _draw([*format_overview(overview, now(), owners=owners), "", trouble or "Ctrl+C ends this."])
        await asyncio.sleep(_INTERVAL)
        try:
            overview, trouble = await read_overview(client, arguments.owner), ""
        except ServiceUnavailable:
            trouble = "The service does not answer; this is the last known state."


async def read_overview(client: ServiceClient, owner: str | None) -> Overview:
    """Return the present devices and queues, all notebooks, and the jobs that have not ended."""
    devices, queues, notebooks, jobs = await asyncio.gather(
        client.devices(), client.queues(), _list_notebooks(client, owner), list_jobs(client, owner)
    )
    return Overview(
        devices=devices.devices,
        queues=queues.queues,
        notebooks=notebooks.notebooks,
        jobs=[job for job in jobs.jobs if job.phase not in ENDED],
    )


async def _list_notebooks(client: ServiceClient, owner: str | None) -> NotebookList:
    return await read_all_notebooks(lambda before: client.notebooks(limit=_PAGE, before=before, owner=owner))


def format_overview(overview: Overview, now: float, *, owners: bool) -> list[str]:
    """Return the lines of the picture at the time `now`; `owners` adds the owner of each notebook and job."""
    time = datetime.fromtimestamp(now, tz=UTC).astimezone().strftime("%H:%M:%S")
    jobs = ["No job waits or runs."]
    if overview.jobs:
        jobs = format_jobs(overview.jobs, now, width=None, owners=owners, use=True)
    queues = format_queues(overview.queues, width=None) if overview.queues else ["You may use no queue."]
    notebooks = _format_notebooks(overview.notebooks, owners=owners)
    return [f"jupyter-gq at {time}", "", *_format_devices(overview.devices), "", *queues, "", *jobs, *notebooks]


def _format_notebooks(notebooks: Sequence[NotebookView], *, owners: bool) -> list[str]:
    """Return the notebook servers as lines of a table with an empty line before it; no lines without a server."""
    if not notebooks:
        return []
    rows = [["SERVER", *(["OWNER"] if owners else []), "STATE", "GPUS", "REASON"]]
    for notebook in notebooks:
        owner = [notebook.owner] if owners else []
        rows.append([notebook.server or "-", *owner, _describe_phase(notebook), notebook.gpus, notebook.sentence])
    return ["", *format_table(rows, {2 + owners})]


def _describe_phase(notebook: NotebookView) -> str:
    """Return the state of a notebook, with its place in line if others are before it, such as "suspended, place 2"."""
    waits = notebook.suspension
    place = notebook.position or (waits.position if waits is not None else None)
    return notebook.phase if place is None or place == 1 else f"{notebook.phase}, place {place}"


def _format_devices(devices: Sequence[DeviceView]) -> list[str]:
    """Return the devices as lines of a table; `HOLDERS` are shown to administrators only."""
    rows = [["GPU", "MODEL", "POOL", "USED", "STATE", "HOLDERS"]]
    for device in devices:
        state = "unhealthy" if not device.healthy else "draining" if device.draining else "ok"
        holders = ", ".join(" ".join(holder.values()) for holder in device.holders)
        rows.append([str(device.index), device.model, device.pool or "-", device.used, state, holders])
    return format_table(rows, {3})


def _draw(lines: Sequence[str]) -> None:
    """Draw the lines over the terminal, cut to its size."""
    size = shutil.get_terminal_size()
    shown = cut_lines([strip_controls(line) for line in lines[: size.lines - 1]], size.columns)
    sys.stdout.write(_HOME + "".join(f"{line}\x1b[K\n" for line in shown) + _ERASE)
    sys.stdout.flush()
