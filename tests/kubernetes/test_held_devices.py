"""The device on which pods run is theirs until they are gone, whatever becomes of their runs, on a real API server."""

import asyncio

import pytest

from jupyter_gq.backends.protocol import Outcome
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio


#: Otherwise the control plane evicts a server from a lost node within seconds: a slow machine needs as many.
STAYS = ({"operator": "Exists", "effect": "NoExecute"},)


async def a_notebook(world, name, node, index):
    """A server that runs on a share of that slot; returns its ticket and its device."""
    notebook = world.notebook(name, node, index)
    await world.launch(notebook)
    device = await world.held(f"{node}/{index}", node)
    additions = world.backend.notebooks.pod_additions(notebook.id, 1)
    await asyncio.to_thread(world.start_server, notebook, additions, STAYS)
    await world.running(notebook)
    return notebook, device


async def a_share(world, name, node, index):
    """A job that runs on a share of that slot."""
    job = world.job(name, (node, index), gpus="0.5")
    await world.launch(job)
    await world.held(f"{node}/{index}", node)
    await world.running(job)
    return job


async def reservations(world):
    """Uids of those that were not told to go, by slot."""
    pods = [pod for pod in await asyncio.to_thread(world.pods) if pod.metadata.namespace == world.namespaces.nodes]
    return {
        pod.metadata.annotations["jupyter-gq.org/slot"]: pod.metadata.uid
        for pod in pods
        if not pod.metadata.deletion_timestamp
    }


async def looked(world, node, seconds=0.0):
    """Time passes, and nothing happens but that everybody looks."""
    for _ in range(4):
        world.clock.ahead += seconds / 4
        await world.agents.tell(node)
        await world.backend.observe()


def ready(world, node):
    conditions = world.plane.core.read_node(node).status.conditions
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


async def test_what_runs_on_a_lost_node_keeps_its_device_when_the_node_comes_back(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2, name="slow-end")
    first, second = f"{node}/0", f"{node}/1"
    notebook, device = await a_notebook(world, "ben", node, 0)
    job = await a_share(world, "marooned", node, 1)
    before = await reservations(world)
    assert set(before) == {first, second}
    kwok.lose(node)
    await eventually(lambda: not ready(world, node), "the node is not ready")

    async def lost(workload):
        world.clock.ahead += 61
        return await world.end(workload)

    assert {(await lost(each)).outcome for each in (notebook, job)} == {Outcome.LOST}
    for each in (notebook, job):
        await world.backend.forget(each.id, 1)
    await looked(world, node, 70)
    assert await reservations(world) == before, "their pods run on: nobody could tell them"
    kwok.find(node)
    await eventually(lambda: ready(world, node), "the node is back")
    await looked(world, node, 70)

    async def job_is_gone():
        now = await reservations(world)
        pods = await asyncio.to_thread(world.pods)
        stands = any(pod.metadata.namespace == world.namespaces.train for pod in pods)
        assert now == before or not stands, "the device of a pod that ends slowly is held until it has ended"
        await looked(world, node, 10)
        return second not in await reservations(world)

    await eventually(job_is_gone, "the job's pod was ended, and its device let go")
    await looked(world, node, 120)
    assert await reservations(world) == {first: before[first]}, "the server runs on"
    assert world.backend.reservation_pods.reserved_device(first).id == device.id
    assert first in world.backend.notebooks.blocked_slots()
    await asyncio.to_thread(world.delete_server, "ben")

    async def let_go():
        await looked(world, node, 10)
        return not await reservations(world)

    await eventually(let_go, "the device of the server is let go, too")


async def test_the_device_of_running_shares_is_not_told_to_others_when_the_device_plugin_gives_it_away(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    await a_share(world, "there", node, 0)
    device = world.backend.reservation_pods.reserved_device(f"{node}/0")
    core, (reservation,) = world.plane.core, await asyncio.to_thread(_reservation_pods, world)
    name = reservation.metadata.name
    core.delete_namespaced_pod(name, world.namespaces.nodes, grace_period_seconds=0)

    async def gone():
        await world.backend.observe()
        return world.backend.reservation_pods.reserved_device(f"{node}/0") is None

    await eventually(gone, "it is seen that the reservation is gone")
    # Until the kubelet says that it has forgotten the reservation no other is made in its place.
    late = world.job("late", (node, 1), gpus="0.5")
    await world.launch(late)

    async def another_runs():
        await world.backend.observe()
        pods = await asyncio.to_thread(_reservation_pods, world)
        return [pod.metadata.name for pod in pods if pod.status.phase == "Running" and pod.metadata.name != name]

    await eventually(another_runs, "the reservation of the other slot runs, and that of the first is not there")
    await world.agents.tell(node)
    assert [device.id] in world.agents.given[node].values(), "it was given the device of the shares"
    await world.held(f"{node}/1", node)
    await world.running(late)
    environment = {each.name: each.value for each in world.pod(late).spec.containers[0].env}
    assert environment["NVIDIA_VISIBLE_DEVICES"] not in ("", device.id)
    assert world.backend.reservation_pods.reserved_device(f"{node}/0").id == device.id


def _reservation_pods(world):
    return [pod for pod in world.pods() if pod.metadata.namespace == world.namespaces.nodes]
