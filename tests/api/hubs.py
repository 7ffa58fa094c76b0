"""Small real HTTP servers in the place of the Hub, named by what goes wrong with them."""

import asyncio
import json
import socket
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

ACCESS = "access:services!service=jupyter-gq"
READ, CHANGE, SUBMIT = "custom:gq:read", "custom:gq:change", "custom:gq:submit"
DELETE = "custom:gq:delete"
ADMIN = "custom:gq:admin"
SERVICE_TOKEN = "token-of-the-service-itself"


def user(name: str, *scopes: str, groups: tuple[str, ...] | None = ("vision",), access: str = ACCESS) -> dict[str, Any]:
    """The model of a user as the Hub shows it to a token with these scopes."""
    model: dict[str, Any] = {"kind": "user", "name": name, "scopes": [access, *scopes]}
    return model if groups is None else {**model, "groups": list(groups)}


def service(name: str, *scopes: str) -> dict[str, Any]:
    """The model of a service of the Hub."""
    return {"kind": "service", "name": name, "admin": False, "scopes": [ACCESS, *scopes]}


class Hub:
    """Answers for the tokens that it knows, and counts how often it is asked."""

    def __init__(self) -> None:
        self.tokens: dict[str, dict[str, Any]] = {
            "ann": user("ann", SUBMIT, READ),
            "bob": user("bob", SUBMIT, READ, groups=("nlp",)),
            "ann-reads": user("ann", READ),
            "ann-changes": user("ann", CHANGE),
            "ann-deletes": user("ann", DELETE),
            "dora": user("dora", CHANGE, groups=()),
            "dora-own": user("dora", f"{CHANGE}!user=dora", groups=()),
            "ann-nothing": user("ann"),
            "ann-elsewhere": user("ann", SUBMIT, access="access:services!service=other"),
            "root": user("root", ADMIN, groups=()),
            "prometheus": service("prometheus"),
        }
        self.groups: dict[str, list[str]] = {}
        self.asked = 0
        self.url = ""
        self._server: HTTPServer | None = None

    async def start(self) -> None:
        handlers = [(r"/hub/api/user", _User, {"hub": self}), (r"/hub/api/users/([^/]+)", _Groups, {"hub": self})]
        self._server = HTTPServer(Application(handlers, log_function=lambda _: None))
        sockets = bind_sockets(0, "127.0.0.1")
        self._server.add_sockets(sockets)
        self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/hub/api"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            await self._server.close_all_connections()

    async def answer(self, handler: RequestHandler, token: str) -> None:
        self.asked += 1
        model = self.tokens.get(token)
        if model is None:
            handler.set_status(403)
            handler.finish({"status": 403, "message": "Missing or invalid credentials."})
        else:
            handler.finish(json.dumps(model))


class HubSaysNo(Hub):
    """Every answer is an error of its own."""

    async def answer(self, handler, token):
        self.asked += 1
        handler.set_status(500)
        handler.finish("Internal error")


class HubTalksNonsense(Hub):
    """A web page in the place of an answer, as a wrong address gives."""

    async def answer(self, handler, token):
        handler.finish("<html>Welcome</html>")


class HubIsSlow(Hub):
    """Takes so long that many requests with one token meet."""

    async def answer(self, handler, token):
        await asyncio.sleep(0.1)
        await super().answer(handler, token)


class HubKnowsNoStrangerYet(Hub):
    """Answers for a token that it does not know only once the event is set."""

    def __init__(self):
        super().__init__()
        self.looked = asyncio.Event()
        self.asked_for: list[str] = []

    async def answer(self, handler, token):
        self.asked_for.append(token)
        if token not in self.tokens:
            await self.looked.wait()
        await super().answer(handler, token)


class HubIsDown(Hub):
    """Nobody listens at its address."""

    async def start(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{taken.getsockname()[1]}/hub/api"


class _User(RequestHandler):
    def initialize(self, hub: Hub) -> None:
        self.hub = hub

    async def get(self) -> None:
        await self.hub.answer(self, self.request.headers["Authorization"].removeprefix("token "))


class _Groups(RequestHandler):
    def initialize(self, hub: Hub) -> None:
        self.hub = hub

    async def get(self, name: str) -> None:
        assert self.request.headers["Authorization"] == f"token {SERVICE_TOKEN}"
        if name not in self.hub.groups:
            self.set_status(404)
            self.finish({"status": 404})
        else:
            self.finish({"name": name, "groups": self.hub.groups[name]})
