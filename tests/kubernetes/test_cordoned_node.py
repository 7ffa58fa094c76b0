"""A node that is cordoned, as before a drain: jobs leave it with their grace, and go on elsewhere."""

import asyncio

import pytest
import pytest_asyncio

from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.errors import Conflict
from tests.cells import TRAINS
from tests.kubernetes.backend_world import give_rights
from tests.kubernetes.chart import grant_rights
from tests.kubernetes.job_world import ANN, a_service
from tests.kubernetes.raw import Raw
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

ROOT = Caller(user="root", admin=True)


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


@pytest.fixture
def may_cordon(control_plane, installed):
    """Give the service the right to cordon nodes, as the chart's value does; take it away in the end."""
    raw = Raw(control_plane)
    values = ["training.asJobs=true", "service.cordonNodes=true"]
    yield lambda: grant_rights(raw, installed.world.namespaces, values=values)
    give_rights(control_plane, installed.world.namespaces)
    raw.close()


async def test_the_service_cordons_and_uncordons_a_node_where_the_chart_lets_it(installed, may_cordon, tmp_path):
    drains, core = installed.controller.drains, installed.world.plane.core
    job = installed.send(TRAINS, tmp_path / "home")
    await eventually(lambda: "from 0" in installed.text(job), "it trains")
    old = await where(installed)
    with pytest.raises(Conflict, match=f"Run `kubectl cordon {old}`, or set service.cordonNodes"):
        await drains.begin(ROOT, old)
    assert drains.list_drains().drains == []
    await asyncio.to_thread(may_cordon)

    async def is_drained():
        try:
            return await drains.begin(ROOT, old)
        except Conflict:  # the API server has not seen the new role yet
            return None

    view = await eventually(is_drained, "the service may cordon nodes")
    assert (view.by, view.leaving) == ("root", [job])
    assert (await asyncio.to_thread(core.read_node, old)).spec.unschedulable is True
    await eventually(lambda: installed.job(job).phase == "done", lambda: f"its end: {installed.job(job)}")
    assert installed.job(job).run == 2
    assert [each.name for each in drains.list_drains().drains] == [old]
    await drains.end(ROOT, old)
    assert not (await asyncio.to_thread(core.read_node, old)).spec.unschedulable
    assert drains.list_drains().drains == []
