"""The Unix socket through which kernels of this server send jobs, fetch results, and call a lent share back.

Only processes of the user can open it: it lies in a folder of mode 0700. So a kernel needs no token, and the values go
from the service to the user's kernel without a stop on a disk. Nothing is unpickled here.

    GET /jobs/<id>/results   GET /jobs/<id>/content?path=&start=   GET /names/<name>
    GET /jobs?group=   POST /jobs   POST /cancel   GET, PATCH, DELETE /jobs/<id>   GET /jobs/<id>/text
    GET /jobs/<id>/value   POST /jobs/<id>/copies   POST /share/want

Beside the socket lies the notice that the share is lent, while it is (see `lab/kernels/share.py`).

See docs/decisions/0116-load-results-through-a-socket-of-the-users-server.md and
docs/decisions/0127-let-kernels-send-jobs-through-the-socket.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket
from tornado.web import Application, HTTPError, RequestHandler

from jupyter_gq.client.problems import ServiceError
from jupyter_gq.lab.refusal import RefusedRequest, find_problem

if TYPE_CHECKING:
    from jupyter_gq.client.models import JobSummary
    from jupyter_gq.lab.service_connection import ServiceConnection

#: The variable by which kernels know the socket; `notebook/server_socket.py` reads it.
SOCKET_VARIABLE = "JUPYTER_GQ_SOCKET"
#: Name of the notice in the folder of the socket; `notebook/share_wait.py` reads it.
NOTICE_FILE = "share"
#: Largest body of a request: a pickled call of `notebook/pickled_call.py` and what stands around it.
_MAX_BODY = 16 * 2**20
#: Most jobs whose results are asked for a missing name: the kernel waits for the answer.
_MOST_ASKED = 5
#: Seconds for asking all of these jobs together; less than the `HINT_TIMEOUT` of the kernel.
_FIND_TIMEOUT = 1.5
#: Phases of jobs that will still bring something back.
_ALIVE = frozenset({"waiting", "starting", "running", "pausing", "paused"})

Connect = Callable[[], "Awaitable[ServiceConnection]"]


class KernelSocket:
    """A socket in a private folder, whose path the kernels of this server find in their environment."""

    def __init__(self, connect: Connect) -> None:
        """Make the socket now, since the first kernel may start soon; `connect` returns the connection to the service.

        Requests wait until `start`.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="gq-"))
        self.path = self._folder / "kernels"
        #: Path of the notice that the share is lent.
        self.notice_file = self._folder / NOTICE_FILE
        application = Application(
            [(path, _Handler, {"connect": connect, "asks": asks}) for path, asks in _ROUTES],
            log_function=_log_nothing,  # a kernel that waits for its job asks every second
        )
        self._socket = bind_unix_socket(str(self.path), mode=0o600)
        self._server = HTTPServer(application, max_body_size=_MAX_BODY)
        os.environ[SOCKET_VARIABLE] = str(self.path)

    def start(self) -> None:
        """Answer requests, on the running event loop."""
        self._server.add_socket(self._socket)

    def close(self) -> None:
        """Stop listening, and remove the folder."""
        self._server.stop()
        self._socket.close()
        os.environ.pop(SOCKET_VARIABLE, None)
        shutil.rmtree(self._folder, ignore_errors=True)


def _log_nothing(_: RequestHandler) -> None:
    """Log no request; errors in the code of a handler are logged in any case."""


class _Handler(RequestHandler):
    """The handler of all routes: a refusal becomes a problem as JSON."""

    def initialize(self, connect: Connect, asks: Asks) -> None:
        self._connect, self._asks = connect, asks

    async def _answer(self, name: str = "") -> None:
        """Answer with what the service says about `name`, or with its refusal."""
        ask = self._asks.get(self.request.method or "")
        if ask is None:
            raise HTTPError(405)
        try:
            self.finish(await ask(await self._connect(), name, self))
        except (RefusedRequest, ServiceError) as error:
            self.set_status(error.status)
            problem = find_problem(error)
            self.finish(json.dumps({"code": problem.code, "message": problem.message}))

    get = post = patch = delete = _answer


async def _read_results(connection: ServiceConnection, job: str, _: RequestHandler) -> str:
    """Return the list of what a job brings back."""
    return (await connection.service.results(job)).model_dump_json()


async def _read_content(connection: ServiceConnection, job: str, request: RequestHandler) -> bytes:
    """Return the next bytes of the result that the query of the request names."""
    path, start = request.get_query_argument("path", ""), request.get_query_argument("start", "0")
    if not start.isdecimal():
        raise RefusedRequest("invalid_request", "start must be a whole number.", field="start")
    return await connection.service.result_part(job, path, int(start))


async def _copy_files(connection: ServiceConnection, job: str, request: RequestHandler) -> str:
    """Copy files of a job into the folder that the body names, with a line of JSON for each piece of news."""
    body = _read_body(request)
    return await connection.copies.answer(request, lambda tell: connection.copies.copy_for_kernel(job, body, tell))


async def _find_name(connection: ServiceConnection, name: str, _: RequestHandler) -> str:
    """Return which jobs bring a name back, as JSON: `job`, `title`, `reason` and `newer`.

    `job` and `title` are the id and name of the newest job that has brought the name back. If none has, they are those
    of the newest job that is done, and `reason` says why the name is missing; else `reason` is "". `newer` has `title`
    and `phase` of a newer job that may still bring the name back, or is None. If only that one is known, `job` is "".

    Asks the newest `_MOST_ASKED` jobs that are done, for `_FIND_TIMEOUT` seconds in all. Only jobs that the panel shows
    at first are searched. Raises `RefusedRequest` if neither is known by then: 404 if no job is to bring the name back,
    504 if one may have, and the service did not say so in time.
    """
    jobs = [job for job in (await connection.service.jobs()).jobs if name in job.returns]
    job, reason = await _find_done(connection, jobs, name)
    newest = jobs if job is None else jobs[: jobs.index(job)]
    newer = next((each for each in newest if each.phase in _ALIVE), None)
    if job is None and newer is None and any(each.phase == "done" for each in jobs):
        message = f"The service did not say in time whether a job has brought {name} back."
        raise RefusedRequest("service_unavailable", message, status=HTTPStatus.GATEWAY_TIMEOUT)
    if job is None and newer is None:
        raise RefusedRequest("not_found", f"No job has brought {name} back.", status=404)
    return json.dumps(
        {
            "job": "" if job is None else job.id,
            "title": "" if job is None else job.name,
            "reason": reason,
            "newer": None if newer is None else {"title": newer.name, "phase": newer.phase},
        }
    )


async def _find_done(
    connection: ServiceConnection, jobs: Sequence[JobSummary], name: str
) -> tuple[JobSummary | None, str]:
    """Return the newest job that has brought a name back, and ""; else the newest one that is done, and why it has not.

    `jobs` were asked to bring it back. None and "" if none of them is done, or the service said nothing in time.
    """
    first: tuple[JobSummary | None, str] = (None, "")
    with suppress(TimeoutError):  # what is known by then is a hint as well
        async with asyncio.timeout(_FIND_TIMEOUT):
            for job in [job for job in jobs if job.phase == "done"][:_MOST_ASKED]:
                reason = await _explain_missing(connection, job.id, name)
                if not reason:
                    return job, ""
                first = (job, reason) if first[0] is None else first
    return first


async def _explain_missing(connection: ServiceConnection, job: str, name: str) -> str:
    """Return why a job that is done did not bring a name back; "" if it did."""
    try:
        variables = (await connection.service.results(job)).variables
    except ServiceError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return "Its results are no longer kept."
    return next((variable.reason for variable in variables if variable.name == name), "Its results do not list it.")


async def _send_job(connection: ServiceConnection, _: str, request: RequestHandler) -> str:
    """Submit the job in the body, and return it."""
    return (await connection.kernels.send(_read_body(request))).model_dump_json()


def _read_body(request: RequestHandler) -> object:
    """Return the parsed JSON body of a request; raise `RefusedRequest` if it is something else."""
    try:
        return json.loads(request.request.body)
    except ValueError as error:
        raise RefusedRequest("invalid_json", "The body of the request is not JSON.", status=400) from error


async def _list_jobs(connection: ServiceConnection, _: str, request: RequestHandler) -> str:
    group = request.get_query_argument("group", None)
    return json.dumps(await connection.kernels.list_jobs(group))


async def _read_job(connection: ServiceConnection, job: str, _: RequestHandler) -> str:
    """Return a job, by its id, the beginning of it, or as "last"."""
    return (await connection.kernels.read_job(job)).model_dump_json()


async def _change_job(connection: ServiceConnection, job: str, request: RequestHandler) -> str:
    """Change a job as the body says, and return it."""
    return (await connection.change(job, _read_body(request))).model_dump_json()


async def _cancel_job(connection: ServiceConnection, job: str, _: RequestHandler) -> str:
    return (await connection.service.cancel(job)).model_dump_json()


async def _cancel_jobs(connection: ServiceConnection, _: str, request: RequestHandler) -> str:
    """Cancel the jobs in the body; answer with those that end, and with those that could not be cancelled."""
    return (await connection.cancel_many(_read_body(request))).model_dump_json()


async def _read_text(connection: ServiceConnection, job: str, _: RequestHandler) -> str:
    return json.dumps(await connection.kernels.read_text(job))


async def _read_value(connection: ServiceConnection, job: str, _: RequestHandler) -> str:
    return json.dumps(await connection.kernels.read_value(job))


async def _want_share(connection: ServiceConnection, _: str, __: RequestHandler) -> str:
    """Tell the service that a cell waits for the share; return whether the service can be reached."""
    return json.dumps({"reachable": await connection.want_share()})


Ask = Callable[["ServiceConnection", str, RequestHandler], "Awaitable[str | bytes]"]
Asks = Mapping[str, Ask]
_ROUTES: tuple[tuple[str, Asks], ...] = (
    (r"/jobs", {"GET": _list_jobs, "POST": _send_job}),
    (r"/cancel", {"POST": _cancel_jobs}),
    (r"/jobs/([^/]+)", {"GET": _read_job, "PATCH": _change_job, "DELETE": _cancel_job}),
    (r"/jobs/([^/]+)/text", {"GET": _read_text}),
    (r"/jobs/([^/]+)/value", {"GET": _read_value}),
    (r"/jobs/([^/]+)/results", {"GET": _read_results}),
    (r"/jobs/([^/]+)/content", {"GET": _read_content}),
    (r"/jobs/([^/]+)/copies", {"POST": _copy_files}),
    (r"/names/([^/]+)", {"GET": _find_name}),
    (r"/share/(want)", {"POST": _want_share}),
)
