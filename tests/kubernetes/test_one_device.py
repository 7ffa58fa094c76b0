"""Two shares race for one device: two services decide at the same moment, and the database lets one of them."""

import asyncio
from dataclasses import replace

import pytest

from jupyter_gq.backends.kubernetes import KubernetesRuns
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.domain.errors import Superseded
from jupyter_gq.store.sql import SqlStore
from tests.contract.postgresql import PostgresServer, programs_or_skip
from tests.kubernetes.job_world import ANN, CONFIG, a_cell, a_controller
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio


class LooksForLong(KubernetesRuns):
    """After a look it hesitates until the test says "go on"."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.looked, self.go_on = asyncio.Event(), asyncio.Event()
        self.go_on.set()

    async def observe(self):
        seen = await super().observe()
        self.looked.set()
        await self.go_on.wait()
        return seen


class Service:
    """One that believes itself in charge."""

    def __init__(self, world, url, kind=KubernetesRuns):
        self.store = SqlStore(url)
        self.store.take_over()
        self.backend = world.new_backend(kind)
        self.controller = a_controller(self.store, self.backend)

    def send(self, folder, **request):
        admin = replace(ANN, admin=True)  # may give any priority
        return self.controller.jobs.submit(admin, a_cell("x", folder, gpus="0.6", **request), None)[0].id


@pytest.fixture
def database():
    with PostgresServer(programs_or_skip()) as server:
        server.start()
        yield server.new_database()


async def test_of_two_services_that_give_one_device_away_at_the_same_moment_one_does(world, kwok, database, tmp_path):
    world.pools[:] = build_settings(CONFIG, ()).pod_pools
    world.agents.gpus = 1
    (node,) = kwok.add_nodes(1, gpus=1)

    async def agent_reports():
        await world.agents.tell(node)

    async def begins(service):
        world.backend = service.backend
        await service.backend.open()
        await agent_reports()
        await service.backend.observe()

    old = Service(world, database, LooksForLong)
    await begins(old)
    slower = old.send(tmp_path)
    old.backend.looked.clear()
    old.backend.go_on.clear()
    deciding = asyncio.create_task(old.controller.step())
    await old.backend.looked.wait()  # it is in charge, and has seen that the device is free

    new = Service(world, database)
    await begins(new)
    faster = new.send(tmp_path, priority=1)
    running = asyncio.create_task(new.controller.run())

    async def is_running(job):
        await agent_reports()
        return new.controller.jobs.show(ANN, job).phase == "running"

    await eventually(lambda: is_running(faster), lambda: f"{new.controller.jobs.show(ANN, faster)}")
    old.backend.go_on.set()
    with pytest.raises(Superseded):
        await deciding
    assert new.store.get(slower).workload.state == old.store.get(slower).workload.state == "PENDING"
    assert new.store.get(faster).workload.placement[0].devices == (f"{node}/0",)
    waits = new.controller.jobs.show(ANN, slower)
    assert (waits.phase, waits.run, waits.position) == ("waiting", 0, 1)

    new.controller.jobs.cancel(ANN, faster)
    await eventually(lambda: is_running(slower), lambda: f"{new.controller.jobs.show(ANN, slower)}")
    started = new.controller.jobs.show(ANN, slower)
    assert (started.run, started.node) == (1, node), "it was planned again"
    names = [pod.metadata.name for pod in await asyncio.to_thread(world.pods)]
    assert [name for name in names if not name.startswith("gq-res-")] == [f"gq-{slower}-1-0"]

    running.cancel()
    await asyncio.wait({running})
    for service in (old, new):
        service.store.close()
