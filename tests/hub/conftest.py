"""Real hubs for the tests of the spawner. One hub serves most of them: each test has users of its own."""

import pytest

from tests.hub.real_hub import Person, RealHub
from tests.hub.scripted_service import ScriptedService


@pytest.fixture(scope="session")
def service():
    with ScriptedService() as service:
        yield service


@pytest.fixture(scope="session")
def hub(tmp_path_factory, service):
    with RealHub(tmp_path_factory.mktemp("hub"), service) as hub:
        hub.start()
        yield hub
        assert hub.exit_code() is None, f"the hub ended during the tests: {hub.log.read_text()[-3000:]}"


@pytest.fixture
def person(hub):
    return lambda name: Person(hub, name)
