"""Whether requests may come here is told to whoever asks, without a token."""

import pytest
import pytest_asyncio

from jupyter_gq.api.standby import Standby

from .world import World

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def world(tmp_path):
    """The service over a real store."""
    world = World(tmp_path)
    yield world
    world.close()


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
    for method, path, token in (("GET", "ready", None), ("GET", "jobs", "ann"), ("DELETE", "jobs/job-1", "ann")):
        status, problem = await served.problem(method, f"api/v1/{path}", token=token)
        assert status == 503
        assert "pod-b leads" in problem["message"]
    status, _ = await served.problem("GET", "api/v1/jobs", token=None)
    assert status == 401, "who asks is found out first, as ever"
