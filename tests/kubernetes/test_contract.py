"""What every backend guarantees, guaranteed on a real API server, with pods that are processes."""

import asyncio
import inspect

import pytest
import pytest_asyncio

from tests.contract import test_backend as contract
from tests.kubernetes.contract_world import ContractWorld, an_image

pytestmark = pytest.mark.asyncio

#: What a service promises that looks after processes itself. On a cluster the kubelet does: we never see one, and a
#: pod is over when its first process is, with all others.
OF_PROCESSES = {
    "test_a_launched_run_is_seen_with_its_processes",
    "test_devices_are_free_only_when_the_last_process_is_gone",
}
_ALL = {name: test for name, test in inspect.getmembers(contract, inspect.iscoroutinefunction) if name[:5] == "test_"}
assert _ALL.keys() > OF_PROCESSES
globals().update({name: test for name, test in _ALL.items() if name not in OF_PROCESSES})


@pytest.fixture(scope="module")
def place(make_kubelet, tmp_path_factory):
    """A node whose pods do what their tests want, and the folder in which they read that."""
    folder = tmp_path_factory.mktemp("contract")
    return make_kubelet("gpu-contract", gpus=8, python=an_image(folder)).name, folder


@pytest_asyncio.fixture
async def world(control_plane, installation, place):
    node, folder = place
    world = ContractWorld(control_plane, installation, node=node, folder=folder)
    yield world
    await world.close()
    await asyncio.to_thread(world.clean_up)
