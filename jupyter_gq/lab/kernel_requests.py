"""The requests of kernels about jobs: what a kernel sends, and the answers. No token and no pickle is read here.

See docs/decisions/0127-let-kernels-send-jobs-through-the-socket.md.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, Field

from jupyter_gq.client.connection.http import ServiceClient, ServiceError
from jupyter_gq.client.connection.named_jobs import find_job
from jupyter_gq.client.connection.pages import read_all_jobs
from jupyter_gq.client.models import JobView
from jupyter_gq.client.outputs.fold import Fold
from jupyter_gq.client.outputs.output_text import OutputText, render
from jupyter_gq.domain.errors import NotFound
from jupyter_gq.domain.job_names import CALL_CELL, SETUP_CELL
from jupyter_gq.domain.json_types import JsonObject, JsonValue

from .kernels.history import KernelHistory
from .plan.cell_notes import describe_failed, describe_warnings
from .project.plan import EMPTY_FOLDER, list_gaps
from .refusal import RefusedRequest
from .requests import CellsRequest, JobFields, Plan, PrefixCell, SendRequest, parse

if TYPE_CHECKING:
    from .kernels.watch import KernelWatch

#: Media type of the value that a call returned; `notebook/pickled_call.py` shows it.
VALUE_MIME = "application/vnd.jupyter-gq.value+json"
#: Number of the last pieces of output among which the value of a call, or the error of a job, is looked for.
TAIL = 200
#: In place of the path of the notebook, for a kernel that no notebook and no console has.
NO_NOTEBOOK = "kernel"
#: Number of jobs that are asked for at once.
_PAGE = 500

#: Pause in seconds, and number of attempts, until the kernel has announced the cell that sends itself.
KNOWN_AFTER, KNOWN_TRIES = 0.05, 30


class KernelJob(JobFields):
    """A job that code in a kernel sends: cells that run first, and the cell whose outputs count."""

    kernel_id: str
    cwd: str = Field(description="Absolute working folder.")
    queue: str = Field(default="", description='"": the only queue of the user.')
    setup: list[str] = Field(default_factory=list, description="Sources of the cells that run first.")
    source: str = Field(description="Source of the target cell.")
    code: str | None = Field(default=None, description="The whole cell that sends itself; None: no cell does.")
    cell_id: str = Field(default="", description="Id of that cell, if the page has told it to the kernel.")
    replay: bool = Field(default=False, description="Whether the cells run first that ran in the kernel before.")
    file_patterns: list[str] = Field(
        default_factory=list, max_length=100, description="Files that go along too, as in `CellsRequest`."
    )


class SentJob(BaseModel):
    """The answer to a kernel that has sent a job."""

    job: JobView
    notes: list[str] = Field(default_factory=list, description="Sentences for the user.")


class JobSender(Protocol):
    """The connection to the service, as far as requests of kernels need it; see `ServiceConnection`."""

    service: ServiceClient

    async def submit(self, request: SendRequest) -> tuple[JobView, bool]:
        """Make the bundle of a checked request and submit the job; return it, and whether it is new."""
        ...

    async def describe(self, request: CellsRequest) -> Plan:
        """Return the cells that would run for a checked request, with warnings."""
        ...

    async def read_notebook(self, path: str) -> JsonObject:
        """Return the notebook in the file at this path; an empty one if there is none."""
        ...

    async def find_notebook(self, kernel_id: str) -> str:
        """Return the path of the notebook or console that has this kernel; `NO_NOTEBOOK` if there is none."""
        ...


class KernelRequests:
    """The answers to requests of kernels about jobs."""

    def __init__(self, connection: JobSender, watch: KernelWatch) -> None:
        self._connection, self._service, self._watch = connection, connection.service, watch

    async def send(self, body: object) -> SentJob:
        """Submit the job in `body` and return it, with notes on the cells that run.

        Raises `RefusedRequest` if the body is no valid request or the cells cannot run, and `ServiceError` if the
        service refuses the job.
        """
        asked = parse(KernelJob, body)
        if asked.code is None:
            request = await self._make_request(asked)
            notes = _list_file_notes(await self._connection.describe(request))
        else:
            request, notes = await self._make_cell_request(asked, asked.code)
        job, _ = await self._connection.submit(request)
        return SentJob(job=job, notes=notes)

    async def list_jobs(self, group: str | None) -> JsonObject:
        """Return all jobs of the user, or only those of a group if it is not None, newest first."""
        listed = await read_all_jobs(lambda before: self._service.jobs(limit=_PAGE, before=before, group=group))
        return {"jobs": [job.model_dump() for job in listed.jobs]}

    async def read_job(self, job: str) -> JobView:
        """Return the job that a text names, as `named_jobs.find_job` does; raise `RefusedRequest` if it is not one."""
        try:
            return await find_job(self._service, job, listed_by="%gq_jobs --all")
        except NotFound as error:
            raise RefusedRequest("not_found", str(error), status=404) from None

    async def read_text(self, job: str) -> JsonObject:
        """Return the outputs of a job as text, and the traceback of its error, "" if there is none."""
        text, lines, folded, after = OutputText(), list[str](), Fold(), 0
        while (page := await self._service.outputs(job, after)).events:
            lines += text.add(page.events)
            folded.add(page.events)
            after = page.events[-1]["seq"]
        lines += text.end()
        shown = [output for outputs in folded.outputs.values() for output in outputs]
        errors = [output for output in shown if output["output_type"] == "error"]
        return {"text": "\n".join(lines), "error": render(errors[-1:])}

    async def read_value(self, job: str) -> JsonObject:
        """Return the number, text or dict that a call has shown as its value, or else the numbers that a job returns.

        None if there are none. The value is among the last pieces of output, so a long log costs nothing.
        """
        last = (await self._service.job(job)).last_seq
        page = await self._service.outputs(job, max(0, last - TAIL))
        values = [value for event in page.events if (value := _find_value(event)) is not None]
        return {"value": values[-1] if values else await self._read_numbers(job)}

    async def _read_numbers(self, job: str) -> JsonValue:
        """Return the variables of a finished job that are numbers, by name; None if there are none."""
        try:
            variables = (await self._service.results(job)).variables
        except ServiceError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        return {each.name: each.number for each in variables if each.number is not None} or None

    async def _make_request(self, asked: KernelJob) -> SendRequest:
        """Return the request for cells that are in no notebook, as a page would send it."""
        notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [_make_cell(CALL_CELL, asked.source)]}
        prefix = [
            PrefixCell(cell_id=f"{SETUP_CELL}{n}", source=each, ran=False) for n, each in enumerate(asked.setup, 1)
        ]
        path = await self._connection.find_notebook(asked.kernel_id)
        return await self._complete(
            asked,
            notebook_path=path,
            notebook=notebook,
            targets=[CALL_CELL],
            prefix=prefix,
            # The code of the function is in a pickle: whether it would miss something elsewhere is not known.
            live_folder=not asked.file_patterns,
        )

    async def _make_cell_request(self, asked: KernelJob, code: str) -> tuple[SendRequest, list[str]]:
        """Return the request for a cell that sends itself, with the cells that ran before, and notes for the user."""
        history = await self._wait_for_cell(asked.kernel_id, code)
        is_known = _runs_now(history, code)
        target = asked.cell_id or (history.cells[-1].cell_id if is_known else "") or CALL_CELL
        before = [cell for cell in history.cells if cell.seconds is not None and asked.replay and not cell.failed]
        path = await self._connection.find_notebook(asked.kernel_id)
        request = await self._complete(
            # Cells that run first begin as here: where the kernel was started, whatever its folder is now.
            asked.model_copy(update={"cwd": None}) if asked.replay and path != NO_NOTEBOOK else asked,
            notebook_path=path,
            notebook=_put_cell(await self._connection.read_notebook(path), target, asked.source),
            targets=[target],
            prefix=[
                PrefixCell(cell_id=cell.cell_id or f"history-{n}", source=cell.code, seconds=cell.seconds)
                for n, cell in enumerate(before, 1)
            ],
        )
        plan = await self._connection.describe(request)
        notes = describe_warnings(plan.warnings, before, target)
        notes += _list_file_notes(plan)
        notes += describe_failed(history.cells, target) if asked.replay else []
        if asked.replay and not (history.complete and is_known):
            notes.append("Not everything that ran in this kernel is known, so the job may lack some of it.")
        return request, notes

    async def _wait_for_cell(self, kernel_id: str, code: str) -> KernelHistory:
        """Return the history of a kernel once the cell with this code runs, or after a moment.

        The kernel announces its executions in order, so everything before is known then as well.
        """
        history = None
        for _ in range(KNOWN_TRIES):
            history = self._watch.get_history(kernel_id)
            if history is None or _runs_now(history, code):
                break
            await asyncio.sleep(KNOWN_AFTER)
        return history or KernelHistory(cells=(), complete=False)

    async def _complete(self, asked: KernelJob, **cells: object) -> SendRequest:
        """Return a request for these cells with the fields of the job, in the only queue if none is named."""
        fields = asked.model_dump(exclude={"setup", "source", "code", "cell_id", "replay"})
        return SendRequest.model_validate({**fields, **cells, "queue": asked.queue or await self._choose_queue(asked)})

    async def _choose_queue(self, asked: KernelJob) -> str:
        """Return the only queue that the user may use; raise `RefusedRequest` if there is none or a choice."""
        queues = await self._service.queues()
        if len(queues.own) != 1:
            raise RefusedRequest("unknown_queue", queues.ask_for_one(_name_queue_option(asked)), field="queue")
        return queues.own[0]


def _name_queue_option(asked: KernelJob) -> str:
    """Return how the user names the queue: as an option of `%%train`, or as an argument of a call."""
    return "queue" if asked.code is None else "--queue"


def _list_file_notes(plan: Plan) -> list[str]:
    """Return a sentence for each file that the job will lack, and for each pattern that takes no file along.

    The first sentence says that the folder of the job will be empty, if it will.
    """
    return [note for note in plan.files.notes if note == EMPTY_FOLDER] + list_gaps(plan.files)


def _find_value(event: JsonObject) -> JsonValue:
    """Return the value that a piece of output shows; None if it shows none."""
    output = event.get("output")
    if event.get("op") != "append" or not isinstance(output, dict):
        return None
    shown = (output.get("data") or {}).get(VALUE_MIME)
    return shown.get("value") if isinstance(shown, dict) else None


def _runs_now(history: KernelHistory, code: str) -> bool:
    """Return whether the last execution of a kernel has this code and has not ended."""
    return bool(history.cells) and history.cells[-1].seconds is None and history.cells[-1].code == code


def _put_cell(notebook: JsonObject, cell_id: str, source: str) -> JsonObject:
    """Return a copy of a notebook in which the cell with this id has this source; a new cell comes last."""
    cells = [*(notebook.get("cells") or [])]
    place = next((place for place, cell in enumerate(cells) if cell.get("id") == cell_id), len(cells))
    cells[place : place + 1] = [_make_cell(cell_id, source)]
    return {**notebook, "cells": cells}


def _make_cell(cell_id: str, source: str) -> JsonObject:
    return {"cell_type": "code", "id": cell_id, "metadata": {}, "source": source}
