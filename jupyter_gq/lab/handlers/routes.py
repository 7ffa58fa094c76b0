"""The routes of this server, below `jupyter-gq/`: almost all relay a request to the service in the user's name.

Every error has the service's form, `Problem`, with a real status; it is 503 `service_unavailable` if there is no
service. No route counts as activity: pages send requests on their own, and an open page must not keep a GPU.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.lab.answers import ResultPath, SameFile, ServerStatus
from jupyter_gq.lab.hub_environment import NOT_ON_A_HUB
from jupyter_gq.lab.refusal import RefusedRequest

from .base import GQHandler
from .files import CopiesHandler, LogFileHandler, LogHandler, LogLinesHandler, LogSizeHandler, ResultFileHandler

if TYPE_CHECKING:
    from jupyter_gq.lab.service_connection import ServiceConnection


class StatusHandler(GQHandler):
    """GET status: whether there is a service that this server may use."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with whether the service can be used, a sentence on that, and the names of user and server.

        This never fails: if the service cannot be used, the sentence says why and what to do.
        """
        here = self.extension.hub_environment
        if here.on_hub:
            available, message = await (await self.extension.connect()).status()
        else:
            available, message = False, NOT_ON_A_HUB
        self.finish(
            asdict(
                ServerStatus(available=available, message=message, user=here.user, server=here.server, hub=here.on_hub)
            )
        )


class MeHandler(GQHandler):
    """GET me: quota, choices and queues of the user."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with the user's quota, choices and queues, relayed from the service."""
        await self.respond(lambda connection: connection.service.me())


class QueuesHandler(GQHandler):
    """GET queues."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with the queues that the user may see, relayed from the service."""
        await self.respond(lambda connection: connection.service.queues())


class NotebooksHandler(GQHandler):
    """GET notebooks: the user's servers and their shares."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with the user's servers and their shares, relayed from the service."""
        await self.respond(lambda connection: connection.service.notebooks())


class JobsHandler(GQHandler):
    """GET jobs?limit=&before=&group=."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with one page of the user's jobs from the service, newest first.

        The query `limit` is the most jobs of the page. `before` is the id of the last job of the previous page; without
        it, the page is the first one. `group` selects the jobs of one group.
        """
        before, group = self.get_query_argument("before", None), self.get_query_argument("group", None)
        await self.respond(
            lambda connection: connection.service.jobs(limit=self.read_number("limit"), before=before, group=group)
        )


class CancelHandler(GQHandler):
    """POST cancel: cancels several jobs."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Cancel the jobs in the body; answer with those that end, and with those that could not be cancelled."""
        await self.respond(lambda connection: connection.cancel_many(self.read_body()))


class JobHandler(GQHandler):
    """GET, PATCH and DELETE jobs/<id>."""

    @authenticated
    @authorized
    async def get(self, job: str) -> None:
        """Answer with one job of the user, relayed from the service."""
        await self.respond(lambda connection: connection.service.job(job))

    @authenticated
    @authorized
    async def patch(self, job: str) -> None:
        """Change a job as the body says, relayed to the service; answer with the job."""
        await self.respond(lambda connection: connection.change(job, self.read_body()))

    @authenticated
    @authorized
    async def delete(self, job: str) -> None:
        """Cancel a job of the user; answer with 202 and the job."""
        self.set_status(202)
        await self.respond(lambda connection: connection.service.cancel(job))


class RecordHandler(GQHandler):
    """DELETE jobs/<id>/record."""

    @authenticated
    @authorized
    async def delete(self, job: str) -> None:
        """Delete an ended job of the user with all that is kept of it; answer with 202 and the job as it was."""
        self.set_status(202)
        await self.respond(lambda connection: connection.service.delete(job))


class OutputsHandler(GQHandler):
    """GET jobs/<id>/outputs?after=N."""

    @authenticated
    @authorized
    async def get(self, job: str) -> None:
        """Answer with the pieces of a job's output above the number `after` of the query, relayed from the service."""
        await self.respond(lambda connection: connection.service.outputs(job, after=self.read_number("after") or 0))


class JobNotebookHandler(GQHandler):
    """GET jobs/<id>/notebook: the executed notebook so far."""

    @authenticated
    @authorized
    async def get(self, job: str) -> None:
        """Answer with the executed notebook of a job, relayed from the service."""
        await self.respond(lambda connection: connection.service.notebook(job))


class ResultsHandler(GQHandler):
    """GET jobs/<id>/results: what the job brings back."""

    @authenticated
    @authorized
    async def get(self, job: str) -> None:
        """Answer with the list of variables and files that a job brings back, relayed from the service."""
        await self.respond(lambda connection: connection.service.results(job))


class UsageHandler(GQHandler):
    """GET jobs/<id>/usage: the GPU use of the job over time."""

    @authenticated
    @authorized
    async def get(self, job: str) -> None:
        """Answer with the GPU use of a job, relayed from the service."""
        await self.respond(lambda connection: connection.service.usage(job))


class PreviewHandler(GQHandler):
    """POST preview: the forecast of a job that would be sent now."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Answer with the service's forecast for the job in the body; nothing is sent."""
        await self.respond(lambda connection: connection.preview(self.read_body()))


class KeepHandler(GQHandler):
    """POST keep: keep the share of this server, as somebody does who presses *Keep it*."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Tell the service that this server's share is still needed; answer with the service's answer."""
        await self.respond(lambda connection: connection.service.keep(self.extension.hub_environment.server))


class CheckHandler(GQHandler):
    """POST check: the cells that would run, with warnings. Nothing is sent."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Answer with the cells that would run and warnings, or with 422 if POST send would be refused here."""
        await self.respond(lambda connection: connection.check(self.read_body()))


class VariablesHandler(GQHandler):
    """POST variables: pickles and checks the variables of the kernel that cells need; nothing is sent."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Answer with names, sizes and reasons of the variables, or with 422 if the kernel cannot be asked."""
        await self.respond(lambda connection: connection.capture(self.read_body()))


class SendHandler(GQHandler):
    """POST send: makes the bundle and submits the job. 201, or 200 if this key was sent before."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Submit the job in the body and answer with it: 201, 200 if its key was sent before, 422 if it cannot run."""
        await self.respond(self._send)

    async def _send(self, connection: ServiceConnection) -> object:
        job, created = await connection.send(self.read_body())
        self.set_status(201 if created else 200)
        return job


class SweepHandler(GQHandler):
    """POST sweep: sends a job for each point of a grid, as one group. 201."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Submit the jobs of the sweep in the body and answer with their ids (201), or with 422 if it cannot run."""
        await self.respond(self._send)

    async def _send(self, connection: ServiceConnection) -> object:
        sent = await connection.send_sweep(self.read_body())
        self.set_status(201)
        return sent


class OpenResultHandler(GQHandler):
    """POST open-result/<id>: copies the executed notebook into the user's folder and returns its path."""

    @authenticated
    @authorized
    async def post(self, job: str) -> None:
        """Copy the job's executed notebook into the user's folder; answer with its path, or 404 if there is none."""
        await self.respond(lambda connection: self._copy(connection, job))

    async def _copy(self, connection: ServiceConnection, job: str) -> dict[str, str]:
        return asdict(ResultPath(path=await connection.open_result(job)))


class SameFileHandler(GQHandler):
    """GET same-file?one=&other=: whether two paths of notebooks lead to one file."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with whether the two paths, relative to the root folder, lead to one file, such as through a link."""
        one, other = (self.get_query_argument(name, "", strip=False) for name in ("one", "other"))
        await self.respond(lambda connection: self._compare(connection, one, other))

    async def _compare(self, connection: ServiceConnection, one: str, other: str) -> JsonObject:
        return asdict(SameFile(same=await connection.comparer.is_same_file(one, other)))


class KernelHistoryHandler(GQHandler):
    """GET and POST kernels/<id>/history: what a kernel ran in its present session, in order, as this server saw it."""

    @authenticated
    @authorized
    async def get(self, kernel: str) -> None:
        """Answer with the cells that the kernel ran since its start, in order, or with 404 if it is not running.

        `seconds` is null while a cell runs.
        """
        await self.respond(lambda connection: self._find_history(kernel))

    @authenticated
    @authorized
    async def post(self, kernel: str) -> None:
        """Record to which cells of a notebook the executions belong that follow; answer with the history so far."""
        await self.respond(lambda connection: self._note_cells(connection, kernel))

    async def _note_cells(self, connection: ServiceConnection, kernel: str) -> JsonObject:
        connection.note_cells(kernel, self.read_body())
        return await self._find_history(kernel)

    async def _find_history(self, kernel: str) -> JsonObject:
        watch = self.extension.watch
        history = None if watch is None else watch.get_history(kernel)
        if history is None:
            raise RefusedRequest("not_found", "This kernel is not running.", status=404)
        return asdict(history)


_NAME = "([^/]+)"
ROUTES = [
    ("jupyter-gq/status", StatusHandler),
    ("jupyter-gq/me", MeHandler),
    ("jupyter-gq/queues", QueuesHandler),
    ("jupyter-gq/notebooks", NotebooksHandler),
    ("jupyter-gq/jobs", JobsHandler),
    (f"jupyter-gq/jobs/{_NAME}", JobHandler),
    (f"jupyter-gq/jobs/{_NAME}/record", RecordHandler),
    (f"jupyter-gq/jobs/{_NAME}/outputs", OutputsHandler),
    (f"jupyter-gq/jobs/{_NAME}/notebook", JobNotebookHandler),
    (f"jupyter-gq/jobs/{_NAME}/results", ResultsHandler),
    (f"jupyter-gq/jobs/{_NAME}/usage", UsageHandler),
    (f"jupyter-gq/jobs/{_NAME}/file", ResultFileHandler),
    (f"jupyter-gq/jobs/{_NAME}/copies", CopiesHandler),
    (f"jupyter-gq/jobs/{_NAME}/log", LogHandler),
    (f"jupyter-gq/jobs/{_NAME}/log/size", LogSizeHandler),
    (f"jupyter-gq/jobs/{_NAME}/log/lines", LogLinesHandler),
    (f"jupyter-gq/jobs/{_NAME}/log/file", LogFileHandler),
    ("jupyter-gq/cancel", CancelHandler),
    ("jupyter-gq/preview", PreviewHandler),
    ("jupyter-gq/keep", KeepHandler),
    ("jupyter-gq/check", CheckHandler),
    ("jupyter-gq/variables", VariablesHandler),
    ("jupyter-gq/send", SendHandler),
    ("jupyter-gq/sweep", SweepHandler),
    (f"jupyter-gq/open-result/{_NAME}", OpenResultHandler),
    ("jupyter-gq/same-file", SameFileHandler),
    (f"jupyter-gq/kernels/{_NAME}/history", KernelHistoryHandler),
]
