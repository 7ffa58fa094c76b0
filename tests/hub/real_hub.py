"""A JupyterHub of the test's own: real processes, free ports, one folder. Which Hub: `JUPYTER_GQ_TEST_PYTHON`."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import psutil

from tests import patience
from tests.kept_logs import LOGS
from tests.patience import PATIENCE, scaled
from tests.ports import claim_port

ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("JUPYTER_GQ_TEST_PYTHON", sys.executable)
ADMIN_TOKEN = "the-token-of-the-test"
#: Seconds in which the Hub of a test wants a server to start, where no test says otherwise.
START_TIMEOUT = 10

_CONFIG = """
import sys
from jupyter_gq.hub.config import configure

configure(c, spawner="jupyter_gq.hub.local.GQLocalSpawner", state_dir={folder!r} + "/state", proxy="python")
c.JupyterHub.services = [
    {{"name": "jupyter-gq", "url": {service_root!r}, "api_token": "the-service-of-the-test"}},
    {{"name": "test", "api_token": {token!r}}},
]
c.JupyterHub.load_roles.append({{"name": "test", "services": ["test"], "scopes": [
    "admin:users", "admin:servers", "servers", "access:servers", "read:servers", "tokens", "admin:groups"]}})
c.GPUShareMixin.service_url = {service_url!r}
c.GPUShareMixin.service_timeout = {service_timeout}
c.GPUShareMixin.gpu_queue_poll_interval = 0.2
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_api}"
c.JupyterHub.db_url = "sqlite:///" + {folder!r} + "/hub.sqlite"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.allow_named_servers = True
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": {slow}}}
c.SimpleLocalProcessSpawner.home_dir_template = {folder!r} + "/homes/{{username}}"
c.Spawner.cmd = [sys.executable, {tiny!r}]
c.Spawner.start_timeout = {start_timeout}
c.Spawner.http_timeout = {service_timeout}
c.Spawner.poll_interval = 1
c.Spawner.consecutive_failure_limit = 5
{more}
"""


async def eventually(wanted, seconds=PATIENCE, every=0.05):
    """Return the first true answer of `wanted()` (which may be a coroutine function); fail after that time."""
    return await patience.eventually(wanted, seconds=seconds, every=every)


def no_cluster(folder):
    """A kubeconfig in that folder, for a cluster at whose address nobody listens."""
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "none", "cluster": {"server": f"http://127.0.0.1:{claim_port()}"}}],
        "users": [{"name": "hub", "user": {"token": "x"}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "hub"}}],
        "current-context": "none",
    }
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig))
    return folder / "kubeconfig"


class RealHub:
    """Start it, use it, end it; after a `with` it has ended."""

    def __init__(self, folder: Path, service=None, *, more: str = "", config: str = "", arguments=()) -> None:
        self.folder, self.port, self.hub_port = folder, claim_port(), claim_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "hub.log"
        #: Seconds: no start on a busy machine may count as failed.
        self.start_timeout = round(scaled(START_TIMEOUT))
        self.arguments = list(arguments)
        self._process: subprocess.Popen | None = None
        if service is not None:
            service.hub_api = f"http://127.0.0.1:{self.hub_port}/hub/api"
            config = _CONFIG.format(
                folder=str(folder),
                service_url=service.url,
                service_root=f"http://127.0.0.1:{service.port}",
                token=ADMIN_TOKEN,
                port=self.port,
                hub_port=self.hub_port,
                proxy_api=claim_port(),
                tiny=str(Path(__file__).with_name("tiny_server.py")),
                more=more,
                start_timeout=self.start_timeout,
                service_timeout=round(scaled(30)),
                # A refusal that takes longer is no answer to the request any more.
                slow=round(scaled(5)),
            )
        self.config = folder / "jupyterhub_config.py"
        self.config.write_text(config)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    @property
    def pid(self):
        return self._process.pid

    def exit_code(self):
        return self._process.poll()

    def start(self):
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")},
            "PYTHONPATH": str(ROOT),
            "PATH": f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}",
        }
        LOGS.add("hub", self.folder, "hub.log", "state/jobs/*/runs/*/*/log")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [PYTHON, "-m", "jupyterhub", "--config", str(self.config), *self.arguments],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        asyncio.run(self.ready())

    async def ready(self):
        async def answers():
            assert self.exit_code() is None, self.log.read_text()[-3000:]
            with contextlib.suppress(httpx.TransportError):
                return (await client.get(f"{self.url}/hub/health")).is_success

        async with httpx.AsyncClient() as client:
            await eventually(answers, every=0.1)

    def kill(self):
        """The hub is gone at once; its proxy and the servers stay."""
        self._process.kill()
        self._process.wait()
        pid_file = self.folder / "jupyterhub-proxy.pid"
        if pid_file.exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid_file.read_text()), signal.SIGTERM)

    def end(self):
        """End the hub and everything that came from it."""
        if self._process is None:
            return
        if self.exit_code() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(scaled(60))
        mine = [each for each in psutil.process_iter() if self._came_from_here(each)]
        for process in mine:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(mine, scaled(30))
        self._process.poll()
        LOGS.release("hub", self.folder)

    def _came_from_here(self, process):
        try:
            return process.pid != os.getpid() and process.cwd().startswith(str(self.folder))
        except psutil.Error:
            return False


class Person:
    """A user of the hub: by REST in the user's name, or in a browser that keeps cookies."""

    def __init__(self, hub: RealHub, name: str) -> None:
        self.hub, self.name = hub, name
        self.rest = httpx.AsyncClient(
            base_url=f"{hub.url}/hub/api", headers={"Authorization": f"token {ADMIN_TOKEN}"}, timeout=scaled(PATIENCE)
        )
        self.browser = httpx.AsyncClient(base_url=hub.url, follow_redirects=True, timeout=scaled(PATIENCE))

    async def __aenter__(self):
        await self.rest.post(f"/users/{self.name}")
        return self

    async def __aexit__(self, *_):
        await self.rest.aclose()
        await self.browser.aclose()

    async def log_in(self):
        await self.browser.get("/hub/login")
        form = {"username": self.name, "password": "x", "_xsrf": self.xsrf()}
        answer = await self.browser.post("/hub/login", data=form)
        assert answer.url.path != "/hub/login", answer.text
        await self.browser.get("/hub/home")

    def xsrf(self):
        found = [
            each.value for each in self.browser.cookies.jar if each.name == "_xsrf" and each.path.startswith("/hub")
        ]
        return found[-1]

    def path(self, server=""):
        return f"/users/{self.name}/servers/{server}" if server else f"/users/{self.name}/server"

    async def spawn(self, options, server="", *, wrapped=True):
        body = {"user_options": options} if wrapped else options
        return await self.rest.post(self.path(server), json=body)

    async def start(self, options, server=""):
        """Start a server that the Hub must accept; one that is ending (also after a kill) has ended before."""
        await eventually(lambda: self.gone(server))
        answer = await self.spawn(options, server)
        assert answer.status_code in (201, 202), answer.text

    async def stop(self, server=""):
        return await self.rest.delete(self.path(server))

    async def server(self, server=""):
        model = (await self.rest.get(f"/users/{self.name}")).json()
        return model["servers"].get(server)

    async def ready(self, server=""):
        state = await self.server(server)
        return state and state["ready"]

    async def gone(self, server=""):
        state = await self.server(server)
        return state is None or (not state["ready"] and state["pending"] is None)

    async def told(self, server=""):
        """Return what the server's process reports of itself."""
        path = f"/user/{self.name}/{server + '/' if server else ''}env"
        return (await self.browser.get(path)).json()

    async def progress(self, server="", seconds=PATIENCE, then=None):
        """The events of the hub's progress stream, to its end, past the proxy.

        `then`: what to call, once, when a message with this text has come.
        """
        path = f"http://127.0.0.1:{self.hub.hub_port}/hub/api{self.path(server)}/progress"
        events, awaited = [], dict(then or {})
        async with asyncio.timeout(scaled(seconds)), self.rest.stream("GET", path, timeout=scaled(seconds)) as answer:
            async for line in answer.aiter_lines():
                if found := re.match(r"data: (.*)", line):
                    events.append(json.loads(found[1]))
                    for text in [text for text in awaited if text in events[-1]["message"]]:
                        awaited.pop(text)()
        return events
