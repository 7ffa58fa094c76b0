"""The whole way, with a real Jupyter server and kernel: a cell waits for the lent share and finds its variables."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import psutil
import pytest
import pytest_asyncio
from jupyter_client import AsyncKernelClient

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.models import JobSubmission, NotebookView, ProcessReport, TicketRequest
from tests.api.hubs import Hub
from tests.patience import PATIENCE, eventually, scaled
from tests.ports import claim_port

from .test_killed_service import RealService, a_job, until
from .test_suspended_share import CONFIG, LENT_AT_ONCE, phase_of

pytestmark = pytest.mark.asyncio

_TOKEN = "of-the-server"


class JupyterServer:
    """The Jupyter server of a user, as a spawner starts it, with one kernel."""

    def __init__(self, folder: Path, service: RealService, user: str = "bob", gpus: str = "1") -> None:
        self.folder, self.service, self.user, self.gpus = folder, service, user, gpus
        #: Sockets of the kernel: a folder with a short path, since the path of a socket has at most 107 bytes.
        self.sockets = tempfile.TemporaryDirectory(prefix="gq-")
        self.client = ServiceClient(f"{service.url}/services/jupyter-gq/", user)
        self.port = claim_port()
        self.process: subprocess.Popen | None = None
        self.kernel: AsyncKernelClient | None = None

    async def start(self) -> None:
        await until(self.client.health, "the service", self.service)

        async def admitted():
            found = await self.client.open_ticket(TicketRequest(server="", gpus=self.gpus))
            return found if found.phase == "starting" else None

        view = await until(admitted, "the share", self.service)
        environment = {
            **os.environ,
            **view.environment,
            "JUPYTERHUB_USER": self.user,
            "JUPYTERHUB_API_TOKEN": self.user,
            "JUPYTER_GQ_TICKET": view.id,
            "JUPYTER_GQ_URL": f"{self.service.url}/services/jupyter-gq/",
            "JUPYTER_GQ_SERVER": "",
            "JUPYTER_DEFAULT_PROVISIONER_NAME": "jupyter-gq",
            "JUPYTER_RUNTIME_DIR": self.sockets.name,
        }
        command = [
            *(sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", f"--port={self.port}"),
            *(f"--IdentityProvider.token={_TOKEN}", f"--ServerApp.root_dir={self.folder}"),
            *("--ServerApp.jpserver_extensions=jupyter_gq=True", "--JupyterGQ.activity_interval=1"),
            # No other process can take the place of such a socket before the kernel is there, as it can with a port.
            "--KernelManager.transport=ipc",
        ]
        with (self.folder / "server.log").open("wb") as log:
            self.process = subprocess.Popen(  # noqa: ASYNC220
                command, env=environment, start_new_session=True, stdout=log, stderr=log
            )
        started = psutil.Process(self.process.pid).create_time()
        report = ProcessReport(pid=self.process.pid, started=started)

        async def is_attached():
            await self.client.attach(view.id, report)
            return True

        await until(is_attached, "the process, once it has begun", self.service)
        await self._start_kernel()

    async def _start_kernel(self) -> None:
        async def begun():
            try:
                url = f"http://127.0.0.1:{self.port}/api/kernels"
                async with httpx.AsyncClient(headers={"Authorization": f"token {_TOKEN}"}) as asked:
                    return (await asked.post(url, json={"name": "python3"}, timeout=scaled(PATIENCE))).json()["id"]
            except httpx.ConnectError:
                return None

        log = self.folder / "server.log"
        kernel = await eventually(begun, log.read_text, every=0.5)
        file = Path(self.sockets.name) / f"kernel-{kernel}.json"
        self.kernel = AsyncKernelClient()
        self.kernel.load_connection_info(json.loads(file.read_text()))
        self.kernel.start_channels(hb=False)
        # Until then, outputs and the end of a cell may be missed.
        await self.kernel.wait_for_ready(timeout=scaled(PATIENCE))

    async def run(self, code: str, printed: list[str] | None = None) -> str:
        """Execute code as a cell, and return what it printed; `printed` gets it meanwhile."""
        printed = [] if printed is None else printed
        reply = await self.kernel.execute_interactive(
            code, timeout=scaled(PATIENCE), output_hook=lambda message: printed.append(str(message["content"]))
        )
        assert reply["content"]["status"] == "ok", reply
        return "".join(printed)

    async def view(self) -> NotebookView:
        return (await self.client.notebooks()).notebooks[0]

    async def phase(self) -> str:
        return (await self.view()).phase

    async def comes_to(self, phase: str) -> None:
        async def there():
            return await self.phase() == phase

        await until(there, f"the phase {phase}", self.service)

    async def end(self) -> None:
        if self.kernel is not None:
            self.kernel.stop_channels()
        if self.process is not None:
            for child in psutil.Process(self.process.pid).children(recursive=True):
                child.kill()
            self.process.kill()
            self.process.wait()
        self.client.close()
        self.sockets.cleanup()


@pytest_asyncio.fixture
async def service(request, tmp_path):
    hub = Hub()
    await hub.start()
    service = RealService(tmp_path, hub)
    (tmp_path / "jupyterhub_config.py").write_text(CONFIG + LENT_AT_ONCE + getattr(request, "param", ""))
    service.start()
    yield service
    service.clean_up()
    await hub.stop()


async def test_a_cell_waits_for_the_lent_share_and_finds_its_variables(service, tmp_path):
    server, ann = JupyterServer(tmp_path, service), ServiceClient(f"{service.url}/services/jupyter-gq/", "ann")
    try:
        await server.start()
        await server.run("import jupyter_gq; jupyter_gq.simulate_memory(30_000); x = 41")
        job, _ = await ann.submit(a_job(tmp_path), "key")
        await server.comes_to("suspended")
        await phase_of(ann, job, "running", service=service)
        seen = tmp_path / "seen"  # until then the cell keeps the notebook in use: an idle one would be lent again
        waits = f"import os, time\nwhile not os.path.exists({str(seen)!r}): time.sleep(0.1)"
        async with asyncio.timeout(scaled(PATIENCE)), asyncio.TaskGroup() as tasks:
            cell = tasks.create_task(server.run(f"print(x + 1)\n{waits}"))
            await server.comes_to("running")
            assert service.runners(job.id) == []
            seen.touch()
        assert "42" in cell.result()
    finally:
        await server.end()
        ann.close()


#: A job that goes on after it was told to stop until there is a file.
LEAVES_WHEN_TOLD = """
import os, pathlib, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)  # by which a job is told to stop
pathlib.Path({go!r} + ".begun").touch()
while not os.path.exists({go!r}):
    time.sleep(0.1)
"""
#: Time for the borrower to leave by itself; no test waits for it.
PATIENT = """
c.IdlePolicy.return_within = 900
c.TrainingQueues.grace = 900
c.TrainingQueues.suspend = False
"""


def a_borrower(folder: Path, go: Path) -> JobSubmission:
    job = a_job(folder).model_dump()
    job["bundle"]["notebook"]["cells"][0]["source"] = LEAVES_WHEN_TOLD.format(go=str(go))
    return JobSubmission.model_validate(job)


@pytest.mark.parametrize("service", [PATIENT], indirect=True, ids=["patient"])
async def test_two_cells_that_wait_for_one_device_say_their_places_in_line(service, tmp_path):
    """Ann's cell waits first, but bob's server is older, so bob's share is served first: ann's line says why."""
    servers = {}
    for user in ("bob", "ann"):
        (tmp_path / user).mkdir()
        servers[user] = JupyterServer(tmp_path / user, service, user, "0.5")
    bob, ann = servers.values()
    go, seen = tmp_path / "go", tmp_path / "seen"
    lines: dict[str, list[str]] = {"bob": [], "ann": []}

    async def shows(user: str, *parts: str) -> None:
        def shown() -> bool:
            return bool(lines[user]) and all(part in lines[user][-1] for part in parts)

        await eventually(shown, lambda: f"{parts} under the cell of {user}: {lines[user]}\n{service.log()}")

    try:
        for server in servers.values():
            await server.start()
            await server.run("import jupyter_gq; jupyter_gq.simulate_memory(15_000); x = 41")
        job, _ = await ann.client.submit(a_borrower(tmp_path, go), "key")
        for server in servers.values():
            await server.comes_to("suspended")
        await phase_of(ann.client, job, "running", service=service)
        await eventually((tmp_path / "go.begun").exists, "the cell of the job, which leaves before that at once")
        cell = f"print(x + 1)\nimport os, time\nwhile not os.path.exists({str(seen)!r}): time.sleep(0.1)"
        async with asyncio.timeout(scaled(PATIENCE)), asyncio.TaskGroup() as tasks:
            tasks.create_task(ann.run(cell, lines["ann"]))
            leaves = "1 job that borrowed the GPU makes room."
            await shows("ann", "before all other work, within about 900 s: ", leaves, "when the GPU is back (about ")
            tasks.create_task(bob.run(cell, lines["bob"]))
            await shows("bob", "before all other work, within about 900 s: ", leaves)
            await shows("ann", "has place 2 in line", "1 notebook on the same GPU whose server is older goes first")
            found = {server.user: (await server.view()).suspension for server in servers.values()}
            assert {user: (view.position, view.leaving) for user, view in found.items()} == {
                "bob": (1, 1),
                "ann": (2, 1),
            }
            assert 0 < found["ann"].back_within <= 900
            go.touch()
            for server in servers.values():
                await server.comes_to("running")
            seen.touch()
        assert all(any("42" in text for text in lines[user]) for user in lines)
    finally:
        for server in servers.values():
            await server.end()
