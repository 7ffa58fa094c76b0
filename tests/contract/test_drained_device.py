"""A device goes out of service while a job runs on it, as docs/how-to/drain-a-gpu.md says: with the real service."""

import asyncio

import pytest
import pytest_asyncio

from jupyter_gq.app import main
from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.outputs.fold import fold
from tests.api.hubs import Hub
from tests.cells import TRAINS
from tests.replaced_files import write_at_once

from .test_killed_service import CONFIG, RealService, a_job, until

pytestmark = pytest.mark.asyncio


class Machine:
    """The real service on a machine with two simulated devices, and what ann and root do with it."""

    def __init__(self, folder, service):
        self.folder, self.service = folder, service
        url = f"{service.url}/services/jupyter-gq/"
        self.ann, self.root = ServiceClient(url, "ann"), ServiceClient(url, "root")

    async def train(self):
        """Ann's job runs; return it with the index of its device."""
        await until(self.ann.health, "the service", self.service)
        submission = a_job(self.folder)
        submission.bundle.notebook["cells"][0]["source"] = TRAINS
        job, _ = await self.ann.submit(submission)

        async def trains():
            return "from 0" in await self.text(job.id)

        await until(trains, "it trains", self.service)
        (held,) = [each for each in (await self.root.devices()).devices if each.holders]
        return job.id, held.index

    async def text(self, job):
        page = await self.ann.outputs(job, 0)
        return "".join(output.get("text", "") for output in fold(page.events).get("c1", []))

    async def goes_on(self, job):
        """Wait for its end: it was told to leave, saved where it was, and went on from there."""

        async def done():
            return (await self.ann.job(job)).phase == "done"

        await until(done, "its end", self.service)
        assert (await self.ann.job(job)).run == 2
        first, left, again, _ = (await self.text(job)).splitlines()
        assert (first, again) == ("from 0", f"from {left.removeprefix('until ')}")

    async def device(self, index):
        """The device as administrators see it; None while it is not shown."""
        found = [each for each in (await self.root.devices()).devices if each.index == index]
        return found[0] if found else None


@pytest_asyncio.fixture
async def machine(tmp_path):
    hub = Hub()
    await hub.start()
    service = RealService(tmp_path, hub)
    service.start()
    machine = Machine(tmp_path, service)
    yield machine
    machine.ann.close()
    machine.root.close()
    service.clean_up()
    await hub.stop()


async def test_a_job_leaves_a_drained_device_and_the_drain_outlives_the_service(machine, monkeypatch, capsys):
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "root")
    monkeypatch.setenv("JUPYTER_GQ_URL", machine.root.url)
    job, index = await machine.train()
    assert await asyncio.to_thread(main, ["drain", str(index)]) == 0
    told = capsys.readouterr().out
    assert f"GPU {index} of " in told
    assert "will leave, with the usual grace period." in told
    await machine.goes_on(job)
    machine.service.kill()
    machine.service.start()
    await until(machine.root.health, "the service again", machine.service)
    drained = await machine.device(index)
    assert (drained.healthy, drained.draining) == (False, True)
    assert drained.note.startswith("drained by root since ")
    assert await asyncio.to_thread(main, ["undrain", str(index)]) == 0
    assert (await machine.device(index)).healthy


async def test_a_job_leaves_a_device_that_is_taken_out_of_its_pool(machine):
    job, index = await machine.train()
    pools = f'c.Pools.pools = {{"default": {{"devices": [{1 - index}]}}}}\n'
    write_at_once(machine.folder / "jupyterhub_config.py", CONFIG + pools)
    await machine.goes_on(job)

    async def hidden():
        return await machine.device(index) is None

    await until(hidden, "the device without work is not shown", machine.service)
    assert (await machine.device(1 - index)).healthy
