"""The routes of this server, below `jupyter-gq/`: almost all hand a request on to the service in the user's name.

Every error has the service's one form, `Problem`, with a real status; 503 `service_unavailable` when there is no
service. No route counts as activity: the page asks on its own, and an open page must not hold a GPU.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado.web import HTTPError, authenticated

from jupyter_gq.client.problems import ServiceError
from jupyter_gq.domain.json_types import JsonObject

from .answers import ResultPath, ServerStatus
from .refusal import RefusedRequest
from .surroundings import NOT_ON_A_HUB, Surroundings

if TYPE_CHECKING:
    from .desk import Desk
    from .watch import KernelWatch

#: Words for the statuses that jupyter_server and tornado answer with by themselves.
CODES = {400: "bad_request", 403: "forbidden", 404: "not_found", 405: "method_not_allowed", 500: "internal_error"}


class Extension(Protocol):
    """The part of the server extension that the routes use; `lab.extension.JupyterGQ` has it."""

    surroundings: Surroundings
    #: None if there is no service.
    watch: KernelWatch | None

    async def desk(self) -> Desk:
        """Return the connection to the service. Raises `RefusedRequest` if there is none."""
        ...


class GQHandler(ExtensionHandlerMixin, APIHandler):
    """What the routes have in common."""

    auth_resource = "jupyter_gq"
    _track_activity = False

    @property
    def extension(self) -> Extension:
        """The extension of this server."""
        return cast(Extension, self.extensionapp)  # jupyter_server knows only that it is some extension

    async def answer(self, ask: Callable[[Desk], Awaitable[object]], content_type: str = "application/json") -> None:
        """Answer with what `ask` gets, or with its problem."""
        try:
            found = await ask(await self.extension.desk())
        except (RefusedRequest, ServiceError) as error:
            problem = error.problem
            self.refuse(error.status, problem.code, problem.message, problem.field)
        else:
            text = found.model_dump_json() if hasattr(found, "model_dump_json") else found
            self.finish(text if isinstance(text, str) else json.dumps(text), set_content_type=content_type)

    def refuse(self, status: int, code: str, message: str, field: str | None = None) -> None:
        """Answer with a problem."""
        self.set_status(status)
        self.finish(json.dumps({"code": code, "message": message, "field": field}))

    def body(self) -> object:
        """The body of the request, parsed. Raises `RefusedRequest`."""
        try:
            return self.get_json_body()
        except (HTTPError, UnicodeDecodeError) as error:
            raise RefusedRequest("invalid_json", "The body of the request is not JSON.", status=400) from error

    def number(self, name: str) -> int | None:
        """A whole number of the query; None when it is not there. Raises `RefusedRequest`."""
        text = self.get_query_argument(name, None)
        if text is not None and not text.isdecimal():
            raise RefusedRequest("invalid_request", f"{name} must be a whole number, not {text!r}.", field=name)
        return None if text is None else int(text)

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """What jupyter_server refuses by itself (no token, no permission) has the same form."""
        exc_info = kwargs.get("exc_info")
        raised = exc_info[1] if isinstance(exc_info, tuple) else None
        said = raised.log_message if isinstance(raised, HTTPError) else None
        self.refuse(status_code, CODES.get(status_code, "http_error"), said or HTTPStatus(status_code).phrase)


class StatusHandler(GQHandler):
    """GET status: is there a service, and may this server use it?"""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Never fails: when the service cannot be used, `message` says why and what to do."""
        here = self.extension.surroundings
        if here.on_hub:
            available, message = await (await self.extension.desk()).status()
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
        """Hands the question on."""
        await self.answer(lambda desk: desk.service.me())


class QueuesHandler(GQHandler):
    """GET queues."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Hands the question on."""
        await self.answer(lambda desk: desk.service.queues())


class NotebooksHandler(GQHandler):
    """GET notebooks: the user's servers and their shares."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Hands the question on."""
        await self.answer(lambda desk: desk.service.notebooks())


class JobsHandler(GQHandler):
    """GET jobs?limit=&before=."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Hands the question on."""
        before = self.get_query_argument("before", None)
        await self.answer(lambda desk: desk.service.jobs(limit=self.number("limit"), before=before))


class JobHandler(GQHandler):
    """GET and DELETE jobs/<id>."""

    @authenticated
    @authorized
    async def get(self, job: str) -> None:
        """Hands the question on."""
        await self.answer(lambda desk: desk.service.job(job))

    @authenticated
    @authorized
    async def delete(self, job: str) -> None:
        """Cancels the job."""
        self.set_status(202)
        await self.answer(lambda desk: desk.service.cancel(job))


class OutputsHandler(GQHandler):
    """GET jobs/<id>/outputs?after=N."""

    @authenticated
    @authorized
    async def get(self, job: str) -> None:
        """Hands the question on."""
        await self.answer(lambda desk: desk.service.outputs(job, after=self.number("after") or 0))


class JobNotebookHandler(GQHandler):
    """GET jobs/<id>/notebook: the executed notebook so far."""

    @authenticated
    @authorized
    async def get(self, job: str) -> None:
        """Hands the question on."""
        await self.answer(lambda desk: desk.service.notebook(job))


class LogHandler(GQHandler):
    """GET jobs/<id>/log: the end of the log, as plain text."""

    @authenticated
    @authorized
    async def get(self, job: str) -> None:
        """Hands the question on."""
        await self.answer(lambda desk: desk.service.log(job), content_type="text/plain; charset=UTF-8")


class PreviewHandler(GQHandler):
    """POST preview: what would happen if this were sent now."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Hands the question on."""
        await self.answer(lambda desk: desk.preview(self.body()))


class KeepHandler(GQHandler):
    """POST keep: the answer to an idle warning of this server."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Hands the wish on."""
        await self.answer(lambda desk: desk.service.keep(self.extension.surroundings.server))


class CheckHandler(GQHandler):
    """POST check: the cells that would run and what to know about them. Nothing is sent."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """422 where POST send would be refused before the service is asked."""
        await self.answer(lambda desk: desk.check(self.body()))


class SendHandler(GQHandler):
    """POST send: makes the bundle and submits the job. 201, or 200 when this key was sent before."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """422 for what cannot run, before anything is queued; then whatever the service answers."""
        await self.answer(self._send)

    async def _send(self, desk: Desk) -> object:
        job, created = await desk.send(self.body())
        self.set_status(201 if created else 200)
        return job


class OpenResultHandler(GQHandler):
    """POST open-result/<id>: copies the executed notebook into the user's folder and says where it lies."""

    @authenticated
    @authorized
    async def post(self, job: str) -> None:
        """404 before there is an executed notebook."""
        await self.answer(lambda desk: self._copy(desk, job))

    async def _copy(self, desk: Desk, job: str) -> dict[str, str]:
        return asdict(ResultPath(path=await desk.open_result(job)))


class KernelHistoryHandler(GQHandler):
    """GET kernels/<id>/history: what a kernel ran in its present session, in order, as this server saw it."""

    @authenticated
    @authorized
    async def get(self, kernel: str) -> None:
        """For a page that was loaded after the kernel started. `seconds` is null while a cell runs."""
        await self.answer(lambda desk: self._history(kernel))

    async def _history(self, kernel: str) -> list[JsonObject]:
        watch = self.extension.watch
        cells = None if watch is None else watch.history(kernel)
        if cells is None:
            raise RefusedRequest("not_found", "This kernel is not running.", status=404)
        return [asdict(cell) for cell in cells]


_NAME = "([^/]+)"
ROUTES = [
    ("jupyter-gq/status", StatusHandler),
    ("jupyter-gq/me", MeHandler),
    ("jupyter-gq/queues", QueuesHandler),
    ("jupyter-gq/notebooks", NotebooksHandler),
    ("jupyter-gq/jobs", JobsHandler),
    (f"jupyter-gq/jobs/{_NAME}", JobHandler),
    (f"jupyter-gq/jobs/{_NAME}/outputs", OutputsHandler),
    (f"jupyter-gq/jobs/{_NAME}/notebook", JobNotebookHandler),
    (f"jupyter-gq/jobs/{_NAME}/log", LogHandler),
    ("jupyter-gq/preview", PreviewHandler),
    ("jupyter-gq/keep", KeepHandler),
    ("jupyter-gq/check", CheckHandler),
    ("jupyter-gq/send", SendHandler),
    (f"jupyter-gq/open-result/{_NAME}", OpenResultHandler),
    (f"jupyter-gq/kernels/{_NAME}/history", KernelHistoryHandler),
]
