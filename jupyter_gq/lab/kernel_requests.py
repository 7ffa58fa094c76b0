"""The requests of kernels about jobs: what a kernel sends, and the answers. No token and no pickle is read here.

See docs/decisions/0127-let-kernels-send-jobs-through-the-socket.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from jupyter_gq.client.models import JobView
from jupyter_gq.client.output_text import OutputText, render
from jupyter_gq.client.outputs import Output, fold
from jupyter_gq.client.problems import ServiceError
from jupyter_gq.domain.json_types import JsonObject, JsonValue

from .refusal import RefusedRequest
from .requests import JobFields, PrefixCell, SendRequest, parse

if TYPE_CHECKING:
    from .service_connection import ServiceConnection

#: Media type of the value that a call returned; `notebook/pickled_call.py` shows it.
VALUE_MIME = "application/vnd.jupyter-gq.value+json"
#: Number of the last pieces of output among which the value of a call, or the error of a job, is looked for.
TAIL = 200
#: Id of the target cell of a job that no cell of the notebook stands for.
CALL_CELL = "call"


class KernelJob(JobFields):
    """A job that code in a kernel sends: cells that run first, and the cell whose outputs count."""

    kernel_id: str
    cwd: str = Field(description="Absolute working folder.")
    queue: str = Field(default="", description='"": the only queue of the user.')
    setup: list[str] = Field(default_factory=list, description="Sources of the cells that run first.")
    source: str = Field(description="Source of the target cell.")


class KernelRequests:
    """The answers to requests of kernels about jobs."""

    def __init__(self, connection: ServiceConnection) -> None:
        self._connection, self._service = connection, connection.service

    async def send(self, body: object) -> JobView:
        """Submit the job in `body` and return it.

        If the service runs jobs where variables cannot be brought back, the job is sent without them. Raises
        `RefusedRequest` if the body is no valid request or the cells cannot run, and `ServiceError` if the service
        refuses the job.
        """
        request = await self._make_request(parse(KernelJob, body))
        try:
            job, _ = await self._connection.submit(request)
        except ServiceError as error:
            if error.problem.code != "returns_unsupported":
                raise
            job, _ = await self._connection.submit(request.model_copy(update={"returns": []}))
        return job

    async def read_text(self, job: str) -> JsonObject:
        """Return the outputs of a job as text, and the traceback of its error, "" if there is none."""
        text, lines, cells, after = OutputText(), list[str](), dict[str, list[Output]](), 0
        while (page := await self._service.outputs(job, after)).events:
            lines += text.add(page.events)
            fold(page.events, cells)
            after = page.events[-1]["seq"]
        lines += text.end()
        errors = [output for outputs in cells.values() for output in outputs if output["output_type"] == "error"]
        return {"text": "\n".join(lines), "error": render(errors[-1:])}

    async def read_value(self, job: str) -> JsonObject:
        """Return the number, text or dict that a call has shown as its value; None if it has shown none.

        The value is among the last pieces of output, so a long log costs nothing.
        """
        last = (await self._service.job(job)).last_seq
        page = await self._service.outputs(job, max(0, last - TAIL))
        values = [value for event in page.events if (value := _find_value(event)) is not None]
        return {"value": values[-1] if values else None}

    async def _make_request(self, asked: KernelJob) -> SendRequest:
        """Return the request as a page would send it, for the notebook of the kernel."""
        return SendRequest(
            **{**asked.model_dump(exclude={"setup", "source"}), "queue": asked.queue or await self._choose_queue()},
            notebook_path=await self._connection.find_notebook(asked.kernel_id),
            notebook=_make_document(asked.source),
            targets=[CALL_CELL],
            prefix=[PrefixCell(cell_id=f"setup-{n}", source=each, ran=False) for n, each in enumerate(asked.setup, 1)],
        )

    async def _choose_queue(self) -> str:
        """Return the only queue that the user may use; raise `RefusedRequest` if there is none or a choice."""
        queues = [queue.name for queue in (await self._service.queues()).queues if queue.member]
        if len(queues) != 1:
            names = f"Yours are {', '.join(queues)}." if queues else "You may use none; ask your administrator."
            raise RefusedRequest("unknown_queue", f"Which queue? Name it with queue. {names}", field="queue")
        return queues[0]


def _find_value(event: JsonObject) -> JsonValue:
    """Return the value that a piece of output shows; None if it shows none."""
    output = event.get("output")
    if event.get("op") != "append" or not isinstance(output, dict):
        return None
    shown = (output.get("data") or {}).get(VALUE_MIME)
    return shown.get("value") if isinstance(shown, dict) else None


def _make_document(source: str) -> JsonObject:
    """Return a notebook whose only cell has this source."""
    cell = {"cell_type": "code", "id": CALL_CELL, "metadata": {}, "source": source}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
