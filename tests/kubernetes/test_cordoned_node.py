"""A node that is cordoned, as before a drain: jobs leave it with their grace, and go on elsewhere."""

import asyncio

import pytest
import pytest_asyncio

from tests.cells import TRAINS
from tests.kubernetes.job_world import ANN, a_service
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio


@pytest.fixture(scope="module")
def nodes(make_kubelet):
    return {name: make_kubelet(name, gpus=1) for name in ("gpu-left", "gpu-right")}


@pytest_asyncio.fixture
async def installed(control_plane, installation, nodes, tmp_path):
    async with a_service(control_plane, installation, tmp_path) as made:
        yield made


def cordon(installed, node, cordoned=True):
    return asyncio.to_thread(installed.world.plane.core.patch_node, node, {"spec": {"unschedulable": cordoned}})


async def where(installed):
    """The node of the only pod."""
    (pod,) = await asyncio.to_thread(installed.world.pods)
    return pod.spec.node_name


async def test_a_job_leaves_a_cordoned_node_and_goes_on_where_it_was_on_another(installed, tmp_path):
    job = installed.send(TRAINS, tmp_path / "home")
    await eventually(lambda: "from 0" in installed.text(job), "it trains")
    old = await where(installed)
    told = []

    def heard(_=None):
        sentence = installed.job(job).sentence
        if sentence and sentence not in told:
            told.append(sentence)
        return installed.job(job).phase == "done"

    await cordon(installed, old)
    try:
        await eventually(heard, lambda: f"its end: {installed.job(job)}", every=0.02)
        first, until, again, end = installed.text(job).splitlines()
        reached = int(until.removeprefix("until "))
        assert (first, again, end) == ("from 0", f"from {reached}", f"until {reached + 1}")
        assert installed.job(job).run == 2
        assert any(f"the node {old} is being drained" in each for each in told), told
    finally:
        await cordon(installed, old, cordoned=False)


async def test_while_all_nodes_are_cordoned_it_waits(installed, nodes, tmp_path):
    job = installed.send(TRAINS, tmp_path / "home")
    await eventually(lambda: "from 0" in installed.text(job), "it trains")
    for node in nodes:
        await cordon(installed, node)
    try:
        await installed.phase(job, "paused")
        assert "until" in installed.text(job), "it had its grace"
        await eventually(lambda: not installed.world.pods(), "nothing is left there")
        assert not any(device.healthy for device in installed.controller.overview.list_devices(ANN).devices)
    finally:
        for node in nodes:
            await cordon(installed, node, cordoned=False)
    await installed.phase(job, "done")
