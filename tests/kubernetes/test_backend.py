"""The Kubernetes backend keeps the promises of every backend, and those of its own, against a real API server."""

import asyncio

import pytest
import pytest_asyncio

from jupyter_gq.backends.protocol import Outcome
from tests.kubernetes.backend_world import World, give_rights, make_runtime_class
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio


@pytest.fixture(scope="module")
def installation(control_plane, namespace_set):
    give_rights(control_plane, namespace_set)
    make_runtime_class(control_plane)
    return namespace_set


@pytest_asyncio.fixture
async def world(control_plane, installation):
    world = World(control_plane, installation)
    yield world
    await world.close()


async def test_a_whole_gpu_runs_on_the_node_that_was_chosen_and_stops_when_told(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    job = world.job("whole", (node, 0, 1), gpus=2)
    await world.launch(job)
    await world.launch(job)
    seen = await world.running(job)
    assert seen.outcome is None
    pods = await asyncio.to_thread(world.pods)
    assert [pod.spec.node_name for pod in pods] == [node]
    assert pods[0].spec.containers[0].resources.limits == {"nvidia.com/gpu": "2"}
    names = [variable.name for variable in pods[0].spec.containers[0].env]
    assert "NVIDIA_VISIBLE_DEVICES" not in names
    assert "CUDA_VISIBLE_DEVICES" not in names
    await world.backend.stop(job.id, job.run, 60)
    await world.backend.stop(job.id, job.run, 60)
    end = await world.end(job)
    assert end.outcome is Outcome.KILLED
    assert await world.observed(job) == end
    await world.backend.forget(job.id, job.run)
    await world.backend.forget(job.id, job.run)
    assert await world.observed(job) is None
    assert not await asyncio.to_thread(world.pods)


async def test_what_the_runner_said_last_is_the_end(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    job = world.job("said", (node, 0))
    await world.launch(job)
    await world.running(job)
    message = '{"outcome": "FAILED", "sentence": "ValueError: no"}'
    await asyncio.to_thread(world.finish, world.pod(job), 1, message, "Error")
    end = await world.end(job)
    assert (end.outcome, end.sentence) == (Outcome.FAILED, "ValueError: no")
    assert await asyncio.to_thread(world.pods), "its pod stays until its end is written down"
    await world.backend.forget(job.id, job.run)

    async def gone():
        await world.backend.observe()
        return not await asyncio.to_thread(world.pods)

    await eventually(gone, "nothing left behind")
    assert await world.backend.observe() == []
