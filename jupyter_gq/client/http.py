"""The HTTP client of the scheduler service: one typed method for each route of its API."""

import json
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from jupyter_gq.domain.json_types import JsonObject

from . import models
from .problems import PlainProblem, ServiceError, ServiceUnavailable
from .sse import SseConnection
from .transport import Answer, Transport, join_path

__all__ = ["ServiceClient", "ServiceError", "ServiceUnavailable"]

Model = TypeVar("Model", bound=BaseModel)
#: The service's name for a user's default server, whose name is empty.
DEFAULT_SERVER = "-"


class ServiceClient:
    """The service as seen by the holder of `token` (a Hub token with the service's scopes).

    `url` is the address of the service with its prefix. Every method raises `ServiceError` when the service
    refuses (`.status`, `.problem.code`, `.problem.message`, `.problem.field`), and `ServiceUnavailable`, a
    subclass of it, when nobody answers within `timeout` seconds or an answer of 502, 503 or 504 comes.
    Nothing is retried. Use it in one event loop; `close` when done.
    """

    def __init__(self, url: str, token: str, timeout: float = 20.0) -> None:
        self._transport = Transport(url, token, timeout)

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._transport.url

    def close(self) -> None:
        """Release the connections."""
        self._transport.close()

    # The service and its queues

    async def health(self) -> models.Health:
        """Return whether the service is up; needs no token."""
        return await self._get(models.Health, "health")

    async def metrics(self) -> str:
        """Return figures in Prometheus' text form; for admins and services."""
        return (await self._transport.request("GET", "metrics")).body.decode()

    async def me(self) -> models.Me:
        """Return quota, choices and queues of the user."""
        return await self._get(models.Me, "me")

    async def queues(self) -> models.QueueList:
        """Return the queues that the user may see."""
        return await self._get(models.QueueList, "queues")

    async def devices(self) -> models.DeviceList:
        """Return all devices."""
        return await self._get(models.DeviceList, "devices")

    async def drains(self) -> models.DrainList:
        """Return the nodes and devices that are taken out of service; for admins."""
        return await self._get(models.DrainList, "drains")

    async def drain(self, name: str) -> models.DrainView:
        """Take a node or device out of service; 409 if it is drained already; for admins."""
        return self._read(models.DrainView, await self._send("POST", "drains", models.DrainRequest(name=name)))

    async def undrain(self, name: str) -> models.DrainView:
        """Put a node or device back into service; 409 if it is not drained; for admins."""
        return self._read(models.DrainView, await self._transport.request("DELETE", join_path("drains", name)))

    async def state(self) -> str:
        """Return the scheduler's input and decision as JSON text, for `client.state.read_state`; for admins."""
        return (await self._transport.request("GET", "state")).body.decode()

    # Jobs

    async def jobs(
        self, *, limit: int | None = None, before: str | None = None, owner: str | None = None
    ) -> models.JobList:
        """Return jobs, newest first; `owner` ("*" = everybody) is for admins."""
        return await self._get(models.JobList, "jobs", limit=limit, before=before, owner=owner)

    async def preview(self, request: models.JobRequest) -> models.Preview:
        """Return what would happen if this job were sent now."""
        return self._read(models.Preview, await self._send("POST", "jobs/preview", request))

    async def submit(self, submission: models.JobSubmission, key: str | None = None) -> tuple[models.JobView, bool]:
        """Send a job; the second value is False if this `key` was seen before and the job is that one."""
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = await self._send("POST", "jobs", submission, headers)
        return self._read(models.JobView, answer), answer.status == 201

    async def job(self, job: str) -> models.JobView:
        """Return a job."""
        return await self._get(models.JobView, join_path("jobs", job))

    async def cancel(self, job: str) -> models.JobView:
        """End a job for good; 409 if it has ended."""
        return self._read(models.JobView, await self._transport.request("DELETE", join_path("jobs", job)))

    async def outputs(self, job: str, after: int = 0) -> models.OutputPage:
        """Return at most 1000 pieces of output with numbers above `after`."""
        return await self._get(models.OutputPage, join_path("jobs", job, "outputs"), after=after)

    async def notebook(self, job: str) -> JsonObject:
        """Return the executed notebook so far; 404 before there is one."""
        answer = await self._transport.request("GET", join_path("jobs", job, "notebook"))
        document: JsonObject = answer.json()
        return document

    async def log(self, job: str) -> str:
        """Return the end of the log of the job's last run."""
        return (await self._transport.request("GET", join_path("jobs", job, "log"))).body.decode("utf-8", "replace")

    # Notebooks and their shares

    async def open_ticket(self, request: models.TicketRequest) -> models.TicketView:
        """Ask for a share for a server; asking again gives the same ticket. 403 beyond the fixed quota."""
        return self._read(models.TicketView, await self._send("POST", "tickets", request))

    async def ticket(self, ticket: str) -> models.TicketView:
        """Return a ticket as it is now; asking keeps it alive."""
        return await self._get(models.TicketView, join_path("tickets", ticket))

    async def close_ticket(self, ticket: str) -> None:
        """Give the share, or the place in the line, back."""
        await self._transport.request("DELETE", join_path("tickets", ticket))

    async def attach(self, ticket: str, report: models.ProcessReport) -> None:
        """Say which process holds the share."""
        await self._send("PUT", join_path("tickets", ticket, "process"), report)

    async def server_devices(self, ticket: str, wait: float) -> models.TaskDeviceCheck:
        """Return whether a ticket's server sees its own devices and no others, known within `wait` seconds."""
        return await self._get(models.TaskDeviceCheck, join_path("tickets", ticket, "devices"), wait=int(wait))

    async def notebooks(self, *, owner: str | None = None) -> models.NotebookList:
        """Return notebooks that are alive or wait; `owner` ("*" = everybody) is for admins."""
        return await self._get(models.NotebookList, "notebooks", owner=owner)

    async def report_activity(self, server: str, report: models.ActivityReport) -> None:
        """Say what the kernels of a server ("" = the default one) do."""
        await self._send("POST", join_path("servers", server or DEFAULT_SERVER, "activity"), report)

    async def keep(self, server: str) -> models.NotebookView:
        """Answer an idle warning with "Keep it"; 409 if there is none, or the bound is reached."""
        path = join_path("servers", server or DEFAULT_SERVER, "keep")
        return self._read(models.NotebookView, await self._transport.request("POST", path))

    # Events

    async def events(
        self, after: int | None = None, on_open: Callable[[], None] | None = None
    ) -> AsyncGenerator[models.ServiceEvent, None]:
        """Yield changes as they happen, over one connection, which never ends without an exception.

        `after` is the highest `id` seen so far: the stream begins with what came since, or with an event of kind
        "reset" if that is no longer known. None begins with now. `on_open` is called once the service has accepted.
        Raises `ServiceUnavailable` if the connection ends or is silent: wait (longer each time, with some chance in
        it), then call again with the last `id`. Close the generator (`aclose`) to end it early.
        """
        headers = self._transport.authorization()
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        connection = SseConnection(self._transport.address("events"), headers, on_open)
        try:
            while True:
                message = await connection.next()
                document = {"id": message.id, "kind": message.kind, "data": json.loads(message.data)}
                if message.kind in models.EVENT_NAMES:  # a newer service may know more kinds
                    yield self._validated(models.ServiceEvent, document)
        finally:
            await connection.close()

    # How

    async def _get(self, model: type[Model], path: str, **query: object) -> Model:
        return self._read(model, await self._transport.request("GET", path, query=query))

    async def _send(self, method: str, path: str, body: BaseModel, headers: dict[str, str] | None = None) -> Answer:
        content = body.model_dump_json().encode()
        return await self._transport.request(method, path, body=content, headers=headers)

    def _read(self, model: type[Model], answer: Answer) -> Model:
        try:
            document = answer.json()
        except ValueError as error:
            raise self._unexpected(model) from error
        return self._validated(model, document)

    def _validated(self, model: type[Model], document: object) -> Model:
        try:
            return model.model_validate(document)
        except ValidationError as error:
            raise self._unexpected(model) from error

    def _unexpected(self, model: type[BaseModel]) -> ServiceError:
        return ServiceError(
            502,
            PlainProblem(
                code="unexpected_answer",
                message=f"The answer of {self.url} is not the {model.__name__} that was asked for: "
                "the service and this client may be of different versions.",
            ),
        )
