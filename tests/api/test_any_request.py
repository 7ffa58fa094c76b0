"""Requests that Schemathesis makes from the served OpenAPI document: never a status of 500, never an unknown answer.

Every role sends each request, to every route, valid ones and invalid ones. The number of requests is bounded, so that
the tier takes about a minute; `JUPYTER_GQ_FUZZ_EXAMPLES` sets another number for each route and kind.
"""

import asyncio
import math
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tornado.netutil import bind_sockets

from jupyter_gq.api.app import make_server
from jupyter_gq.api.auth import HubAuthenticator
from jupyter_gq.api.routes import ROUTES, describe_api
from jupyter_gq.client.models import TicketRequest
from jupyter_gq.controller.caller import Caller
from tests.patience import scaled
from tests.serving import application_of

from .conftest import PREFIX
from .fakes import PODS, authenticator
from .hubs import SERVICE_TOKEN, Hub
from .world import World, submission

EXAMPLES = int(os.environ.get("JUPYTER_GQ_FUZZ_EXAMPLES", "2"))
ANN = Caller(user="ann", groups=frozenset({"vision"}))
#: Holders of tokens of the Hub, of a job and of pods; one token that nobody knows; None: no token.
ROLES = (
    "ann",
    "bob",
    "ann-reads",
    "ann-nothing",
    "ann-elsewhere",
    "root",
    "prometheus",
    "job",
    "agent",
    "runner",
    "unknown",
    None,
)
#: A stream never ends, so its route is asked below.
ASKED = [route for route in ROUTES if route.path != "events"]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@dataclass
class Service:
    """The service in a thread of its own, with a job that runs and a notebook."""

    folder: Path
    bundle: dict[str, Any]
    url: str = ""
    #: The token of each role, and the objects that exist, by the name of the part of a path.
    tokens: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> "Service":
        ready: Future[None] = Future()
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve(ready)))
        self._thread.start()
        ready.result(timeout=scaled(60))
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(timeout=scaled(60))
        self._loop.close()

    async def _serve(self, ready: "Future[None]") -> None:
        hub, world = Hub(), World(self.folder)
        try:
            await hub.start()
            job = world.controller.jobs.submit(ANN, submission(self.bundle), None)[0].id
            ticket = world.controller.tickets.open(ANN, TicketRequest(server="lab", gpus="0.25"))[0].id
            await world.steps()
            self.parts = {
                "job": job,
                "ticket": ticket,
                "server": "lab",
                "node": PODS["agent"].node,
                "drain": "GPU-nowhere",
            }
            self.tokens = {"job": world.job_token(job)}
            tokens = HubAuthenticator(hub.url, SERVICE_TOKEN)
            server = make_server(application_of(world.controller, tokens, PREFIX, pods=authenticator()))
            sockets = bind_sockets(0, "127.0.0.1")
            server.add_sockets(sockets)
            self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}{PREFIX}"
            ready.set_result(None)
            while not self._ended.is_set():
                await world.steps(1)
                await asyncio.sleep(0.05)
            server.stop()
            await server.close_all_connections()
            tokens.close()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise
        finally:
            world.close()
            await hub.stop()

    def headers(self, role: str | None) -> dict[str, str]:
        return {} if role is None else {"Authorization": f"token {self.tokens.get(role, role)}"}


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[Service]:
    from .conftest import bundle

    with Service(tmp_path_factory.mktemp("service"), bundle.__wrapped__()) as running:
        yield running


def finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@pytest.fixture(scope="module")
def schema() -> Any:
    return schemathesis.openapi.from_dict(describe_api())


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
@pytest.mark.parametrize("route", ASKED, ids=lambda route: f"{route.method} {route.path}")
def test_every_answer_is_one_that_the_document_names(service, schema, route, mode):
    operation = schema[f"/api/v1/{route.path}"][route.method]

    @hypothesis.seed(20)
    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(mode))
    def ask(case: Any) -> None:
        if mode is GenerationMode.POSITIVE:
            case.path_parameters = {name: service.parts[name] for name in case.path_parameters or {}}
        if case.query:
            case.query.pop("wait", None)  # a long wait is no error
        for role in ROLES:
            response = case.call(base_url=service.url.rstrip("/"), headers=service.headers(role), timeout=scaled(30))
            case.validate_response(response, checks=CHECKS)
            if response.headers.get("content-type", [""])[0].startswith("application/json") and response.content:
                assert finite(response.json())

    try:
        ask()
    except hypothesis.errors.Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # nothing about this request can be wrong
