"""The Unix socket through which kernels of this server fetch the results of the user's jobs.

Only processes of the user can open it: it lies in a folder of mode 0700. So a kernel needs no token, and the values go
from the service to the user's kernel without a stop on a disk. Nothing is unpickled here.

    GET /jobs/<id>/results   GET /jobs/<id>/content?path=&start=   GET /names/<name>

See docs/decisions/0116-load-results-through-a-socket-of-the-users-server.md.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket
from tornado.web import Application, RequestHandler

from jupyter_gq.client.problems import ServiceError

from .refusal import RefusedRequest

if TYPE_CHECKING:
    from .service_connection import ServiceConnection

#: The variable by which kernels know the socket; `notebook/server_socket.py` reads it.
SOCKET_VARIABLE = "JUPYTER_GQ_SOCKET"
#: Largest body of a request; there are none.
_NO_BODY = 1024

Connect = Callable[[], "Awaitable[ServiceConnection]"]


class KernelSocket:
    """A socket in a private folder, whose path the kernels of this server find in their environment."""

    def __init__(self, connect: Connect) -> None:
        """Make the socket now, since the first kernel may start soon; `connect` returns the connection to the service.

        Requests wait until `start`.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="gq-"))
        self.path = self._folder / "kernels"
        application = Application([(path, _Handler, {"connect": connect, "ask": ask}) for path, ask in _ROUTES])
        self._socket = bind_unix_socket(str(self.path), mode=0o600)
        self._server = HTTPServer(application, max_body_size=_NO_BODY)
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


class _Handler(RequestHandler):
    """The handler of all routes: a refusal becomes a problem as JSON."""

    def initialize(self, connect: Connect, ask: Ask) -> None:
        self._connect, self._ask = connect, ask

    async def get(self, name: str) -> None:
        """Answer with what the service says about `name`, or with its refusal."""
        try:
            self.finish(await self._ask(await self._connect(), name, self))
        except (RefusedRequest, ServiceError) as error:
            self.set_status(error.status)
            self.finish(json.dumps({"code": error.problem.code, "message": error.problem.message}))


async def _read_results(connection: ServiceConnection, job: str, _: RequestHandler) -> str:
    """Return the list of what a job brings back."""
    return (await connection.service.results(job)).model_dump_json()


async def _read_content(connection: ServiceConnection, job: str, request: RequestHandler) -> bytes:
    """Return the next bytes of the result that the query of the request names."""
    path, start = request.get_query_argument("path", ""), request.get_query_argument("start", "0")
    if not start.isdecimal():
        raise RefusedRequest("invalid_request", "start must be a whole number.", field="start")
    return await connection.service.result_part(job, path, int(start))


async def _find_name(connection: ServiceConnection, name: str, _: RequestHandler) -> str:
    """Return the newest finished job that was asked to bring back this name; raise `RefusedRequest` if there is none.

    Only the newest jobs are searched, as the jobs panel shows them at first.
    """
    jobs = (await connection.service.jobs()).jobs
    found = next((job for job in jobs if job.phase == "done" and name in job.returns), None)
    if found is None:
        raise RefusedRequest("not_found", f"No job has brought {name} back.", status=404)
    return json.dumps({"job": found.id, "title": found.name})


Ask = Callable[["ServiceConnection", str, RequestHandler], "Awaitable[str | bytes]"]
_ROUTES: tuple[tuple[str, Ask], ...] = (
    (r"/jobs/([^/]+)/results", _read_results),
    (r"/jobs/([^/]+)/content", _read_content),
    (r"/names/([^/]+)", _find_name),
)
