"""A JupyterHub with the real service, light single-user servers, and the real runners and kernels of jobs."""

import asyncio
import contextlib
import shutil
import sys
from pathlib import Path

import httpx
import psutil

from jupyter_gq.backends.local.environment import KEPT_VARIABLES
from jupyter_gq.client.connection.http import ServiceClient
from tests.contract.postgresql import PostgresServer, programs
from tests.hub.real_hub import ADMIN_TOKEN, RealHub
from tests.patience import eventually, scaled
from tests.ports import claim_port

from .disk import OwnDisk
from .plan import Plan
from .processes import find_in, find_orphans, kill_all, live_workloads, overcommitted_devices

TINY = Path(__file__).parents[1] / "hub" / "tiny_server.py"
ADMIN = "root"
QUEUES = ("vision", "nlp")
#: Devices for notebooks and for jobs. Half a GPU for each of eight jobs keeps two cores busy.
BUILD, TRAIN = 10, 4

_CONFIG = """
import sys
from jupyter_gq.hub.config import configure

c.SchedulerService.state_dir = {state!r}
c.SchedulerService.database_url = {database!r}
c.SchedulerService.check_invariants = True
c.SchedulerService.log_style = "json"
configure(c, spawner="jupyter_gq.hub.local.GQLocalSpawner", admins={{"root"}}, proxy="python")
c.JupyterHub.services.append({{"name": "test", "api_token": {token!r}}})
c.JupyterHub.load_roles.append({{"name": "test", "services": ["test"], "scopes": [
    "admin:users", "admin:servers", "servers", "access:servers", "read:servers", "tokens", "admin:groups"]}})
c.JupyterHub.load_groups = {groups!r}
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.concurrent_spawn_limit = 0
c.Authenticator.allow_all = True
c.SimpleLocalProcessSpawner.home_dir_template = {homes!r} + "/{{username}}"
c.Spawner.cmd = [sys.executable, {tiny!r}]
c.Spawner.poll_interval = 5
c.Spawner.http_timeout = c.Spawner.start_timeout = 120
c.GPUShareMixin.service_timeout = 60
c.SimulatedDevices.mode = "always"
c.SimulatedDevices.devices = "{devices}x A100-40GB"
c.Pools.pools = {{"build": {{"devices": {build}}}, "train": {{"devices": {train}}}}}
c.Pools.build, c.Pools.train = "build", "train"
c.Pools.over_subscription = 2
c.FixedQuota.default = "0.25"
c.IdlePolicy.after, c.IdlePolicy.warning, c.IdlePolicy.grace = 20, 10, 0
c.TrainingQueues.queues = {queues!r}
c.TrainingQueues.grace = 10
c.LocalBackend.env_keep = {kept!r}
"""


class World:
    """Everything that runs. `start` it once; `stop` ends all of it; the folder with the logs stays."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.folder = plan.folder
        self.marks = plan.folder / "marks"
        self.disk = OwnDisk(plan.folder / "state")
        self.postgres: PostgresServer | None = None
        self._hub: RealHub | None = None
        #: Held by a trouble while it lasts, and by a check that needs calm.
        self.calm = asyncio.Lock()
        self._tokens: dict[str, str] = {}

    async def start(self) -> None:
        """Start the disk, the database and the Hub, which starts the proxy and the service; make the users."""
        self.marks.mkdir(parents=True)
        self.disk.mount()
        if self.plan.database == "postgresql":
            found = programs()
            assert found is not None, "PostgreSQL is not installed; 'make postgresql' installs it"
            # PostgreSQL has a user of its own, who has to reach the disk.
            self.plan.folder.chmod(0o711)
            self.postgres = await asyncio.to_thread(PostgresServer, found, self.disk.folder)
            await asyncio.to_thread(self.postgres.start)
        self._hub = RealHub(self.folder, config=self._make_config())
        self.hub.arguments = [
            f"--JupyterHub.bind_url={self.hub.url}",
            f"--JupyterHub.hub_port={self.hub.hub_port}",
            f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{claim_port()}",
        ]
        await asyncio.to_thread(self.hub.start)

    async def stop(self) -> None:
        """End everything that runs; the logs stay."""
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        kill_all(self.folder)
        if self._hub is not None:
            self._hub.end()
        if self.postgres is not None:
            self.postgres.remove()
        self.disk.unmount()

    @property
    def hub(self) -> RealHub:
        """The Hub, once `start` was called."""
        assert self._hub is not None, "the world has not been started"
        return self._hub

    def home(self, user: str) -> Path:
        """Return the home folder of a user."""
        return self.folder / "homes" / user

    # Who runs

    def service(self) -> psutil.Process | None:
        """Return the scheduler service; None while there is none."""
        return self._find("jupyter_gq.app service", without="keep_running.py")

    def proxy(self) -> psutil.Process | None:
        """Return the Hub's proxy; None while there is none."""
        return self._find("jupyter_gq.hub.proxy")

    def _find(self, words: str, without: str = "\0") -> psutil.Process | None:
        for process in find_in(self.folder):
            with contextlib.suppress(psutil.Error):
                command = " ".join(process.cmdline())
                if words in command and without not in command:
                    return process
        return None

    def live_workloads(self) -> set[str]:
        """Return the jobs and tickets with a share of a GPU that have a living process."""
        return live_workloads(self.folder)

    def overcommitted_devices(self) -> dict[str, float]:
        """Return the devices of which living processes hold more than all, and how much they hold."""
        return overcommitted_devices(self.folder)

    def logs(self) -> list[Path]:
        """Return the files with the log of the service."""
        return [self.hub.log]

    # The end

    def keep_state(self) -> None:
        """Copy the service's state beside the report, because its disk goes with the world."""
        shutil.copytree(
            self.disk.folder,
            self.plan.folder / "state-at-the-end",
            ignore=lambda folder, names: [name for name in names if Path(folder, name).is_socket()],
        )

    async def stop_servers(self) -> None:
        """Stop all notebook servers."""
        async with self.hub_client() as hub:
            for name in self.plan.names:
                await _stop_server(hub, name)

    def find_left(self) -> list[str]:
        """Return a sentence for each process that should have ended."""
        return find_orphans(self.folder)

    # What users have

    def hub_client(self) -> httpx.AsyncClient:
        """Return a client of the Hub's API with the rights of an administrator."""
        headers = {"Authorization": f"token {ADMIN_TOKEN}"}
        return httpx.AsyncClient(base_url=f"{self.hub.url}/hub/api", headers=headers, timeout=scaled(60))

    async def service_client(self, user: str) -> ServiceClient:
        """Return a client of the service, through the proxy, with a token of that user.

        Raises `httpx.HTTPError` while the Hub is away.
        """
        return ServiceClient(self.service_url, await self.token(user), timeout=scaled(20))

    @property
    def service_url(self) -> str:
        """The address of the service behind the proxy."""
        return f"{self.hub.url}/services/jupyter-gq/"

    async def token(self, user: str) -> str:
        """Return the token of a user for the service, the same at each call."""
        if user not in self._tokens:
            scopes = ["access:services!service=jupyter-gq", "custom:gq:admin" if user == ADMIN else "custom:gq:submit"]
            async with self.hub_client() as client:
                await client.post(f"/users/{user}")
                answer = await client.post(f"/users/{user}/tokens", json={"scopes": scopes})
                answer.raise_for_status()
            self._tokens[user] = answer.json()["token"]
        return self._tokens[user]

    def _make_config(self) -> str:
        names = self.plan.names
        return _CONFIG.format(
            state=str(self.disk.folder),
            database=self.postgres.new_database() if self.postgres is not None else "",
            token=ADMIN_TOKEN,
            groups={queue: {"users": names[number :: len(QUEUES)]} for number, queue in enumerate(QUEUES)},
            homes=str(self.folder / "homes"),
            tiny=str(TINY),
            devices=BUILD + TRAIN,
            build=BUILD,
            train=TRAIN,
            queues={queue: {"quota": TRAIN / len(QUEUES), "groups": [queue]} for queue in QUEUES},
            kept=[*KEPT_VARIABLES, "PYTHONPATH"],
        )


async def _stop_server(hub: httpx.AsyncClient, name: str) -> None:
    """Stop a user's server; return when the Hub has none, also one that was just starting."""

    async def gone() -> bool:
        try:
            await hub.delete(f"/users/{name}/server")
            return not (await hub.get(f"/users/{name}")).json()["servers"]
        except httpx.HTTPError:
            return False

    await eventually(gone, f"the end of the server of {name}", 240, every=0.5)


def kernel_command() -> list[str]:
    """Return the command of the jobs' kernels."""
    return [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
