"""A paused job of the real service is suspended and goes on where it was, wherever `kill -9` strikes the service.

The runner and its kernel are real processes; the devices are simulated.
"""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from jupyter_gq.backends.control_groups import find_own_group, freeze_group
from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.models import JobSubmission
from jupyter_gq.devices.linux.processes import read_process
from jupyter_gq.devices.simulated.memory import SimulatedFault, read_record, reported_memory
from jupyter_gq.notebook import simulation
from tests.api.hubs import Hub
from tests.cells import KEEPS

from .test_killed_service import RealService, until

pytestmark = pytest.mark.asyncio

CONFIG = """
c.SchedulerService.check_invariants = True
c.SimulatedDevices.mode = "always"
c.SimulatedDevices.devices = "{devices}"
c.TrainingQueues.queues = {{"vision": {{"quota": 0}}, "nlp": {{"quota": 1}}}}
c.TrainingQueues.grace = 20
c.LocalBackend.node_name = "box"
"""
MEMORY = 30_000
#: A cell that holds GPU memory and counts until it is enough; its kernel and its variable are the same until the end.
COUNTS = f"""{KEEPS}
import os, pathlib, time
from jupyter_gq import simulate_memory
simulate_memory({MEMORY})
print("pid", os.getpid(), flush=True)
number = 0
while not pathlib.Path("{{name}}.enough").exists():
    print("n", number, flush=True)
    number += 1
    keep(pathlib.Path("{{name}}.count"), number)
    time.sleep(0.05)
"""


def a_job(folder: Path, name: str, queue: str) -> JobSubmission:
    kernel = {"name": "python3", "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
    source = COUNTS.replace("{name}", name)
    cell = {"cell_type": "code", "id": "c1", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
    manifest = {
        "notebook_path": f"{name}.ipynb",
        "cwd": str(folder),
        "kernel": kernel,
        "targets": [{"cell_id": "c1", "source_hash": "0" * 64}],
    }
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    document = {"queue": queue, "gpus": "1", "name": name, "bundle": {"manifest": manifest, "notebook": notebook}}
    return JobSubmission.model_validate(document)


class Job:
    """A job that counts, and holds the memory of a simulated device."""

    def __init__(self, service: RealService, client: ServiceClient, folder: Path, name: str, queue: str) -> None:
        self.service, self.client, self.folder, self.name, self.queue = service, client, folder, name, queue
        self.id = ""

    async def send(self) -> "Job":
        view, _ = await self.client.submit(a_job(self.folder, self.name, self.queue), self.name)
        self.id = view.id
        return self

    async def counts(self, more: int = 3) -> int:
        """Wait until the job has counted on, and return how far it is."""
        before = self.count()

        async def further():
            return self.count() >= before + more and self.count()

        return await until(further, f"{self.name} to count on from {before}", self.service)

    def count(self) -> int:
        file = self.folder / f"{self.name}.count"
        return int(file.read_text()) if file.exists() else 0

    def enough(self) -> None:
        (self.folder / f"{self.name}.enough").touch()

    async def view(self):
        return await self.client.job(self.id)

    async def comes_to(self, *phases: str):
        async def there():
            found = await self.view()
            return found if found.phase in phases else None

        return await until(there, f"{self.name} to be {phases}", self.service)

    async def text(self) -> str:
        page = await self.client.outputs(self.id, 0)
        return "".join(e["output"].get("text", "") for e in page.events if e.get("op") == "append")

    def kernel(self) -> psutil.Process:
        """The process that holds the memory."""
        (found,) = [process for process in self.processes() if reported_memory(process)]
        return found

    def record(self):
        return read_record(read_process(self.kernel().pid).id)

    def processes(self) -> list[psutil.Process]:
        (runner,) = self.service.runners(self.id)
        above = psutil.Process(runner).parent()
        return [above, *above.children(recursive=True)]

    def stands_still(self) -> bool:
        return all(process.status() == psutil.STATUS_STOPPED for process in self.processes())

    async def ends_once(self) -> None:
        """Let the job end, and expect that one run of one kernel has counted without gap or repetition."""
        self.enough()
        final = await self.comes_to("done", "failed", "cancelled")
        assert (final.phase, final.run) == ("done", 1)
        text = await self.text()
        assert text.count("pid ") == 1
        assert [int(line.split()[1]) for line in text.splitlines() if line.startswith("n ")] == list(
            range(self.count())
        )
        assert self.service.runners(self.id) == []


class World:
    """The service, with ann's job in a queue without quota and bob's in a queue with one."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.folder = folder
        self.service = RealService(folder, hub)
        self.clients = {
            name: ServiceClient(f"{self.service.url}/services/jupyter-gq/", name) for name in ("ann", "bob")
        }

    async def start(self, devices: str = "1x A100-40GB", more: str = "") -> None:
        (self.folder / "jupyterhub_config.py").write_text(CONFIG.format(devices=devices) + more)
        self.service.start()
        await until(self.clients["ann"].health, "the service", self.service)

    async def send(self, user: str = "ann", name: str = "anns", queue: str = "vision") -> Job:
        return await Job(self.service, self.clients[user], self.folder, name, queue).send()

    async def suspended(self) -> tuple[Job, Job]:
        """Return ann's job, which is suspended for bob's, and bob's, which runs."""
        anns = await self.send()
        await anns.comes_to("running")
        await anns.counts()
        bobs = await self.send("bob", "bobs", "nlp")
        await anns.comes_to("paused")
        await bobs.comes_to("running")
        return anns, bobs

    def journal(self) -> str:
        return "".join(file.read_text() for file in self.folder.rglob("suspensions.json"))


@pytest_asyncio.fixture
async def world(tmp_path):
    hub = Hub()
    await hub.start()
    world = World(tmp_path, hub)
    yield world
    world.service.clean_up()
    for client in world.clients.values():
        client.close()
    await hub.stop()


@contextlib.contextmanager
def fault(name: SimulatedFault, *pids: int):
    """The simulated driver has this fault for these processes."""
    file = simulation._folder() / f"fault-{name.value}"
    file.write_text(" ".join(map(str, pids)))
    try:
        yield
    finally:
        file.unlink()


async def test_an_evicted_job_is_suspended_and_goes_on_where_it_was(world):
    await world.start()
    anns, bobs = await world.suspended()
    assert not anns.record().holds_memory
    assert anns.stands_still()
    stopped_at = anns.count()
    await bobs.counts()
    assert anns.count() == stopped_at
    await bobs.ends_once()
    await anns.comes_to("running")
    await anns.counts()
    assert anns.record().holds_memory
    await anns.ends_once()


async def test_a_held_job_is_suspended_and_its_device_is_free(world):
    await world.start()
    anns = await world.send()
    await anns.comes_to("running")
    await anns.counts()
    await anns.client.hold(anns.id)
    await anns.comes_to("paused")
    assert anns.stands_still()
    bobs = await world.send("bob", "bobs", "nlp")
    await bobs.comes_to("running")
    await bobs.ends_once()
    assert anns.stands_still()
    await anns.client.release(anns.id)
    await anns.comes_to("running")
    await anns.ends_once()


async def test_a_job_goes_on_at_another_device_of_the_same_model(world):
    await world.start("2x A100-40GB")
    jobs = [await world.send(name=f"anns{number}") for number in range(2)]
    for job in jobs:
        await job.comes_to("running")
        await job.counts()
    devices = {job.id: (await job.view()).devices for job in jobs}
    bobs = await world.send("bob", "bobs", "nlp")
    await bobs.comes_to("running")
    (away,) = [job for job in jobs if (await job.view()).phase == "paused"]
    (other,) = [job for job in jobs if job is not away]
    await other.ends_once()
    resumed = await away.comes_to("running")
    assert resumed.devices == devices[other.id] != devices[away.id]
    assert away.record().moves == {devices[away.id][0]: resumed.devices[0]}
    await away.counts()
    await bobs.ends_once()
    await away.ends_once()


async def test_a_suspended_job_that_is_cancelled_ends(world):
    await world.start()
    anns, bobs = await world.suspended()
    await anns.client.cancel(anns.id)
    await anns.comes_to("cancelled")

    async def gone():
        return anns.service.runners(anns.id) == []

    await until(gone, "the end of its processes", world.service)
    await bobs.ends_once()


async def test_a_job_that_cannot_be_suspended_is_ended_in_the_same_pause(world):
    await world.start()
    anns = await world.send()
    await anns.comes_to("running")
    await anns.counts()
    with fault(SimulatedFault.MANAGED_MEMORY, anns.kernel().pid):
        bobs = await world.send("bob", "bobs", "nlp")
        await bobs.comes_to("running")
    assert (await anns.view()).phase == "paused"
    assert world.service.runners(anns.id) == []
    await bobs.ends_once()
    assert (await anns.comes_to("running")).run == 2


@pytest.mark.parametrize("who", ["kernel", "runner"])
async def test_a_suspended_job_of_which_a_process_is_killed_says_so_and_starts_again(world, who):
    await world.start()
    anns, bobs = await world.suspended()
    assert (await anns.view()).pause.way == "suspended"
    (anns.kernel() if who == "kernel" else psutil.Process(*world.service.runners(anns.id))).kill()

    async def told():
        view = await anns.view()
        return "has ended" in view.sentence and view.pause.way == "restart"

    await until(told, "a sentence", world.service)
    assert (await bobs.view()).phase == "running"
    await until(_true(lambda: world.service.runners(anns.id) == []), "the end of its processes", world.service)
    await until(_true(lambda: "SUSPENDED" not in world.journal()), "the journal to forget it", world.service)
    await bobs.ends_once()
    assert (await anns.comes_to("running")).run == 2


async def test_a_suspended_job_whose_program_is_killed_while_there_is_no_service_starts_again(world):
    await world.start()
    anns, bobs = await world.suspended()
    world.service.kill()
    anns.kernel().kill()
    world.service.start()
    await until(anns.client.health, "the service", world.service)

    async def told():
        return (await anns.view()).pause.way == "restart"

    await until(told, "another way", world.service)
    await bobs.ends_once()
    assert (await anns.comes_to("running")).run == 2


@pytest.mark.parametrize("group", ["frozen", "none"])
async def test_a_suspended_job_that_its_owner_lets_go_on_is_stopped_again(world, group):
    await world.start()
    anns, bobs = await world.suspended()
    if group == "none":  # where the service has control groups, as on a machine without them
        freeze_group(str(find_own_group(Path(f"/proc/{anns.kernel().pid}")) or ""), False)
    for process in anns.processes():
        process.send_signal(signal.SIGCONT)
    if group == "none":
        await anns.counts(1)

    async def stands_still():
        before = anns.count()
        await bobs.counts()
        return anns.count() == before

    await until(stands_still, "ann's job to stand still", world.service)
    assert not anns.record().holds_memory
    await bobs.ends_once()
    await anns.comes_to("running")
    await anns.ends_once()


async def test_a_service_killed_while_a_job_is_suspended_knows_it_again(world):
    await world.start()
    anns, bobs = await world.suspended()
    world.service.kill()
    world.service.start()
    await until(anns.client.health, "the service", world.service)
    await bobs.counts()
    assert (await anns.view()).phase == "paused"
    await until(_true(anns.stands_still), "ann's job to stand still", world.service)
    assert not anns.record().holds_memory
    await bobs.ends_once()
    await anns.comes_to("running")
    await anns.counts()
    await anns.ends_once()


async def test_a_service_killed_while_it_suspends_a_job_suspends_it_after_all(world):
    await world.start()
    anns = await world.send()
    await anns.comes_to("running")
    await anns.counts()
    with fault(SimulatedFault.LOCK_TIMEOUT, anns.kernel().pid):
        bobs = await world.send("bob", "bobs", "nlp")
        await until(_true(lambda: "LOCKING" in world.journal()), "the lock", world.service)
        world.service.kill()
    await anns.counts()
    world.service.start()
    await bobs.comes_to("running")
    assert (await anns.view()).phase == "paused"
    assert world.service.runners(anns.id) == [] or anns.stands_still()
    await bobs.ends_once()
    await anns.comes_to("running")


async def test_a_service_killed_while_it_resumes_a_job_goes_on(world):
    await world.start()
    anns, bobs = await world.suspended()
    # Another program on the device keeps the room from ann's job, so that its return takes a while.
    device = (await bobs.view()).devices[0]
    stranger = await _a_stranger(device)
    try:
        await bobs.ends_once()
        await anns.comes_to("starting")
        world.service.kill()
        world.service.start()
        await until(anns.client.health, "the service", world.service)
        assert (await anns.view()).phase == "starting"
    finally:
        stranger.kill()
        await stranger.wait()
    await anns.comes_to("running")
    await anns.counts()
    await anns.ends_once()


def _true(question):
    async def asked():
        return question()

    return asked


async def _a_stranger(device: str):
    """A program outside all jobs that holds most of the memory of a device."""
    holds = "import sys, threading; from jupyter_gq import simulate_memory; simulate_memory(35000); print('ready', "
    holds += "flush=True); threading.Event().wait()"
    environment = {**os.environ, "JUPYTER_GQ_DEVICES": device}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", holds, env=environment, stdout=asyncio.subprocess.PIPE
    )
    assert await process.stdout.readline() == b"ready\n"
    return process
