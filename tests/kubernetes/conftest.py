"""One real control plane serves the session; each module has namespaces, accounts and nodes of its own.

See docs/decisions/0032-test-against-a-real-api-server.md.
"""

import asyncio
import os
from pathlib import Path

import pytest
import pytest_asyncio

from tests.kubernetes.backend_world import World, give_rights, make_runtime_class
from tests.kubernetes.control_plane import PROGRAMS, ControlPlane
from tests.kubernetes.job_world import a_service
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.kwok import Kwok
from tests.kubernetes.namespaces import delete_namespaces, make_namespaces
from tests.kubernetes.programs import missing_programs, tools_folder

#: Where API servers are killed, a connection of somebody may be found later by the collector, in a test that has
#: nothing to do with it. That clients close what they open is for tests with servers of their own.
_LATE = "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"


#: The modules that take longest. They begin first, so that no process works alone on one of them in the end.
_LONGEST = (
    "test_two_services.py",
    "test_story.py",
    "test_two_replicas.py",
    "test_move_to_postgresql.py",
    "test_killed_service.py",
    "test_spawner.py",
)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in _LONGEST)
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings(_LATE))


def require_programs(*names):
    """Skip with one line that says what to do; where CI runs, nothing may be missing."""
    if missing := missing_programs(*names):
        if os.environ.get("CI"):
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)


@pytest.fixture(scope="session")
def _control_plane(tmp_path_factory):
    require_programs(*PROGRAMS)
    plane = ControlPlane(tools_folder(), tmp_path_factory.mktemp("control-plane"))
    try:
        plane.start()
        yield plane
    finally:
        plane.end()


@pytest.fixture(scope="module")
def control_plane(_control_plane):
    """One for all modules; what a module before did to the API server is over."""
    _control_plane.settle()
    return _control_plane


@pytest.fixture(scope="module")
def namespace_set(control_plane):
    made = make_namespaces(control_plane)
    yield made
    delete_namespaces(control_plane, made)


@pytest.fixture(scope="session")
def _kwok(_control_plane):
    require_programs("kwok")
    return Kwok(_control_plane)


@pytest.fixture(scope="module")
def kwok(_kwok):
    """Its nodes go with the module."""
    _kwok.start()
    yield _kwok
    _kwok.remove_all()


@pytest.fixture(scope="module")
def make_kubelet(control_plane):
    """Nodes whose pods are processes: `make_kubelet("gpu-a", gpus=2)`. They end with the module."""
    made = []

    def make(name, gpus=2, **options):
        made.append(Kubelet(control_plane, name, gpus, **options))
        made[-1].start()
        return made[-1]

    yield make
    for kubelet in reversed(made):
        kubelet.end()


@pytest.fixture(scope="module")
def installation(control_plane, namespace_set):
    """The namespaces with the rights that the chart gives, and a runtime class."""
    give_rights(control_plane, namespace_set)
    make_runtime_class(control_plane)
    return namespace_set


@pytest_asyncio.fixture
async def world(control_plane, installation):
    """The backend of an installation; nothing of it is left behind."""
    world = World(control_plane, installation)
    yield world
    await world.close()
    await asyncio.to_thread(world.clean_up)


@pytest.fixture(scope="module")
def node(request, make_kubelet):
    """A node with two devices, called as the module that asks says: `NODE`."""
    return make_kubelet(request.module.NODE, gpus=2)


@pytest_asyncio.fixture
async def installed(control_plane, installation, node, tmp_path):
    """A service of its own for each test, and that node."""
    async with a_service(control_plane, installation, tmp_path) as made:
        yield made
