"""An idle share of the real service is suspended, lent and brought back, wherever `kill -9` strikes the service.

The notebook server and its kernel are real processes; the devices are simulated.
"""

import asyncio
import contextlib
import os
import subprocess
import sys

import psutil
import pytest
import pytest_asyncio

from jupyter_gq.client.connection.http import ServiceClient, ServiceError
from jupyter_gq.client.models import ActivityReport, KernelActivity, ProcessReport, TicketRequest
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.devices.linux.processes import ProcessId, read_process
from jupyter_gq.devices.simulated.memory import SimulatedFault, read_record
from jupyter_gq.notebook import simulation
from tests.api.hubs import Hub
from tests.patience import PATIENCE, Deadline, scaled

from .test_killed_service import RealService, a_job, until

pytestmark = pytest.mark.asyncio

CLOCK = SystemClock()

CONFIG = """
c.SchedulerService.check_invariants = True
c.SimulatedDevices.mode = "always"
c.SimulatedDevices.devices = "1x A100-40GB"
c.FixedQuota.default = 1
c.TrainingQueues.queues = {"vision": {"quota": 1}}
c.TrainingQueues.grace = 20
c.IdlePolicy.grace = 0
c.IdlePolicy.return_within = 4
"""
#: A notebook that is idle is lent about when a job arrives, without a warning.
LENT_AT_ONCE = "c.IdlePolicy.after, c.IdlePolicy.warning = 2, 1\n"
#: A notebook that was in use when a job arrived is warned.
WARNED = "c.IdlePolicy.after, c.IdlePolicy.warning = 16, 10\n"
#: Memory of the kernel's device; more than half, so that a second copy of it finds no room.
MEMORY = 30_000
#: A program that holds device memory until it is killed.
HOLDS = """
import sys, threading
from jupyter_gq import simulate_memory
simulate_memory(int(sys.argv[1]))
print("ready", flush=True)
threading.Event().wait()
"""
SERVER = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', *sys.argv[1:]]).returncode)"


class Notebook:
    """A notebook server of bob with one kernel, which says from time to time whether it is busy."""

    def __init__(self, service: RealService) -> None:
        self.service = service
        self.client = ServiceClient(f"{service.url}/services/jupyter-gq/", "bob")
        self.busy = False
        self.ticket = ""
        self.process: subprocess.Popen | None = None
        self._reports: asyncio.Task | None = None

    async def start(self) -> None:
        await until(self.client.health, "the service", self.service)
        request = TicketRequest(server="", gpus="1")

        async def admitted():
            view = await self.client.open_ticket(request)
            return view if view.phase == "starting" else None

        view = await until(admitted, "the share", self.service)
        self.ticket = view.id
        environment = {**os.environ, **view.environment, "JUPYTERHUB_USER": "bob", "JUPYTER_GQ_TICKET": view.id}
        command = [sys.executable, "-c", SERVER, HOLDS, str(MEMORY)]
        self.process = subprocess.Popen(  # noqa: ASYNC220
            command, env=environment, start_new_session=True, stdout=subprocess.PIPE
        )
        assert await asyncio.to_thread(self.process.stdout.readline) == b"ready\n"
        started = psutil.Process(self.process.pid).create_time()
        await self.client.attach(view.id, ProcessReport(pid=self.process.pid, started=started))
        self._reports = asyncio.create_task(self._report())

    async def _report(self) -> None:
        last = CLOCK.now()
        while True:
            last = CLOCK.now() if self.busy else last
            kernel = KernelActivity(id="k", busy=self.busy, last_active=last)
            with contextlib.suppress(ServiceError):
                await self.client.report_activity("", ActivityReport(at=CLOCK.now(), kernels=[kernel]))
            await asyncio.sleep(0.3)

    async def view(self):
        (found,) = (await self.client.notebooks()).notebooks
        return found

    async def comes_to(self, *phases: str):
        async def there():
            found = await self.view()
            return found if found.phase in phases else None

        return await until(there, f"a notebook that is {phases}", self.service)

    @property
    def kernel(self) -> ProcessId:
        (child,) = psutil.Process(self.process.pid).children()
        return read_process(child.pid).id

    def is_on_the_device(self) -> bool:
        return read_record(self.kernel).holds_memory

    async def end(self) -> None:
        if self._reports is not None:
            self._reports.cancel()
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, 9)
            self.process.communicate()
        self.client.close()


@pytest_asyncio.fixture
async def service(request, tmp_path):
    hub = Hub()
    await hub.start()
    service = RealService(tmp_path, hub)
    (tmp_path / "jupyterhub_config.py").write_text(CONFIG + getattr(request, "param", LENT_AT_ONCE))
    service.start()
    yield service
    service.clean_up()
    await hub.stop()


@pytest_asyncio.fixture
async def notebook(service):
    notebook = Notebook(service)
    await notebook.start()
    yield notebook
    await notebook.end()


@pytest_asyncio.fixture
async def ann(service):
    client = ServiceClient(f"{service.url}/services/jupyter-gq/", "ann")
    yield client
    client.close()


async def phase_of(ann, job, *phases, service):
    async def there():
        found = await ann.job(job.id)
        return found if found.phase in phases else None

    return await until(there, f"a job that is {phases}", service)


@contextlib.contextmanager
def fault(name: SimulatedFault, process: ProcessId):
    """The simulated driver has this fault for one process."""
    file = simulation._folder() / f"fault-{name.value}"
    file.write_text(str(process.pid))
    try:
        yield
    finally:
        file.unlink()


@pytest.mark.parametrize("service", [WARNED], indirect=True, ids=["warned"])
async def test_an_idle_share_is_lent_and_is_back_when_a_cell_waits(service, notebook, ann, tmp_path):
    assert notebook.is_on_the_device()
    notebook.busy = True
    await until(lambda: is_in_use(notebook), "a notebook that is in use", service)
    async with listening(notebook) as first_warning:
        job, _ = await ann.submit(a_job(tmp_path), "key")
        notebook.busy = False
        assert "waits for its share" in (await first_warning)["sentence"]
    view = await notebook.comes_to("suspended")
    assert view.suspension.memory_mib == MEMORY
    assert "next cell" in view.sentence
    assert not notebook.is_on_the_device()
    running = await phase_of(ann, job, "running", service=service)
    assert "may be paused at any moment" in running.sentence

    notebook.busy = True
    in_time = Deadline(60)
    await notebook.comes_to("running")
    assert notebook.is_on_the_device()
    assert not in_time.is_over(), in_time.describe("the share is back")
    assert (await ann.job(job.id)).phase in {"pausing", "paused"}
    assert service.runners(job.id) == []


async def test_a_share_is_back_also_on_a_device_that_is_drained_meanwhile(service, notebook, ann, tmp_path):
    job, _ = await ann.submit(a_job(tmp_path), "key")
    await notebook.comes_to("suspended")
    await phase_of(ann, job, "running", service=service)
    root = ServiceClient(f"{service.url}/services/jupyter-gq/", "root")
    await root.drain("GPU-sim-0")
    root.close()
    await phase_of(ann, job, "pausing", "paused", service=service)
    notebook.busy = True
    await notebook.comes_to("running")
    assert notebook.is_on_the_device()


async def is_in_use(notebook):
    return (await notebook.view()).idle_since is None


@contextlib.asynccontextmanager
async def listening(notebook):
    """Yield a task that returns the first warning from now on, also one that nobody looks at in time."""
    listens = asyncio.Event()

    async def hear():
        async with contextlib.aclosing(notebook.client.events(on_open=listens.set)) as events:
            warnings = (event.data["warning"] async for event in events if event.kind == "notebook")
            return await anext(warning async for warning in warnings if warning)

    async with asyncio.timeout(scaled(PATIENCE)), asyncio.TaskGroup() as tasks:
        warning = tasks.create_task(hear())
        await listens.wait()
        yield warning


async def test_a_service_killed_while_it_suspends_lets_the_kernel_go_on(service, notebook, ann, tmp_path):
    with fault(SimulatedFault.LOCK_TIMEOUT, notebook.kernel):
        await ann.submit(a_job(tmp_path), "key")

        async def is_locking():
            files = list(tmp_path.rglob("suspensions.json"))
            return any("LOCKING" in file.read_text() for file in files)

        await until(is_locking, "the lock", service)
        service.kill()
    assert notebook.is_on_the_device()
    service.start()
    await notebook.comes_to("suspended")
    assert not notebook.is_on_the_device()


async def test_a_service_killed_while_a_share_is_lent_knows_it_again(service, notebook, ann, tmp_path):
    job, _ = await ann.submit(a_job(tmp_path), "key")
    await notebook.comes_to("suspended")
    await phase_of(ann, job, "running", service=service)
    runners = service.runners(job.id)
    service.kill()
    service.start()
    assert (await notebook.comes_to("suspended", "running", "resuming")).phase == "suspended"
    assert service.runners(job.id) == runners
    assert not notebook.is_on_the_device()
    notebook.busy = True
    await notebook.comes_to("running")
    assert notebook.is_on_the_device()
    assert service.runners(job.id) == []


async def test_a_service_killed_while_it_resumes_goes_on_once_there_is_room(service, notebook, ann, tmp_path):
    """A program outside all shares holds the memory that the kernel needs back."""
    job, _ = await ann.submit(a_job(tmp_path), "key")
    device = (await notebook.comes_to("suspended")).devices[0]
    await phase_of(ann, job, "running", service=service)
    environment = {**os.environ, "JUPYTER_GQ_DEVICES": device}
    stranger = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", HOLDS, "35000"], env=environment, stdout=subprocess.PIPE
    )
    try:
        assert await asyncio.to_thread(stranger.stdout.readline) == b"ready\n"
        notebook.busy = True
        await notebook.comes_to("resuming")
        service.kill()
        service.start()
        assert (await notebook.comes_to("running", "resuming", "suspended")).phase == "resuming"
        assert not notebook.is_on_the_device()
    finally:
        stranger.kill()
        stranger.communicate()
    await notebook.comes_to("running")
    assert notebook.is_on_the_device()


async def test_a_server_that_is_stopped_while_it_is_suspended_leaves_the_device_to_the_borrower(
    service, notebook, ann, tmp_path
):
    job, _ = await ann.submit(a_job(tmp_path), "key")
    await notebook.comes_to("suspended")
    await phase_of(ann, job, "running", service=service)
    await notebook.client.close_ticket(notebook.ticket)
    os.killpg(notebook.process.pid, 9)

    async def is_stopped():
        return (await notebook.client.ticket(notebook.ticket)).phase == "stopped"

    await until(is_stopped, "the end of the server", service)
    assert (await ann.job(job.id)).phase == "running"


async def test_a_kernel_whose_state_cannot_be_restored_is_named_and_not_tried_again(service, notebook, ann, tmp_path):
    await ann.submit(a_job(tmp_path), "key")
    await notebook.comes_to("suspended")
    with fault(SimulatedFault.RESTORE_OOM, notebook.kernel):
        notebook.busy = True
        view = await notebook.comes_to("running")

        async def told():
            return (await notebook.view()).trouble

        assert "Restart the kernel" in await until(told, "a sentence", service)
    assert view.phase == "running"
