"""Processors and memory of pods that are not ours: counted where the service may read all pods, and only there."""

import asyncio

import pytest
import pytest_asyncio

from jupyter_gq.client.agents import AgentAllocation
from jupyter_gq.domain.errors import BackendError
from tests.kubernetes.backend_world import GPU, World, make_runtime_class
from tests.kubernetes.chart import grant_rights, revoke
from tests.kubernetes.raw import Raw
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

#: Of a node of kwok.
CORES, MEMORY = 128_000, 2**20


@pytest.fixture(scope="module")
def rights(control_plane, namespace_set):
    """Gives what the chart gives, with these values."""
    raw, granted = Raw(control_plane), []

    def give(*values):
        granted.extend(grant_rights(raw, namespace_set, values=values))

    yield give
    revoke(raw, granted)
    raw.close()


@pytest_asyncio.fixture
async def world(control_plane, namespace_set, rights):
    rights()
    make_runtime_class(control_plane)
    world = World(control_plane, namespace_set)
    yield world
    await world.close()
    await asyncio.to_thread(world.clean_up)


def foreign_pod(node, name):
    """Somebody's, in a namespace that is not only ours."""
    first = {"name": "a", "image": "i", "resources": {"requests": {"cpu": "1500m", "memory": "3Gi"}}}
    second = {"name": "b", "image": "i", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [first, second], "terminationGracePeriodSeconds": 0},
    }


async def healthy(world, node, pod):
    """How many devices are offered when the kubelet says that this pod has one."""
    namespace, name = pod
    given = AgentAllocation(namespace=namespace, pod=name, container="a", resource=GPU, device_ids=["GPU-x"])
    world.agents.report(node, allocations=[given])
    await world.backend.observe()
    (seen,) = [each for each in world.backend.nodes() if each.name == node]
    return sum(device.healthy for device in seen.devices)


async def test_what_foreign_pods_use_is_known_where_all_pods_may_be_read(world, kwok, rights):
    (node,) = kwok.add_nodes(1, gpus=2)
    core, hub = world.plane.core, world.namespaces.hub
    core.create_namespaced_pod(hub, foreign_pod(node, "theirs"))

    def room(backend):
        (seen,) = [each for each in backend.nodes() if each.name == node]
        return seen.cpu_milli, seen.memory

    await world.backend.observe()
    assert room(world.backend) == (CORES, MEMORY), "nobody else is counted without the right"

    reads_all = world.new_backend(observe_all_pods=True)
    with pytest.raises(BackendError, match=r"lacks the right to list pods .*at the cluster scope"):
        await reads_all.observe()

    rights("observe.allPods=true")

    async def counted(cpu, memory):
        try:
            await reads_all.observe()
        except BackendError:
            return False
        return room(reads_all) == (CORES - cpu, MEMORY - memory)

    await eventually(lambda: counted(2000, 4096), "both containers of the foreign pod")

    # A job's task is counted by the core already, whose request it is.
    world.backend = reads_all
    job = world.job("ours", (node, 0))
    await world.launch(job)
    await world.running(job)
    assert await counted(2000, 4096)

    # Kubelets before 1.34 list pods that have ended with the devices that they had.
    assert await healthy(world, node, ("elsewhere", "ended")) == 2
    assert await healthy(world, node, (hub, "theirs")) == 1
    world.agents.report(node, allocations=[])

    await asyncio.to_thread(core.create_namespaced_pod, hub, foreign_pod(node, "more"))
    await eventually(lambda: counted(4000, 8192), "one more")
    for name in ("theirs", "more"):
        core.delete_namespaced_pod(name, hub, grace_period_seconds=0)
    await eventually(lambda: counted(0, 0), "none")
