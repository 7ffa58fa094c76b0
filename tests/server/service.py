"""The scheduler service as a Jupyter server knows it: a real web application with its routes and canned answers."""

import asyncio
import base64
import hashlib
import json
import socket
from typing import Any

import tornado.httpserver
import tornado.netutil
import tornado.web

from jupyter_gq.client.connection.older_service import list_known_fields
from tests.ports import claim_port

PREFIX = "/services/jupyter-gq/"
QUEUE = {
    "name": "vision",
    "pool": "train",
    "quota": "0.5",
    "used": "0",
    "over_quota": "0",
    "waiting": 0,
    "running": 0,
    "over_quota_weight": 1,
    "priority": 0,
    "member": True,
}
ME = {
    "user": "ann",
    "groups": ["vision"],
    "admin": False,
    "quota": "0.5",
    "used": "0",
    "left": "0.5",
    "choices": [],
    "queues": [QUEUE],
    "pools": [],
    "largest_request": "1",
    "devices_sentence": "Simulated.",
}
NOTEBOOK = {
    "id": "nb-1",
    "server": "gpu",
    "owner": "ann",
    "gpus": "0.5",
    "phase": "running",
    "sentence": "In use.",
    "submitted_at": 1.0,
}


def a_job(**fields: Any) -> dict[str, Any]:
    """Return a job as the service describes it."""
    return {
        "id": "job-7f3",
        "name": "Digits",
        "owner": "ann",
        "queue": "vision",
        "gpus": "1",
        "tasks": 1,
        "priority": 0,
        "phase": "waiting",
        "sentence": "1st in line.",
        "submitted_at": 1.0,
        **fields,
    }


def a_result(text: str = "trained\n") -> dict[str, Any]:
    """Return an executed notebook of one cell."""
    output = {"output_type": "stream", "name": "stdout", "text": text}
    cell = {
        "cell_type": "code",
        "id": "target",
        "metadata": {},
        "source": "train()",
        "execution_count": 1,
        "outputs": [output],
    }
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}


class Service:
    """A service that gives the answers in `answers`, records requests, and sends the events of the test."""

    token = "token-of-ann"

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[Any] = []
        self.keys: dict[str, dict[str, Any]] = {}
        #: Keys whose jobs are being deleted.
        self.deleting: set[str] = set()
        self.activity: list[dict[str, Any]] = []
        self.streams: list[asyncio.Queue[bytes]] = []
        self.resumed_after: list[str | None] = []
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {
            ("GET", "me"): (200, ME),
            ("GET", "queues"): (200, {"queues": [QUEUE]}),
            ("GET", "notebooks"): (200, {"notebooks": [NOTEBOOK]}),
            ("GET", "jobs"): (200, {"jobs": [a_job()]}),
            ("GET", "jobs/job-7f3"): (200, a_job()),
            ("DELETE", "jobs/job-7f3"): (202, a_job(phase="cancelling")),
            ("DELETE", "jobs/job-7f3/record"): (202, a_job(phase="done")),
            ("GET", "jobs/job-7f3/outputs"): (200, {"events": [], "last_seq": 0, "finished": False}),
            ("GET", "jobs/job-7f3/notebook"): (200, a_result()),
            ("GET", "jobs/job-7f3/log"): (200, "runner: started\n"),
            ("POST", "jobs/preview"): (200, {"starts_now": True, "sentence": "Starts now."}),
            ("POST", "servers/gpu/keep"): (200, NOTEBOOK),
            ("POST", "servers/gpu/activity"): (204, None),
        }
        #: Parts of files by their digests, and what the service says beside those that it lacks. No job is among them.
        self.parts: dict[str, bytes] = {}
        self.files: dict[str, Any] = {"max_job_bytes": 10**7, "reached": ["/"], "fields": list_known_fields()}
        #: While it is not set, questions which parts the service lacks wait; their number is `files_waiting`.
        self.files_gate = asyncio.Event()
        self.files_gate.set()
        self.files_waiting = 0
        #: While it is not set, reports of the activity are not answered.
        self.activity_gate = asyncio.Event()
        self.activity_gate.set()
        #: While it is not set, the requests in `answers_late` are not answered.
        self.late_gate = asyncio.Event()
        self.answers_late: set[tuple[str, str]] = set()
        #: Content of results by the path of the request and that of the result.
        self.contents: dict[tuple[str, str], bytes] = {}
        self.port = claim_port()
        self._server: tornado.httpserver.HTTPServer | None = None

    @property
    def url(self) -> str:
        """The URL of the service."""
        return f"http://127.0.0.1:{self.port}{PREFIX}"

    async def start(self) -> None:
        """Listen, at the same port each time."""
        routes = [
            (f"{PREFIX}api/v1/events", _Events, {"service": self}),
            (f"{PREFIX}api/v1/(.*)", _Anything, {"service": self}),
        ]
        sockets = tornado.netutil.bind_sockets(self.port, "127.0.0.1", reuse_port=False)
        self._server = tornado.httpserver.HTTPServer(tornado.web.Application(routes))
        self._server.add_sockets(sockets)

    async def stop(self) -> None:
        """Close every connection, including streams."""
        if self._server is not None:
            server, self._server = self._server, None
            server.stop()
            for stream in self.streams:
                stream.put_nowait(b"")
            self.streams.clear()
            await server.close_all_connections()

    def tell(self, number: int, kind: str, data: dict[str, Any]) -> None:
        """Send an event to all streams."""
        text = f"event: {kind}\nid: {number}\ndata: {json.dumps(data)}\n\n"
        for stream in self.streams:
            stream.put_nowait(text.encode())

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Answer this request."""
        if (method, path) == ("POST", "servers/gpu/activity"):
            self.activity.append(body)
        return self.answers.get((method, path), (404, {"code": "not_found", "message": f"No {path}."}))

    def keep_files(self, body: Any) -> tuple[int, Any]:
        """Keep parts of files, or say which ones are missing."""
        contents = [base64.b64decode(content) for content in body.get("contents", [])]
        self.parts |= {hashlib.sha256(content).hexdigest(): content for content in contents}
        if "contents" in body:
            return 204, None
        return 200, {**self.files, "missing": [part for part in body["parts"] if part not in self.parts]}

    def submit(self, key: str, body: Any) -> tuple[int, Any]:
        """Make one job for each key."""
        if key in self.deleting:
            return 409, {"code": "conflict", "message": f"The job of {key} is being deleted. Send with a new key."}
        known = key in self.keys
        fields = {"name": body["name"], "gpus": str(body["gpus"]), "continue_from": body.get("continue_from", "")}
        job = self.keys.setdefault(key, a_job(id=f"job-{len(self.keys)}", **fields))
        return 200 if known else 201, job


class _Handler(tornado.web.RequestHandler):
    def initialize(self, service: Service) -> None:
        self.service = service

    def prepare(self) -> None:
        if self.request.headers.get("Authorization") != f"token {self.service.token}":
            self.set_status(401)
            self.finish({"code": "no_token", "message": "Who are you?"})


class _Anything(_Handler):
    async def _reply(self, path: str) -> None:
        method = self.request.method or ""
        body = json.loads(self.request.body) if self.request.body else None
        if path in {"files", "files/missing"} and (method, path) not in self.service.answers:
            if body.get("parts"):
                self.service.files_waiting += 1
                await self.service.files_gate.wait()
                self.service.files_waiting -= 1
            status, answer = self.service.keep_files(body)
            self.set_status(status)
            self.finish(answer)
            return
        self.service.asked.append((method, self.request.uri.partition("/api/v1/")[2]))
        self.service.bodies.append(body)
        content = self.service.contents.get((path, self.get_query_argument("path", "")))
        if content is not None:
            self.finish(content[int(self.get_query_argument("start")) :][:10])
            return
        if path.endswith("/activity"):
            await self.service.activity_gate.wait()
        if (method, path) in self.service.answers_late:
            await self.service.late_gate.wait()
        if (method, path) == ("POST", "jobs") and ("POST", "jobs") not in self.service.answers:
            status, answer = self.service.submit(self.request.headers["Idempotency-Key"], body)
        else:
            status, answer = self.service.answer(method, path, body)
        self.set_status(status)
        if status != 204:
            self.finish(answer)

    get = post = put = patch = delete = _reply


class _Events(_Handler):
    async def get(self) -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.service.streams.append(queue)
        self.service.resumed_after.append(self.request.headers.get("Last-Event-ID"))
        self.set_header("Content-Type", "text/event-stream")
        await self.flush()
        while piece := await queue.get():
            self.write(piece)
            await self.flush()


class ServiceIsDown(Service):
    """An address at which nothing listens, and at which nothing else can start to listen."""

    async def start(self) -> None:
        self._bound = socket.socket()
        self._bound.bind(("127.0.0.1", 0))
        self.port = self._bound.getsockname()[1]

    async def stop(self) -> None:
        self._bound.close()


class LacksTheScope(Service):
    """A service for which the token is valid and lacks the scope."""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        return 403, {"code": "missing_scope", "message": "Your token lacks custom:gq:submit.", "field": None}
