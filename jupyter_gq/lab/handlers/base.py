"""The base of the handlers of this server's routes, with answers and errors in the form of the service."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, cast

from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado.web import HTTPError

from jupyter_gq.client.problems import ServiceError
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.lab.answers import AlreadySent
from jupyter_gq.lab.hub_environment import HubEnvironment
from jupyter_gq.lab.refusal import RefusedRequest, find_problem

if TYPE_CHECKING:
    from jupyter_gq.lab.kernels.watch import KernelWatch
    from jupyter_gq.lab.service_connection import ServiceConnection

#: Codes of the statuses with which jupyter_server and tornado answer by themselves.
CODES = {400: "bad_request", 403: "forbidden", 404: "not_found", 405: "method_not_allowed", 500: "internal_error"}

#: Digits of the largest number in a query.
_MOST_DIGITS = 18


class Extension(Protocol):
    """The part of the server extension that the routes use; `lab.extension.JupyterGQ` has it."""

    hub_environment: HubEnvironment
    #: None if there is no service.
    watch: KernelWatch | None

    async def connect(self) -> ServiceConnection:
        """Return the connection to the service. Raises `RefusedRequest` if there is none."""
        ...


class GQHandler(ExtensionHandlerMixin, APIHandler):
    """The base class of all handlers."""

    auth_resource = "jupyter_gq"
    _track_activity = False

    @property
    def extension(self) -> Extension:
        """The server extension to which this handler belongs."""
        return cast(Extension, self.extensionapp)  # jupyter_server knows only that it is some extension

    async def respond(
        self, ask: Callable[[ServiceConnection], Awaitable[object]], content_type: str = "application/json"
    ) -> None:
        """Answer with the JSON or text that `ask(connection)` returns; turn its error into a problem with a status."""
        try:
            found = await ask(await self.extension.connect())
        except (RefusedRequest, ServiceError) as error:
            self.respond_with_refusal(error)
        else:
            self.finish(_make_text(found), set_content_type=content_type)

    def respond_with_refusal(self, error: RefusedRequest | ServiceError) -> None:
        """Answer with the status and the problem of a refusal, and with the jobs that are the reason, if some are."""
        problem = find_problem(error)
        if isinstance(error, RefusedRequest) and error.other_jobs:
            said = AlreadySent(code=problem.code, message=problem.message, other_jobs=error.other_jobs)
            self.set_status(error.status)
            self.finish(json.dumps(asdict(said)))
            return
        self.respond_with_problem(error.status, problem.code, problem.message, problem.field)

    def respond_with_problem(self, status: int, code: str, message: str, field: str | None = None) -> None:
        """Answer with this HTTP status and this problem as JSON."""
        self.set_status(status)
        self.finish(json.dumps({"code": code, "message": message, "field": field}))

    def read_body(self) -> object:
        """Return the parsed JSON body of the request, None if it is empty; raise `RefusedRequest` for other text."""
        try:
            return self.get_json_body()
        except (HTTPError, UnicodeDecodeError) as error:
            raise RefusedRequest("invalid_json", "The body of the request is not JSON.", status=400) from error

    def read_number(self, name: str) -> int | None:
        """Return a whole number of the query, None if it is missing; raise `RefusedRequest` if it is malformed."""
        text = self.get_query_argument(name, None)
        if text is not None and not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
            raise RefusedRequest("invalid_request", f"{name} must be a whole number, not {quoted(text)}.", field=name)
        return None if text is None else int(text)

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """Answer with a problem as JSON for an error outside `respond`, such as a missing token or permission."""
        exc_info = kwargs.get("exc_info")
        raised = exc_info[1] if isinstance(exc_info, tuple) else None
        said = raised.log_message if isinstance(raised, HTTPError) else None
        self.respond_with_problem(
            status_code, CODES.get(status_code, "http_error"), said or HTTPStatus(status_code).phrase
        )


def _make_text(found: object) -> str:
    """Return an answer as text: JSON of a model or a value, or the text itself.

    A name of a file that is not UTF-8 holds halves of surrogate pairs, which only ASCII can carry.
    """
    if isinstance(found, str):
        return found
    if not (hasattr(found, "model_dump_json") and hasattr(found, "model_dump")):
        return json.dumps(found)
    try:
        return str(found.model_dump_json())
    except ValueError:
        return json.dumps(found.model_dump())
