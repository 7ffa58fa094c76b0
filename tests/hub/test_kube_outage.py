"""A real hub whose cluster does not answer at all: nobody listens at the address of its API."""

import asyncio

import pytest

from tests.hub.real_hub import Person, RealHub, no_cluster
from tests.hub.scripted_service import ScriptedService, ticket

pytestmark = pytest.mark.asyncio

_CONFIG = """
c.JupyterHub.spawner_class = "jupyter_gq.hub.kubernetes.spawner.GQKubeSpawner"
c.KubeSpawner.namespace = "hub"
c.KubeSpawner.profile_list = lambda spawner: [{"slug": "gpu", "display_name": "GPU", "gpus": "0.25"}]
"""


@pytest.fixture
def service():
    with ScriptedService() as service:
        yield service


@pytest.fixture
def hub(tmp_path, service, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(no_cluster(tmp_path)))
    with RealHub(tmp_path, service, more=_CONFIG) as hub:
        hub.start()
        yield hub


async def test_every_start_is_refused_with_a_sentence_and_the_hub_stays(hub, service):
    """Seven in a row: a hub exits after five failures. Each share is given back."""
    pod = {"node": "gpu-1", "environment": {}}
    service.scripts["ann"].expect("POST tickets", ticket(pod=pod))
    service.scripts["ann"].expect("GET tickets/*", ticket(pod=pod))
    async with Person(hub, "ann") as ann, Person(hub, "bob") as bob:
        for options in ({"profile": "gpu"}, {"gpus": "0.25"}, {"gpus": "0"}, {}, {"profile": "gpu"}, {"gpus": "0"}):
            answer = await ann.spawn(options)
            assert answer.status_code == 503, options
            assert "The cluster does not answer" in answer.json()["message"]
        for options in ({"profile": "none"}, {"profile": "gpu", "gpus": "1"}, {"gpus": "x"}, [1]):
            assert (await bob.spawn(options)).status_code == 400, options
        await asyncio.sleep(2.5)  # the Hub exits two seconds after the decision
        assert hub.exit_code() is None, hub.log.read_text()[-2000:]
        assert "Hub will exit" not in hub.log.read_text()
        tickets = len(service.of("ann", "POST tickets"))
        assert len(service.of("ann", "DELETE tickets/*")) >= tickets > 0
        assert not service.of("bob")
        await ann.log_in()
        page = (await ann.browser.get("/hub/spawn/ann")).text
        assert "As the profile says" in page
        assert 'name="profile"' in page
