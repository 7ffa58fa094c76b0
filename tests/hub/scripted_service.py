"""A scheduler service that says what the test tells it to: a list of answers for each call of each user.

The answers of a call are given one after the other, the last one again and again. What is not scripted is granted.
Every call is recorded with its user, whom the Hub names for the token: a token without the scopes gets 403.
"""

import asyncio
import json
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Self

from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.web import Application, RequestHandler

from tests.patience import scaled
from tests.ports import claim_port

PREFIX = "/services/jupyter-gq/"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What to reply."""

    status: int = 200
    body: Any = None
    #: Seconds before the reply.
    after: float = 0


@dataclass(frozen=True, kw_only=True)
class Call:
    """What was asked: `what` is such as "POST tickets", "GET tickets/*", "PUT tickets/*/process"."""

    user: str
    what: str
    path: str
    body: Any = None
    token: str = ""


def ticket(phase="starting", *, gpus="0.25", server="", ticket="nb-1", **more):
    """A TicketView."""
    environment = {"JUPYTER_GQ_GPUS": gpus, "CUDA_VISIBLE_DEVICES": "GPU-aaaa"} if phase == "starting" else {}
    return {
        "id": ticket,
        "server": server,
        "gpus": gpus,
        "phase": phase,
        "sentence": more.pop("sentence", f"{gpus} GPU: {phase}"),
        "environment": environment,
        **more,
    }


def waiting(ahead, **more):
    """A TicketView of one that waits behind `ahead` others."""
    sentence = f"All of build is in use; {ahead} before you."
    return ticket("waiting", ahead=ahead, position=ahead + 1, **{"sentence": sentence, **more})


def problem(code, message, status):
    """A refusal."""
    return Answer(status=status, body={"code": code, "message": message, "field": None})


def me(user="ann", **more):
    """A Me with two fractions, the larger one impossible."""
    choices = [
        {"gpus": "0.25", "available": True, "starts_now": True, "sentence": "Starts now."},
        {"gpus": "0.5", "available": False, "starts_now": False, "sentence": "Your quota has 0.25 left."},
    ]
    pool = {"name": "build", "devices": 1, "model": "A100-40GB", "memory_mib": 40960, "total": "1", "free": "0.75"}
    return {
        **{"user": user, "groups": ["vision"], "admin": False, "quota": "0.5", "used": "0.25", "left": "0.25"},
        **{"choices": choices, "queues": [], "pools": [{**pool, "largest_fraction": "0.75"}]},
        **{
            "build_pool": "build",
            "largest_request": "1",
            "last_eviction": None,
            "devices_sentence": "Simulated: NVML is not installed.",
        },
        **more,
    }


@dataclass
class Script:
    """The answers for one user."""

    answers: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))

    def expect(self, what: str, *answers: Answer | dict) -> None:
        """Reply to this call with these answers from now on."""
        self.answers[what] = [each if isinstance(each, Answer) else Answer(body=each) for each in answers]

    def next(self, what: str) -> Answer | None:
        """The reply that is due."""
        due = self.answers.get(what)
        if not due:
            return None
        return due.pop(0) if len(due) > 1 else due[0]


class ScriptedService:
    """Runs in a thread of its own. `hub_api` names the user of a token; without it every token is ann's."""

    def __init__(self, hub_api: str = "") -> None:
        self.hub_api = hub_api
        self.scripts: dict[str, Script] = defaultdict(Script)
        self.calls: list[Call] = []
        self._loop = asyncio.new_event_loop()
        self._server: HTTPServer | None = None
        self.port = claim_port()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{PREFIX}"

    def start(self) -> None:
        """Listen, on the same port as before."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(scaled(10))

    def stop(self) -> None:
        """Stop answering."""
        asyncio.run_coroutine_threadsafe(self._deafen(), self._loop).result(scaled(10))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop for good."""
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(scaled(10))
        self._loop.close()

    def of(self, user: str, what: str = "") -> list[Call]:
        """The calls of a user."""
        return [call for call in self.calls if call.user == user and call.what.startswith(what)]

    async def _listen(self) -> None:
        application = Application([(f"{PREFIX}api/v1/(.*)", _Handler)], service=self)
        self._server = application.listen(self.port, "127.0.0.1")

    async def _deafen(self) -> None:
        if self._server is not None:
            self._server.stop()
            await self._server.close_all_connections()
            self._server = None


class _Handler(RequestHandler):
    async def _reply(self, path: str) -> None:
        service: ScriptedService = self.settings["service"]
        token = self.request.headers.get("Authorization", "").removeprefix("token ")
        user = await self._user(service, token)
        if user is None:
            self._send(problem("missing_scope", "The token has no scope custom:gq.", 403))
            return
        parts = path.split("/")
        if parts[0] == "tickets" and len(parts) > 1:
            parts[1] = "*"
        what = f"{self.request.method} {'/'.join(parts)}"
        body = json.loads(self.request.body) if self.request.body else None
        service.calls.append(Call(user=user, what=what, path=path, body=body, token=token))
        answer = service.scripts[user].next(what) or self._granted(user, what, path, body)
        if answer.after:
            await asyncio.sleep(answer.after)
        self._send(answer)

    get = post = put = delete = _reply

    async def _user(self, service: ScriptedService, token: str) -> str | None:
        if not service.hub_api:
            return "ann"
        answer = await AsyncHTTPClient().fetch(
            f"{service.hub_api}/user", headers={"Authorization": f"token {token}"}, raise_error=False
        )
        model = json.loads(answer.body)
        scopes = {scope.partition("!")[0] for scope in model.get("scopes", [])}
        wanted = {"custom:gq:submit"} if self.request.method != "GET" else {"custom:gq:submit", "custom:gq:read"}
        return model["name"] if scopes & wanted else None

    @staticmethod
    def _granted(user: str, what: str, path: str, body: Any) -> Answer:
        if what == "POST tickets":
            granted = ticket(gpus=body["gpus"], server=body["server"], ticket=f"nb-{user}-{body['server']}")
            return Answer(status=201, body=granted)
        if what == "GET tickets/*":
            return Answer(body=ticket(ticket=path.split("/")[1]))
        return Answer(body=me(user)) if what == "GET me" else Answer(status=204)

    def _send(self, answer: Answer) -> None:
        self.set_status(answer.status)
        if answer.body is not None:
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps(answer.body))
        else:
            self.finish()
