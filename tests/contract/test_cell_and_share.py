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
from jupyter_gq.client.models import ProcessReport, TicketRequest
from tests.api.hubs import Hub
from tests.patience import PATIENCE, eventually, scaled
from tests.ports import claim_port

from .test_killed_service import RealService, a_job, until
from .test_suspended_share import CONFIG, LENT_AT_ONCE, phase_of

pytestmark = pytest.mark.asyncio

_TOKEN = "of-the-server"


class JupyterServer:
    """Bob's Jupyter server, as a spawner starts it, with one kernel."""

    def __init__(self, folder: Path, service: RealService) -> None:
        self.folder, self.service = folder, service
        #: Sockets of the kernel: a folder with a short path, since the path of a socket has at most 107 bytes.
        self.sockets = tempfile.TemporaryDirectory(prefix="gq-")
        self.client = ServiceClient(f"{service.url}/services/jupyter-gq/", "bob")
        self.port = claim_port()
        self.process: subprocess.Popen | None = None
        self.kernel: AsyncKernelClient | None = None

    async def start(self) -> None:
        await until(self.client.health, "the service", self.service)

        async def admitted():
            found = await self.client.open_ticket(TicketRequest(server="", gpus="1"))
            return found if found.phase == "starting" else None

        view = await until(admitted, "the share", self.service)
        environment = {
            **os.environ,
            **view.environment,
            "JUPYTERHUB_USER": "bob",
            "JUPYTERHUB_API_TOKEN": "bob",
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

    async def run(self, code: str) -> str:
        """Execute code as a cell, and return what it printed."""
        printed: list[str] = []
        reply = await self.kernel.execute_interactive(
            code, timeout=scaled(PATIENCE), output_hook=lambda message: printed.append(str(message["content"]))
        )
        assert reply["content"]["status"] == "ok", reply
        return "".join(printed)

    async def phase(self) -> str:
        return (await self.client.notebooks()).notebooks[0].phase

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
async def service(tmp_path):
    hub = Hub()
    await hub.start()
    service = RealService(tmp_path, hub)
    (tmp_path / "jupyterhub_config.py").write_text(CONFIG + LENT_AT_ONCE)
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
