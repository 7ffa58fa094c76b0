"""Devices and nodes out of service: by a command, by the configuration, and on a cluster by a cordon."""

import asyncio
from dataclasses import replace

import pytest

from jupyter_gq.backends.capabilities import Capabilities
from jupyter_gq.domain.errors import BackendError, Conflict, NotFound, UserError
from jupyter_gq.domain.mentions import reveal
from tests.fakes import FakeBackend, StopsTooLate, a_node

from .world import ADMIN, ANN, BOB, World, story_settings

pytestmark = pytest.mark.asyncio

#: One device for notebooks, two for jobs.
BOX = (a_node(3),)
BUILD, FIRST, SECOND = (device.id for device in BOX[0].devices)


def pools(build, train):
    return story_settings(BOX, Pools={"pools": {"build": {"devices": build}, "train": {"devices": train}}})


def a_world(folder, **options):
    return World(folder, nodes=BOX, settings=pools([0], [1, 2]), **options)


@pytest.fixture
def world(tmp_path):
    world = a_world(tmp_path)
    yield world
    world.close()


def device(world, name, who=ADMIN):
    found = [each for each in world.controller.overview.list_devices(who).devices if each.id == name]
    return found[0] if found else None


def placed(world, job):
    """Ids of the devices that the job holds."""
    return [name for task in world.store.get(job).workload.placement for name in task.devices]


async def drain(world, name, who=ADMIN):
    return await world.controller.drains.begin(who, name)


async def undrain(world, name, who=ADMIN):
    return await world.controller.drains.end(who, name)


async def running_on(world, wanted, who=BOB, queue="nlp"):
    """A job that runs on that device, and on no other."""
    job = world.send(who, queue, "1")
    await world.step(2)
    if placed(world, job) != [wanted]:
        other = world.send(who, queue, "1")
        await world.step(2)
        world.backend.end(job)
        await world.step()
        return other
    return job


# --- on one machine


async def test_a_job_leaves_a_drained_device_with_its_grace_and_goes_on_with_another(world):
    job = await running_on(world, FIRST)
    view = await drain(world, "1")
    assert (view.name, view.node, view.index, view.by) == (FIRST, "box", 1, "root")
    assert (view.leaving, view.staying) == ([job], [])
    assert reveal(view.sentence) == (
        "GPU 1 of box takes nothing new. bob's digits will leave, with the usual grace period."
    )
    await world.step()
    assert world.backend.stops[-1][2] == world.settings.current.grace
    assert "GPU 1 of box is being drained" in world.job(job).eviction.sentence
    await world.step(3)
    assert placed(world, job) == [SECOND]
    assert world.controller.drains.list_drains().drains[0].sentence == (
        "GPU 1 of box takes nothing new. Nothing of jupyter-gq runs there."
    )


async def test_nothing_starts_there_until_it_is_put_back_into_service(world):
    for name in (FIRST, SECOND):
        await drain(world, name)
    job = world.send(BOB, "nlp", "1")
    await world.step(3)
    assert world.job(job).phase == "waiting"
    assert "GPU 1 of box is being drained" in world.job(job).sentence
    assert (await undrain(world, SECOND)).sentence == "GPU 2 of box takes new work again."
    await world.step(3)
    assert placed(world, job) == [SECOND]


async def test_a_notebook_stays_on_a_drained_device_until_it_ends(world):
    ticket = await world.start_server(ANN, "0.5")
    view = await drain(world, "0")
    assert (view.leaving, view.staying) == ([], [ticket.id])
    assert reveal(view.sentence) == "GPU 0 of box takes nothing new. ann's server stays until it ends."
    await world.step(3)
    assert world.notebook(ANN).phase == "running"
    assert world.ask(BOB, "0.25").phase == "waiting"
    await world.step(2)
    assert "GPU 0 of box is being drained" in world.notebook(BOB).sentence


async def test_a_drain_outlives_the_service(world):
    await drain(world, FIRST)
    world.restart()
    await world.step()
    assert not device(world, FIRST).healthy
    assert [each.by for each in world.controller.drains.list_drains().drains] == ["root"]
    await undrain(world, FIRST)
    world.restart()
    assert device(world, FIRST).healthy
    assert world.controller.drains.list_drains().drains == []


async def test_everybody_sees_that_a_device_is_drained_and_admins_by_whom(world):
    await drain(world, FIRST)
    assert device(world, FIRST).note.startswith("drained by root since ")
    assert device(world, FIRST).note.endswith(" UTC")
    assert (device(world, FIRST, ANN).draining, device(world, FIRST, ANN).note) == (True, "")
    assert (device(world, SECOND).draining, device(world, SECOND).note) == (False, "")


async def test_a_drained_node_takes_nothing_new_with_devices_or_without(world):
    job = await running_on(world, SECOND)
    assert (await drain(world, "box")).leaving == [job]
    without = world.send(ANN, "vision", "0")
    await world.step(3)
    assert {world.job(job).phase, world.job(without).phase} <= {"paused", "waiting"}
    assert "box is being drained" in world.job(without).sentence
    assert all(
        each.note.startswith("drained by root") for each in world.controller.overview.list_devices(ADMIN).devices
    )
    await undrain(world, "box")
    await world.step(3)
    assert {world.job(job).phase, world.job(without).phase} == {"running"}


async def test_an_unknown_name_is_refused_with_the_names_that_exist(world):
    with pytest.raises(NotFound) as refused:
        await drain(world, "GPU-9")
    assert str(refused.value) == (
        f"There is no node and no GPU named 'GPU-9'. Nodes: box. GPUs: 0 ({BUILD}), 1 ({FIRST}), 2 ({SECOND})."
    )
    with pytest.raises(NotFound):
        await undrain(world, "7")
    assert world.controller.drains.list_drains().drains == []


async def test_what_is_drained_twice_or_not_drained_at_all_is_told_so(world):
    with pytest.raises(Conflict, match=r"^GPU 1 of box is not drained\.$"):
        await undrain(world, "1")
    await drain(world, "1")
    with pytest.raises(Conflict, match=r"^GPU 1 of box is drained by root since .* already\.$"):
        await drain(world, FIRST)
    await drain(world, "box")
    with pytest.raises(Conflict, match="Its node box is: undrain box"):
        await undrain(world, "2")


async def test_the_drain_of_a_device_that_was_removed_can_be_ended(world):
    """A card that was taken out, and another one put in its place."""
    await drain(world, FIRST)
    world.nodes = world.backend._nodes = (replace(BOX[0], devices=(BOX[0].devices[0], BOX[0].devices[2])),)
    world.restart()
    (left,) = world.controller.drains.list_drains().drains
    assert (left.name, left.node, left.index) == (FIRST, "", None)
    await undrain(world, FIRST)
    assert world.controller.drains.list_drains().drains == []


async def test_the_end_of_a_drain_says_what_still_takes_nothing_new(world):
    await drain(world, "box")
    await drain(world, FIRST)
    told = (await undrain(world, FIRST)).sentence
    assert told.startswith(
        "GPU 1 of box is not drained any more, but takes nothing new: the node box is drained by root"
    )
    await drain(world, FIRST)
    told = (await undrain(world, "box")).sentence
    assert told.startswith("The node box takes new work again, with these exceptions: GPU 1 is drained by root since ")
    assert (await undrain(world, FIRST)).sentence == "GPU 1 of box takes new work again."


async def test_the_end_of_a_drain_does_not_promise_a_device_that_is_ill_or_gone(world):
    ill, well = (replace(each, healthy=each.id != FIRST) for each in BOX[0].devices[1:])
    for name in (FIRST, BUILD):
        await drain(world, name)
    world.nodes = world.backend._nodes = (replace(BOX[0], devices=(ill, well)),)
    world.servers._nodes = world.nodes
    world.restart()
    told = (await undrain(world, FIRST)).sentence
    assert told == "GPU 1 of box is not drained any more, but takes nothing new: it is not healthy."
    assert (await undrain(world, BUILD)).sentence == f"{BUILD}, which is not there, is not drained any more."


# --- by the configuration


async def test_a_device_taken_out_of_its_pool_stays_visible_while_work_is_on_it(tmp_path):
    world = a_world(tmp_path, backend=StopsTooLate)
    job = await running_on(world, SECOND)
    world.settings.current = pools([0], [1])
    await world.step()
    there = device(world, SECOND)
    assert (there.pool, there.healthy, there.draining) == ("", False, True)
    assert there.note == "in no pool of the configuration any more"
    assert [each["id"] for each in there.holders] == [job]
    assert "its GPU is no longer in the pool train" in world.job(job).eviction.sentence
    await world.step(5, seconds=60)
    assert device(world, SECOND) is None
    assert placed(world, job) == [FIRST]
    world.close()


async def test_a_job_leaves_a_device_that_the_configuration_gives_to_notebooks(world):
    job = await running_on(world, SECOND)
    world.settings.current = pools([0, 2], [1])
    await world.step(4)
    assert placed(world, job) == [FIRST]
    assert device(world, SECOND).healthy


async def test_a_server_stays_on_a_device_that_was_taken_out_of_its_pool(world):
    await world.start_server(ANN, "0.5")
    world.settings.current = pools([1], [2])
    await world.step(3)
    assert world.notebook(ANN).phase == "running"
    assert device(world, BUILD).holders[0]["owner"] == "ann"
    world.server_dies(next(iter(world.servers.processes)))
    await world.step(2)
    assert device(world, BUILD) is None


# --- on a cluster


class CanCordon(FakeBackend):
    """A cluster whose nodes can be cordoned, by this service and by others."""

    drains = True

    def __init__(self, *given):
        super().__init__(*given)
        self.cordoned: set[str] = set()
        self.capabilities = Capabilities(cordon=self)

    def nodes(self):
        return tuple(replace(node, draining=True) if node.name in self.cordoned else node for node in self._nodes)

    def is_cordoned(self, node):
        return node in self.cordoned

    async def set_cordoned(self, node, *, cordoned):
        (self.cordoned.add if cordoned else self.cordoned.discard)(node)


class IsSlow(CanCordon):
    """A cluster that lets other requests come in before it answers."""

    async def set_cordoned(self, node, *, cordoned):
        await super().set_cordoned(node, cordoned=cordoned)
        await asyncio.sleep(0)


class MayNotCordon(CanCordon):
    """A cluster that gives the service no right to cordon nodes."""

    async def set_cordoned(self, node, *, cordoned):
        raise Conflict("The service may not cordon nodes.")


@pytest.fixture
def cluster(tmp_path):
    world = a_world(tmp_path, backend=CanCordon)
    yield world
    world.close()


async def test_on_a_cluster_a_drain_cordons_the_node_and_an_undrain_uncordons_it(cluster):
    job = await running_on(cluster, SECOND)
    assert (await drain(cluster, "box")).leaving == [job]
    assert cluster.backend.cordoned == {"box"}
    assert device(cluster, SECOND).note.startswith("drained by root since ")
    with pytest.raises(Conflict, match=r"The node box is drained by root since .* already"):
        await drain(cluster, "box")
    assert (await undrain(cluster, "box")).sentence == "The node box takes new work again."
    assert cluster.backend.cordoned == set()
    with pytest.raises(Conflict, match="The node box is not drained"):
        await undrain(cluster, "box")


async def test_on_a_cluster_a_drain_that_begins_while_another_one_ends_is_kept(tmp_path):
    nodes = tuple(a_node(1, name=name) for name in ("n1", "n2"))
    world = World(tmp_path, nodes=nodes, backend=IsSlow)
    await drain(world, "n1")
    await asyncio.gather(undrain(world, "n1"), drain(world, "n2"))
    assert [each.name for each in world.controller.drains.list_drains().drains] == ["n2"]
    await asyncio.gather(drain(world, "n1"), undrain(world, "n2"))
    assert [each.name for each in world.controller.drains.list_drains().drains] == ["n1"]
    world.close()


async def test_on_a_cluster_a_node_that_somebody_else_cordoned_can_be_undrained(cluster):
    cluster.backend.cordoned.add("box")
    with pytest.raises(Conflict, match="The node box is cordoned already"):
        await drain(cluster, "box")
    await undrain(cluster, "box")
    assert cluster.backend.cordoned == set()


async def test_on_a_cluster_a_drain_is_forgotten_when_somebody_else_uncordons_the_node(cluster):
    await drain(cluster, "box")
    await cluster.step()
    assert len(cluster.controller.drains.list_drains().drains) == 1
    cluster.backend.cordoned.clear()
    await cluster.step()
    assert cluster.controller.drains.list_drains().drains == []


class IsAway(CanCordon):
    """A cluster that does not answer while `away`, and then shows no node either."""

    away = False

    async def observe(self):
        if self.away:
            raise BackendError("the API server is away")
        return await super().observe()

    def nodes(self):
        return () if self.away else super().nodes()

    def is_cordoned(self, node):
        return not self.away and super().is_cordoned(node)


@pytest.mark.parametrize("answers", [False, True])
async def test_a_drain_outlives_a_restart_while_the_cluster_does_not_show_its_nodes(tmp_path, answers):
    world = a_world(tmp_path, backend=IsAway)
    await drain(world, "box")
    world.backend.away = True
    if answers:
        world.backend.observe = super(IsAway, world.backend).observe
    world.nodes = ()
    world.restart()
    await world.step(2)
    world.backend.away = False
    await world.step()
    assert [each.by for each in world.controller.drains.list_drains().drains] == ["root"]
    world.close()


async def test_on_a_cluster_a_single_device_is_refused(cluster):
    with pytest.raises(UserError, match="whole nodes are drained, not single GPUs"):
        await drain(cluster, FIRST)
    assert cluster.controller.drains.list_drains().drains == []


async def test_a_drain_that_the_cluster_refuses_is_not_kept(tmp_path):
    world = a_world(tmp_path, backend=MayNotCordon)
    with pytest.raises(Conflict, match="may not cordon"):
        await drain(world, "box")
    assert world.controller.drains.list_drains().drains == []
    world.close()
