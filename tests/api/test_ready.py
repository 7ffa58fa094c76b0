"""Whether requests may come here is told to whoever asks, without a token."""

import pytest

from jupyter_gq.api.access import Access
from jupyter_gq.api.routes import ROUTES
from jupyter_gq.api.standby import Standby

from .fakes import JOB_TOKEN

pytestmark = pytest.mark.asyncio


async def test_a_service_is_ready_once_it_has_looked_around(serve, world):
    served = await serve(world.controller)
    status, problem = await served.problem("GET", "api/v1/ready", token=None)
    assert (status, problem["code"]) == (503, "not_ready")
    assert "just started" in problem["message"]
    await world.controller.step()
    answer = await served.ask("GET", "api/v1/ready", token=None)
    assert (answer.code, answer.body) == (200, b'{"ready":true}')


async def test_a_service_that_waits_for_its_place_is_alive_and_not_ready_and_does_nothing(serve):
    served = await serve(Standby("1.2.3", lambda: "pod-b leads; this service waits for its place"))
    assert (await served.ask("GET", "api/v1/health", token=None)).code == 200
    closed = [route for route in ROUTES if route.access not in (Access.PUBLIC, Access.OPEN, Access.MONITOR)]
    asked = [(route.method, route.path) for route in closed] + [("GET", "ready")]
    assert ("POST", "jobs/{job}/token") in asked, "a pod that was refused for good would end"
    for method, path in asked:
        for token in ("ann", JOB_TOKEN, None):
            body = {} if method in {"POST", "PUT"} else None
            status, problem = await served.problem(method, f"api/v1/{path.format_map(Names())}", token=token, body=body)
            assert status == 503, (method, path, token)
            assert "pod-b leads" in problem["message"]


async def test_one_that_waits_tells_prometheus_that_and_nothing_else(serve, world):
    """A target that refuses would be reported as down as long as the other one leads."""
    served = await serve(Standby("1.2.3", lambda: "pod-b leads"))
    answer = await served.ask("GET", "api/v1/metrics", token=None)
    figures = [line for line in answer.body.decode().splitlines() if not line.startswith("#")]
    assert (answer.code, figures) == (200, ["jupyter_gq_service_leads 0"])
    leads = await serve(world.controller)
    assert (await leads.ask("GET", "api/v1/metrics", token=None)).code == 401
    assert b"jupyter_gq_service_leads 1\n" in (await leads.ask("GET", "api/v1/metrics", token="prometheus")).body


class Names(dict):
    """Any object that a path asks for."""

    def __missing__(self, name):
        return f"{name}-1"
