"""A refusal is an answer. Only failures move the Hub towards its exit."""

import asyncio

import pytest

from tests.hub.real_hub import Person, RealHub, eventually
from tests.hub.scripted_service import ScriptedService, problem, ticket, waiting

pytestmark = pytest.mark.asyncio


@pytest.fixture
def failing_hub(tmp_path):
    """Start a hub on which no admitted server can start: the command does not exist."""
    cannot_start = 'c.Spawner.cmd = ["/nonexistent/notebook-server"]'
    with ScriptedService() as service, RealHub(tmp_path, service, more=cannot_start) as hub:
        hub.start()
        yield hub, service


async def test_seven_refusals_leave_the_hub_up_and_five_failures_end_it(failing_hub):
    hub, service = failing_hub
    sentence = "You asked for 0.5 GPU, but your fixed quota is 0.25 GPU."
    service.scripts["ann"].expect("POST tickets", problem("quota_exceeded", sentence, 403))
    service.scripts["late"].expect("POST tickets", waiting(1))
    service.scripts["late"].expect("GET tickets/*", ticket("stopped", sentence="It was cancelled."))
    async with Person(hub, "ann") as ann, Person(hub, "late") as late:
        for refused in range(7):
            assert (await ann.spawn({"gpus": "0.5"})).status_code == 403, refused
        for refused in range(3):  # refusals after a wait, and before anything was asked for
            assert (await late.spawn({"gpus": "0.25"})).status_code == 409, refused
            assert (await late.spawn({"gpus": "x"})).status_code == 400, refused
        await asyncio.sleep(2.5)  # the Hub exits two seconds after the decision
        assert hub.exit_code() is None, hub.log.read_text()[-2000:]
        assert "Hub will exit" not in hub.log.read_text()

        service.scripts["ann"].answers.clear()
        for _ in range(5):
            assert (await ann.spawn({"gpus": "0.25"})).status_code == 500
        assert "Hub will exit if failure count reaches 5" in hub.log.read_text()
        assert await eventually(lambda: hub.exit_code() is not None)
        assert hub.exit_code() != 0
        given_back = service.of("ann", "DELETE tickets/*")
        assert len(given_back) >= 5, "a start that failed kept its share"


NOT_GRANTED = """
c.JupyterHub.extra_user_scopes = set()
c.JupyterHub.load_roles = [role for role in c.JupyterHub.load_roles if role["name"] != "user"]
"""


@pytest.fixture
def hub_without_the_scopes(tmp_path):
    with ScriptedService() as service, RealHub(tmp_path, service, more=NOT_GRANTED) as hub:
        hub.start()
        yield hub, service


async def test_users_without_the_scope_read_whom_to_ask_and_still_get_a_server(hub_without_the_scopes):
    """The scope is missing as after an administrator has removed it, or on a hub that nobody has set up for GPUs."""
    hub, service = hub_without_the_scopes
    async with Person(hub, "ann") as ann:
        await ann.log_in()
        page = (await ann.browser.get("/hub/spawn/ann")).text
        assert "has not been set up for GPUs" in page
        answer = await ann.spawn({"gpus": "0.25"})
        assert answer.status_code == 403
        assert "Ask your administrator" in answer.json()["message"]
        assert (await ann.spawn({"gpus": "0"})).status_code in (201, 202)
        await eventually(ann.ready)
        assert not service.of("ann"), "a token without the scope was let in"
        assert hub.exit_code() is None
