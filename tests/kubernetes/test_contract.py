"""What every backend guarantees, guaranteed on a real API server, with pods that are processes."""

import asyncio
import inspect
import os
import signal
from dataclasses import replace

import pytest
import pytest_asyncio

from jupyter_gq.backends.kubernetes.objects.names import WORKLOAD
from jupyter_gq.backends.protocol import Launch, Outcome
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.states import State
from tests.contract import test_backend as contract
from tests.kubernetes.contract_world import ContractWorld, an_image
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio
#: Seconds for which no service watches.
AWAY = 120.0

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


async def test_a_job_that_ended_without_a_service_ended_when_its_container_did(world):
    workload = world.workload()
    await world.launch(workload)
    began = world.clock.now()
    os.kill(world.leader(workload), signal.SIGTERM)

    def is_over():
        (pod,) = [pod for pod in world.pods() if pod.metadata.labels[WORKLOAD] == workload.id]
        return pod.status.container_statuses[0].state.terminated is not None

    await eventually(is_over, "the end of the container")
    world.clock.ahead += AWAY
    world.backend = world.new_backend()
    known = replace(workload, state=State.RUNNING, started_at=Instant(began - 1), running_since=Instant(began - 1))
    await world.backend.launch(Launch(workload=known))
    end = await world.end(workload)
    assert end.outcome is Outcome.SUCCEEDED
    assert began - 1 <= end.since <= world.clock.now() - AWAY
