"""A service that is killed again and again, at any point: nothing is lost, nothing is doubled, no pod is left.

At every moment the pods of two slots are on two devices, and a reservation holds each device that a pod of work names
(unless somebody has just deleted it).

`JUPYTER_GQ_KILLS`: how often (CI: 25). The moments are drawn from a fixed seed.
"""

import asyncio
import os
import random
from types import SimpleNamespace

import pytest
from traitlets.config import Config

from jupyter_gq.backends.kubernetes.bundles import StoredBundles
from jupyter_gq.client.models import JobSubmission, TicketRequest
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.store.sql import SqlStore
from tests.fakes import FixedSettings
from tests.kubernetes.backend_world import World
from tests.kubernetes.given_devices import GivenDevices
from tests.kubernetes.waiting import eventually
from tests.patience import scaled, slowness

pytestmark = pytest.mark.asyncio

KILLS = int(os.environ.get("JUPYTER_GQ_KILLS", "25"))
ANN = Caller(user="ann", groups=frozenset(), admin=False)
CONFIG = Config(TrainingQueues={"queues": {"all": {"quota": 8}}}, Pools={"pools": {"train": {"nodes": {}}}})
SHARES = Config(FixedQuota={"default": "0.5"}, Pools={"pools": {"train": {"nodes": {}}}})
#: What jobs ask for: GPUs of a task, and tasks. Half of them run on shares.
SIZES = ((1, 1), (0.5, 1), (2, 1), (0.5, 2), (1, 2), (0.25, 1), (2, 2), (0.5, 1))


class Service:
    """One life of the service: over the same database and cluster as those before it."""

    def __init__(self, world, database, config=CONFIG):
        self.backend = world.new_backend()
        self.backend._pools = lambda: self.settings.current.pod_pools
        self.settings = FixedSettings(build_settings(config, ()))
        self.store = SqlStore(f"sqlite:///{database}")
        self.controller = Controller(
            store=self.store,
            backends=(self.backend,),
            settings=self.settings,
            clock=SystemClock(),
            bundles=StoredBundles(self.store, self.store),
            check_invariants=True,
        )
        self.backend._on_change = self.controller.wake

    async def live(self, seconds):
        """It decides and acts for so long, then it is gone in the middle of whatever it does."""
        loop = asyncio.create_task(self.controller.run())
        await asyncio.wait([loop], timeout=seconds)
        assert not loop.done(), loop
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)

    async def end(self):
        await self.backend.close()
        self.store.close()


#: The one cell of a job.
CELL = {"cell_type": "code", "id": "c1", "metadata": {}, "source": "print(1)", "outputs": [], "execution_count": None}


def submission(gpus, tasks):
    manifest = {
        "notebook_path": "train.ipynb",
        "cwd": "/home/ann",
        "kernel": {"name": "python3", "argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]},
        "targets": [{"cell_id": "c1", "source_hash": "0" * 64}],
    }
    bundle = {"manifest": manifest, "notebook": {"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}}
    return JobSubmission.model_validate({"queue": "all", "gpus": gpus, "tasks": tasks, "bundle": bundle})


def cordon(world, node, cordoned):
    world.plane.core.patch_node(node, {"spec": {"unschedulable": cordoned}})


async def live_and_die(world, database, devices, chance, size):
    """One life; returns the job that was sent in it, if any."""
    service, sent = Service(world, database), None
    devices.backend = service.backend
    if size is not None:
        await service.backend.observe()  # as the service does before it answers
        sent = service.controller.jobs.submit(ANN, submission(*size), None)[0].id
    await service.live(chance.uniform(0.02, 0.6))
    devices.backend = None
    await service.end()
    return sent


async def test_killed_again_and_again(control_plane, installation, kwok, tmp_path):
    nodes = kwok.add_nodes(2, 4, name="ending")  # whatever runs there has done its work after a second
    # Jobs stay on a cordoned node, or each cordon would end a run; what lingers goes soon, so that much comes and goes.
    world = World(control_plane, installation, leave_cordoned=False, linger=0.5)
    chance, devices = random.Random(20), GivenDevices(world, nodes, 4, seed=20)
    mark, sent, database = control_plane.mark(), [], tmp_path / "service.sqlite"
    agents = asyncio.create_task(devices.go_on())
    for life in range(KILLS):
        size = chance.choice(SIZES) if life % 2 == 0 else None
        sent += filter(None, [await live_and_die(world, database, devices, chance, size)])
        if life % 5 in (2, 4):  # for two lives
            await asyncio.to_thread(cordon, world, nodes[life % 2], life % 5 == 2)
        assert not agents.done(), agents.exception()
    for node in nodes:
        await asyncio.to_thread(cordon, world, node, cordoned=False)
    last = Service(world, database)
    devices.backend = last.backend
    loop = asyncio.create_task(last.controller.run())

    def phases():
        assert not agents.done(), agents.exception()
        return [last.controller.jobs.show(ANN, job).phase for job in sent]

    await eventually(lambda: set(phases()) == {"done"}, lambda: f"all jobs are done: {phases()}", 240)
    await eventually(lambda: not world.pods(), lambda: f"no pod is left: {[p.metadata.name for p in world.pods()]}")
    for each in (loop, agents):
        each.cancel()
    await asyncio.gather(loop, agents, return_exceptions=True)
    jobs = [last.controller.jobs.show(ANN, job) for job in sent]
    assert {job.run for job in jobs} == {1}, "a run was lost"
    made = control_plane.requests(mark, verb="create", resource="pods", namespace=installation.train, status=201)
    wanted = [f"gq-{job.id}-1-{task}" for job in jobs for task in range(job.tasks)]
    assert sorted(request.name for request in made) == sorted(wanted), "a pod was made twice"
    assert len(devices.seen) >= len(sent) // 4, "the devices of shares were seen"
    services = control_plane.core.list_namespaced_service(installation.train).items
    assert not services, "headless services of gangs go with them"
    await last.end()


class PlayedHub:
    """Spawners of users who each start one server: they ask whoever serves, and wait while nobody does."""

    def __init__(self, world, chance):
        self._world, self._chance, self.controller = world, chance, None

    async def _ask(self, question):
        await eventually(lambda: self.controller is not None, "a service")
        return question(self.controller)

    async def serve(self, user):
        caller = Caller(user=user, groups=frozenset(), admin=False)
        ticket, _ = await self._ask(lambda controller: controller.tickets.open(caller, TicketRequest(gpus="0.5")))
        told = ""

        async def placed():
            nonlocal told
            found = await self._ask(lambda controller: controller.tickets.show(caller, ticket.id))
            told = f"{found.phase}: {found.sentence}"
            assert found.phase != "ended", told
            return found.pod

        added = await eventually(placed, lambda: f"the place of {user}'s server: {told}", every=0.03)
        assert added.annotations["jupyter-gq.org/devices"], "it is told which device its pod has to name"
        await asyncio.sleep(self._chance.uniform(0.0, 0.3))  # what spawners do besides
        await asyncio.to_thread(self._world.start_server, SimpleNamespace(owner=user), added)
        core, hub = self._world.plane.core, self._world.namespaces.hub

        def ended():
            return core.read_namespaced_pod(f"jupyter-{user}", hub).status.phase == "Succeeded"

        await eventually(lambda: asyncio.to_thread(ended), f"the end of {user}'s server", every=0.2)
        await asyncio.to_thread(self._world.delete_server, user)
        await self._ask(lambda controller: controller.tickets.close(caller, ticket.id))


@pytest.mark.parametrize("deleting", [0.0, 0.3])
async def test_killed_while_servers_start(control_plane, installation, kwok, tmp_path, deleting):
    nodes = kwok.add_nodes(2, 2, name="ending")
    world = World(control_plane, installation, linger=0.5)
    chance, devices = random.Random(21), GivenDevices(world, nodes, 2, seed=21, deleting=deleting)
    agents, hub, users = asyncio.create_task(devices.go_on()), PlayedHub(world, chance), KILLS
    servers = [asyncio.create_task(hub.serve(f"user-{number}")) for number in range(users)]
    slowest = slowness()
    while not all(server.done() for server in servers):
        slowest = max(slowest, slowness())
        service = Service(world, tmp_path / "service.sqlite", SHARES)
        devices.backend = service.backend
        await service.backend.observe()  # as the service does before it answers
        hub.controller = service.controller
        await service.live(scaled(chance.uniform(0.1, 1.0)))  # no server starts in a shorter life
        devices.backend = hub.controller = None
        await service.end()
        assert not agents.done(), agents.exception()
    await asyncio.gather(*servers)
    # On a machine that is busy meanwhile there are fewer looks, and a server may come and end between two of them.
    assert len(devices.seen) >= 0.9 * users / slowest, "who is on which device was looked at"
    assert bool(devices.deleted) is bool(deleting)
    last = Service(world, tmp_path / "service.sqlite", SHARES)
    devices.backend, loop = last.backend, asyncio.create_task(last.controller.run())
    await eventually(lambda: not world.pods(), lambda: f"no pod is left: {[p.metadata.name for p in world.pods()]}")
    for each in (loop, agents):
        each.cancel()
    await asyncio.gather(loop, agents, return_exceptions=True)
    await last.end()
