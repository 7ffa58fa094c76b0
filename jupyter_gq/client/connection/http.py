"""The HTTP client of the scheduler service: one typed method for each route of its API."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from jupyter_gq.client import models
from jupyter_gq.client.problems import PlainProblem, ServiceError, ServiceUnavailable
from jupyter_gq.domain.json_types import JsonObject

from .older_service import write_preview, write_submission
from .sse import SseConnection
from .transport import Answer, Transport, join_path

__all__ = ["ServiceClient", "ServiceError", "ServiceUnavailable"]

Model = TypeVar("Model", bound=BaseModel)
#: The service's name for a user's default server, whose name is empty.
DEFAULT_SERVER = "-"
#: Bytes from which an answer is read in another thread, which takes a moment itself.
LONG_ANSWER = 64 * 1024


class ServiceClient:
    """A client of the service for the holder of `token`, a Hub token with the service's scopes.

    `url` is the address of the service with its prefix; see `service_address` for its forms. Every method raises
    `ServiceError` if the service refuses (`.status`, `.problem.code`, `.problem.message`, `.problem.field`). The
    subclass `ServiceUnavailable` means that nobody answered within `timeout` seconds, that the answer was 502, 503 or
    504, or that another program listens at the service's socket. Nothing is retried. Use a client in one
    event loop, and `close` it at the end.
    """

    def __init__(self, url: str, token: str, timeout: float = 20.0) -> None:
        self._transport = Transport(url, token, timeout)
        #: Fields of a job that the service has told; None before it was asked.
        self._known: Collection[str] | None = None

    @property
    def url(self) -> str:
        """The place of the service for people: its URL, or the path of its socket."""
        return self._transport.url

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        self._transport.close()

    # The service and its queues

    async def health(self) -> models.Health:
        """Return the health of the service, with the reasons if the token is an admin's; no token is needed.

        A service in bad health is not an error: the status is then "degraded".
        """
        return await self._get(models.Health, "health")

    async def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus; for admins and services."""
        return (await self._transport.request("GET", "metrics")).body.decode()

    async def me(self) -> models.Me:
        """Return the data of the options page for the token's user: quota, choices, queues, pools, last eviction."""
        return await self._get(models.Me, "me")

    async def queues(self) -> models.QueueList:
        """Return the queues of which the user is a member and the queues above them; for admins, all queues."""
        return await self._get(models.QueueList, "queues")

    async def devices(self) -> models.DeviceList:
        """Return all devices with their use; only admins see who holds them."""
        return await self._get(models.DeviceList, "devices")

    async def nodes(self) -> models.NodeList:
        """Return what each node of a cluster can do; status 404 if the service has no agents; for admins."""
        return await self._get(models.NodeList, "nodes")

    async def drains(self) -> models.DrainList:
        """Return the drains of nodes and devices, the oldest first; for admins."""
        return await self._get(models.DrainList, "drains")

    async def drain(self, name: str) -> models.DrainView:
        """Drain a node or device: it takes nothing new from now on. Status 409 if it is drained already; for admins."""
        return await self._read(models.DrainView, await self._send("POST", "drains", models.DrainRequest(name=name)))

    async def undrain(self, name: str) -> models.DrainView:
        """Put a drained node or device back into service; status 409 if it is not drained; for admins."""
        return await self._read(models.DrainView, await self._transport.request("DELETE", join_path("drains", name)))

    async def audit(self, **wanted: str | int | None) -> models.AuditPage:
        """Return a page of the audit log; for admins. `wanted` are the query parameters of the route, by name."""
        return await self._get(models.AuditPage, "audit", **wanted)

    async def state(self) -> str:
        """Return the scheduler's input and its decision as JSON text, for `client.state.read_state`; for admins."""
        return (await self._transport.request("GET", "state")).body.decode()

    # Jobs

    async def jobs(
        self,
        *,
        limit: int | None = None,
        before: str | None = None,
        owner: str | None = None,
        group: str | None = None,
    ) -> models.JobList:
        """Return one page of the user's jobs, newest first: at most `limit` jobs, by default 50.

        `before` is the field `next` of the previous page. `owner` is for admins: another user's name, or "*" for
        everybody. `group` selects the jobs of one group, such as a sweep.
        """
        return await self._get(models.JobList, "jobs", limit=limit, before=before, owner=owner, group=group)

    async def newest_job(self) -> models.JobSummary | None:
        """Return the job that the user has sent last; None if there is none."""
        return next(iter((await self.jobs(limit=1)).jobs), None)

    async def jobs_of_queue(self, queue: str, limit: int | None = None, before: str | None = None) -> models.JobList:
        """Return one page of the unfinished jobs of all users in a queue and those below it, newest first.

        For managers of the queue and admins; status 404 for others. For `limit` and `before` see `jobs`.
        """
        return await self._get(models.JobList, join_path("queues", queue, "jobs"), limit=limit, before=before)

    async def preview(self, request: models.JobRequest) -> models.Preview:
        """Return what would happen if this job were sent now; nothing is stored."""
        return await self._read(
            models.Preview, await self._transport.request("POST", "jobs/preview", body=write_preview(request))
        )

    async def submit(self, submission: models.JobSubmission, key: str | None = None) -> tuple[models.JobView, bool]:
        """Send a job to its queue; return the job, and whether it is new.

        What an older service does not know is left out; see `older_service`.
        If the idempotency key was used before, the result is the earlier job and False.
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        body = write_submission(submission, self._known)
        answer = await self._transport.request("POST", "jobs", body=body, headers=headers)
        return await self._read(models.JobView, answer), answer.status == 201

    async def describe_files(self, parts: Sequence[str]) -> models.FileStore:
        """Return which of these parts of the user's files the service lacks, and its limits; at most 20,000 parts."""
        question = models.PartsQuestion(parts=list(parts))
        store = await self._read(models.FileStore, await self._send("POST", "files/missing", question))
        self._known = frozenset(store.fields)
        return store

    async def add_files(self, parts: Sequence[bytes]) -> None:
        """Send parts of the user's files: together at most 4 MiB, and at most 1000."""
        body = await asyncio.to_thread(_write_parts, parts)
        await self._transport.request("POST", "files", body=body)

    async def job(self, job: str) -> models.JobView:
        """Return the present view of a job; status 404 if there is none that the user may see."""
        return await self._get(models.JobView, join_path("jobs", job))

    async def cancel(self, job: str) -> models.JobView:
        """Cancel a job, and return it; a running job gets a moment to end. Status 409 if the job has ended."""
        return await self._read(models.JobView, await self._transport.request("DELETE", join_path("jobs", job)))

    async def delete(self, job: str) -> models.JobView:
        """Delete a job that has ended, with all that is kept of it, and return it. Status 409 if it has not ended."""
        answer = await self._transport.request("DELETE", join_path("jobs", job, "record"))
        return await self._read(models.JobView, answer)

    async def cancel_many(self, jobs: Sequence[str]) -> models.CancelledJobs:
        """Cancel at most `models.MOST_JOBS` jobs; return them, and the refused ones with their reasons."""
        selection = models.JobSelection(jobs=list(jobs))
        return await self._read(models.CancelledJobs, await self._send("POST", "jobs/cancel", selection))

    async def change(self, job: str, change: models.JobChange) -> models.JobView:
        """Change a job that has not ended, and return it.

        Status 409 if it has ended; 404 if the user is not its owner, a manager of its queue or an admin.
        """
        return await self._read(models.JobView, await self._send("PATCH", join_path("jobs", job), change))

    async def hold(self, job: str) -> models.JobView:
        """Hold a job, so that it does not run until its release, and return it; a running job is paused."""
        return await self.change(job, models.JobChange(held=True))

    async def release(self, job: str) -> models.JobView:
        """Release a held job into its queue, where it has its old place in line, and return it."""
        return await self.change(job, models.JobChange(held=False))

    async def move(self, job: str, queue: str) -> models.JobView:
        """Move a job that does not run to another queue, at its old place by submission, and return it."""
        return await self.change(job, models.JobChange(queue=queue))

    async def outputs(self, job: str, after: int = 0) -> models.OutputPage:
        """Return at most 1000 pieces of a job's output, in order, with numbers above `after`."""
        return await self._get(models.OutputPage, join_path("jobs", job, "outputs"), after=after)

    async def usage(self, job: str) -> models.JobUsage:
        """Return the GPU use of a job over time, as far as the service has measured it."""
        return await self._get(models.JobUsage, join_path("jobs", job, "usage"))

    async def notebook(self, job: str) -> JsonObject:
        """Return a job's executed notebook with the outputs so far; status 404 before there is one."""
        answer = await self._transport.request("GET", join_path("jobs", job, "notebook"))
        document: JsonObject = await asyncio.to_thread(answer.json)
        return document

    async def log(self, job: str, task: int | None = None) -> str:
        """Return the last 64 KiB of the log of the job's last run; "" if there is no log.

        With `task`, return the log of that task alone; status 404 if the job has no such task.
        """
        query = {} if task is None else {"task": task}
        answer = await self._transport.request("GET", join_path("jobs", job, "log"), query=query)
        return answer.body.decode("utf-8", "replace")

    async def log_size(self, job: str) -> models.JobLog:
        """Return which bytes of the log of each task of the job's last run are kept."""
        return await self._get(models.JobLog, join_path("jobs", job, "log", "size"))

    async def log_part(self, job: str, task: int, start: int) -> bytes:
        """Return the next bytes of a task's log from byte `start` on; empty at its end, status 409 if they are gone."""
        query = {"task": task, "start": start}
        return (await self._transport.request("GET", join_path("jobs", job, "log", "content"), query=query)).body

    async def log_lines(
        self, job: str, contains: str, *, task: int = 0, start: int = 0, line: int = 1
    ) -> models.LogLines:
        """Return the next lines of a task's log with the text `contains`, searched from byte `start` on.

        `start` and `line` are the `next` and the `next_line` of the answer before.
        """
        path = join_path("jobs", job, "log", "lines")
        return await self._get(models.LogLines, path, contains=contains, task=task, start=start, line=line)

    async def results(self, job: str) -> models.JobResults:
        """Return what a job brings back; status 404 before there is something."""
        return await self._get(models.JobResults, join_path("jobs", job, "results"))

    async def result_part(self, job: str, path: str, start: int) -> bytes:
        """Return the next bytes of a result of the user's own job from byte `start` on; empty at its end.

        `path` is that of a variable as `results` names it, or "files/" and the path of a file.
        """
        query = {"path": path, "start": start}
        return (await self._transport.request("GET", join_path("jobs", job, "results", "content"), query=query)).body

    # Notebooks and their shares

    async def open_ticket(self, request: models.TicketRequest) -> models.TicketView:
        """Ask for a share for one of the user's servers, and return its ticket; asking again returns the same ticket.

        Status 403 if the share is beyond the fixed quota.
        """
        return await self._read(models.TicketView, await self._send("POST", "tickets", request))

    async def ticket(self, ticket: str) -> models.TicketView:
        """Return the present view of a ticket; this poll keeps the ticket from lapsing."""
        return await self._get(models.TicketView, join_path("tickets", ticket))

    async def close_ticket(self, ticket: str) -> None:
        """End a ticket, which gives back its share or its place in the queue."""
        await self._transport.request("DELETE", join_path("tickets", ticket))

    async def attach(self, ticket: str, report: models.ProcessReport) -> None:
        """Report to the service which process holds the share of a ticket."""
        await self._send("PUT", join_path("tickets", ticket, "process"), report)

    async def server_devices(self, ticket: str, wait: float) -> models.TaskDeviceCheck:
        """Return whether a ticket's server sees its own devices and no others.

        The service waits up to `wait` seconds, cut to whole seconds, for the result of a pending check.
        """
        return await self._get(models.TaskDeviceCheck, join_path("tickets", ticket, "devices"), wait=int(wait))

    async def notebooks(
        self, *, limit: int | None = None, before: str | None = None, owner: str | None = None
    ) -> models.NotebookList:
        """Return one page of the user's notebooks that run or wait, newest first: at most `limit`, by default 50.

        `before` is the field `next` of the previous page. `owner` is for admins: another user's name, or "*" for
        everybody.
        """
        return await self._get(models.NotebookList, "notebooks", limit=limit, before=before, owner=owner)

    async def report_activity(self, server: str, report: models.ActivityReport) -> None:
        """Report the activity of the kernels of the user's server of that name; "" is the default server."""
        await self._send("POST", join_path("servers", server or DEFAULT_SERVER, "activity"), report)

    async def keep(self, server: str) -> models.NotebookView:
        """Postpone the eviction of the user's idle server by one step of "Keep it", and return its notebook.

        Status 409 if the server has no idle warning, or if "Keep it" has reached its bound.
        """
        path = join_path("servers", server or DEFAULT_SERVER, "keep")
        return await self._read(models.NotebookView, await self._transport.request("POST", path))

    # Events

    async def events(
        self, after: int | None = None, on_open: Callable[[], None] | None = None
    ) -> AsyncGenerator[models.ServiceEvent, None]:
        """Yield changes as they happen, over one connection, which never ends without an exception.

        `after` is the highest `id` seen so far: the stream begins with the events since then, or with an event of kind
        "reset" if these are no longer known. None begins with the next event. `on_open` is called once the service has
        accepted the connection. Raises `ServiceUnavailable` if the connection ends or is silent. Then wait, each time
        longer and for a random time, and call this again with the last `id`. Close the generator (`aclose`) to end it
        early.
        """
        headers = self._transport.authorization()
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        connection = SseConnection(self._transport.service, self._transport.address("events"), headers, on_open)
        try:
            while True:
                message = await connection.next()
                document = {"id": message.id, "kind": message.kind, "data": json.loads(message.data)}
                if message.kind in models.EVENT_NAMES:  # a newer service may know more kinds
                    yield self._validated(models.ServiceEvent, document)
        finally:
            await connection.close()

    # Requests

    async def _get(self, model: type[Model], path: str, **query: object) -> Model:
        """Send a GET request to an API path; return the answer as an instance of the model.

        Query parameters that are None are left out. Raises `ServiceError` of status 502 for an answer of another form.
        """
        return await self._read(model, await self._transport.request("GET", path, query=query))

    async def _send(self, method: str, path: str, body: BaseModel, headers: dict[str, str] | None = None) -> Answer:
        content = body.model_dump_json().encode()
        return await self._transport.request(method, path, body=content, headers=headers)

    async def _read(self, model: type[Model], answer: Answer) -> Model:
        """Return the body of an answer as an instance of the model.

        A long answer is read in another thread: the event loop is that of a Jupyter server, which serves kernels.
        Raises `ServiceError` of status 502 if the body is not JSON or not of that model.
        """
        if len(answer.body) < LONG_ANSWER:
            return self._parse(model, answer)
        return await asyncio.to_thread(self._parse, model, answer)

    def _parse(self, model: type[Model], answer: Answer) -> Model:
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
        """Return the error, with status 502, for an answer that is not of the expected model."""
        return ServiceError(
            502,
            PlainProblem(
                code="unexpected_answer",
                message=f"The answer of {self.url} is not the {model.__name__} that was asked for: "
                "the service and this client may be of different versions.",
            ),
        )


def _write_parts(parts: Sequence[bytes]) -> bytes:
    """Return the body of a request with parts of files."""
    contents = [base64.b64encode(part).decode("ascii") for part in parts]
    return models.FileParts(contents=contents).model_dump_json().encode()
