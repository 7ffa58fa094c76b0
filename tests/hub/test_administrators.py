"""Who sees and changes everybody's jobs where the chart says it, as the Hub hands it to their tokens."""

import pytest

from tests.chart.render import named, objects
from tests.hub.real_hub import Person, RealHub
from tests.hub.scripted_service import ScriptedService

pytestmark = pytest.mark.asyncio

ADMINS = {"admins": {"users": ["ann"], "groups": ["gpu-admins"]}}


@pytest.fixture
def own_hub(tmp_path):
    """Start a hub whose configuration ends with the chart's file, and which has a group."""
    written = named(objects(ADMINS), "ConfigMap", "gq-gq-hub")["data"]["jupyterhub_config_values_policy.py"]
    groups = 'c.JupyterHub.load_groups = {"gpu-admins": {"users": ["bob"]}}\nc.Authenticator.admin_users = {"eve"}\n'
    with ScriptedService() as service, RealHub(tmp_path, service, more=groups + written) as hub:
        hub.start()
        yield hub


async def test_users_and_groups_of_the_values_hold_the_scope_and_the_hubs_own_administrators_do_not(own_hub):
    scope = "custom:gq:admin"
    assert {name: scope in await scopes_of(own_hub, name) for name in ("ann", "bob", "eve", "zoe")} == {
        "ann": True,
        "bob": True,
        "eve": False,
        "zoe": False,
    }


async def scopes_of(hub, name):
    """Return the scopes of a token that the user requests on the Hub's page."""
    async with Person(hub, name) as person:
        await person.log_in()
        answer = await person.browser.post(f"/hub/api/users/{name}/tokens?_xsrf={person.xsrf()}", json={})
        token = answer.json()["token"]
        told = await person.browser.get("/hub/api/user", headers={"Authorization": f"token {token}"})
        return {scope.partition("!")[0] for scope in told.json()["scopes"]}
