"""A real server in this process, a real (small) Hub beside it, and requests over HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.netutil import bind_sockets

from jupyter_gq.api.app import make_server
from jupyter_gq.api.auth import HubAuthenticator
from jupyter_gq.app import main
from jupyter_gq.client.connection.http import ServiceClient
from tests.contract.postgresql import PostgresServer, programs_or_skip
from tests.patience import scaled
from tests.serving import application_of

from .hubs import SERVICE_TOKEN, Hub
from .world import World, make_bundle

if TYPE_CHECKING:
    from .fuzzed import FuzzedService

PREFIX = "/services/jupyter-gq/"


@dataclass
class Served:
    """The service as a client sees it."""

    url: str
    http: AsyncHTTPClient
    authenticator: HubAuthenticator

    async def ask(
        self, method: str, path: str, token: str | None = "ann", body: Any = None, **headers: str
    ) -> HTTPResponse:
        """One request; `body` is sent as JSON unless it is bytes; a header `If_None` is sent as `If-None`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"token {token}"
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = HTTPRequest(
            self.url + path, method=method, headers=sent, body=content, allow_nonstandard_methods=True
        )
        return await self.http.fetch(request, raise_error=False)

    async def problem(self, *given: Any, **named: Any) -> tuple[int, dict[str, Any]]:
        """The status and the problem of a refusal; checks the form that every refusal has."""
        response = await self.ask(*given, **named)
        document = json.loads(response.body)
        assert response.code >= 400
        assert response.headers["Content-Type"].startswith("application/json")
        assert set(document) == {"code", "message", "field"}
        assert "Traceback" not in response.body.decode()
        return response.code, document


Serve = Callable[..., Awaitable[Served]]


@pytest_asyncio.fixture
async def hub() -> AsyncIterator[Hub]:
    """A Hub that works."""
    running = Hub()
    await running.start()
    yield running
    await running.stop()


@pytest_asyncio.fixture
async def serve(hub: Hub) -> AsyncIterator[Serve]:
    """Start the service over this controller; `hub_url` instead of the working Hub, for those that fail."""
    servers = []
    clients: list[Any] = []

    async def start(controller: Any, *, hub_url: str | None = None, clock: Any = None, **options: Any) -> Served:
        authenticator = HubAuthenticator(hub_url or hub.url, SERVICE_TOKEN, clock=clock, timeout=scaled(30))
        server = make_server(application_of(controller, authenticator, PREFIX, **options))
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        servers.append(server)
        http = AsyncHTTPClient(force_instance=True, max_clients=50)
        clients.extend([http, authenticator])
        port = sockets[0].getsockname()[1]
        return Served(f"http://127.0.0.1:{port}{PREFIX}", http, authenticator)

    yield start
    for server in servers:
        server.stop()
        await server.close_all_connections()
    for client in clients:
        client.close()


@pytest_asyncio.fixture
async def say(people, monkeypatch, capsys, tmp_path):
    """Run a command as ann; return its exit code, standard output and standard error."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_GQ_URL", people["ann"].url)
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "ann")

    async def run(*arguments):
        code = await asyncio.to_thread(main, list(arguments))
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return code, told.out, told.err

    return run


@pytest.fixture
def bundle() -> dict[str, Any]:
    """The bundle of a job of one cell."""
    return make_bundle()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server of these tests."""
    with PostgresServer(programs_or_skip()) as server:
        server.start()
        yield server


@pytest.fixture(params=["sqlite", "postgresql"], scope="module")
def database(request) -> str:
    """The URL of an empty database of each kind; "" = SQLite in the folder of the test."""
    return "" if request.param == "sqlite" else request.getfixturevalue("postgres_server").new_database()


@pytest.fixture(scope="module")
def fuzzed(request, database, tmp_path_factory) -> "Iterator[FuzzedService]":
    """The service on each database, with a token for every kind of requester; says at the end how much it was asked."""
    from .fuzzed import FuzzedService

    with FuzzedService(tmp_path_factory.mktemp("service"), database) as running:
        yield running
    told = f"{running.answers.total()} requests, {database.partition(':')[0] or 'sqlite'}"
    with request.config.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
        request.config.pluginmanager.get_plugin("terminalreporter").write_line(f"\n{told}")


@pytest_asyncio.fixture
async def world(tmp_path):
    """The service over a real store."""
    made = World(tmp_path)
    yield made
    made.close()


@pytest_asyncio.fixture
async def people(serve, world):
    """The clients of ann, bob and root by name."""
    served = await serve(world.controller)
    clients = {name: ServiceClient(served.url, name) for name in ("ann", "bob", "root", "ann-reads", "prometheus")}
    yield clients
    for client in clients.values():
        client.close()
