"""The scheduler service: the one place that names implementations and puts them together.

On one machine the Hub starts it as a managed service; on Kubernetes the chart does. Either way address, prefix and
token come from the environment in the Hub's words, and everything else from the Hub's own configuration file.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from traitlets import Bool, Enum, Unicode
from traitlets.config import Application

from jupyter_gq.api.app import make_application, make_server
from jupyter_gq.api.auth import HubAuthenticator
from jupyter_gq.api.pods import PodAuthenticator
from jupyter_gq.backends.kubernetes.bundles import StoredBundles
from jupyter_gq.backends.local import LocalBackend
from jupyter_gq.backends.servers import HubServerStopper, ServersBackend
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.policy_file import PolicyFile
from jupyter_gq.devices.choose import choose_probe
from jupyter_gq.devices.meter import ReportedMeter
from jupyter_gq.devices.nvml import NvmlProbe
from jupyter_gq.devices.simulated import SimulatedDevices
from jupyter_gq.domain.errors import BackendError, JupyterGQError
from jupyter_gq.store.sql import SqlStore


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    """What was put together."""

    controller: Controller
    #: Knows the tokens of pods; None where nothing runs in pods.
    pods: PodAuthenticator | None = None


class SchedulerService(Application):
    """Decides who gets which GPU; serves the API; runs as a service of the Hub."""

    name = "jupyter-gq service"
    description = "The scheduler service of jupyter-gq. JupyterHub starts it."
    aliases = {"config": "SchedulerService.config_file", "f": "SchedulerService.config_file"}

    config_file = Unicode(
        "jupyterhub_config.py", help="The Hub's configuration file: quotas, queues and devices are read from it."
    ).tag(config=True)
    backend = Enum(
        ["local", "kubernetes"],
        "local",
        help="Where notebooks and jobs run: `local`, as processes of this machine, or `kubernetes`, as pods of a "
        "cluster. Default: local.",
    ).tag(config=True)
    state_dir = Unicode(
        "jupyter-gq-state",
        help="Folder for the database and the files of jobs, relative to the Hub's working folder. "
        'Default: "jupyter-gq-state".',
    ).tag(config=True)
    database_url = Unicode("", help="SQLAlchemy URL of the database. Default: a SQLite file in the state folder.").tag(
        config=True
    )
    check_invariants = Bool(
        False, help="After each step check that no device is promised twice, and fail the step if so. Default: False."
    ).tag(config=True)

    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the command line, then the Hub's file."""
        self.parse_command_line(argv)
        path = Path(self.config_file)
        if path.exists():
            self.load_config_file(path.name, str(path.parent))

    def start(self) -> None:
        """Serve until a signal comes; end with a sentence and exit code 1 when it cannot start."""
        os.umask(0o077)
        try:
            asyncio.run(self._serve())
        except JupyterGQError as error:
            self.log.critical("The scheduler service cannot start. %s", error)
            sys.exit(1)

    async def _serve(self) -> None:
        url = os.environ.get("JUPYTERHUB_SERVICE_URL", "http://127.0.0.1:8089")
        prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/services/jupyter-gq/")
        address = urlsplit(url)
        put_together = self._on_a_cluster if self.backend == "kubernetes" else self._on_this_machine
        async with put_together(f"{address.scheme}://{address.netloc}{prefix}") as parts:
            controller = parts.controller
            authenticator = HubAuthenticator(*_hub(), service=os.environ.get("JUPYTERHUB_SERVICE_NAME", "jupyter-gq"))
            application = make_application(
                controller,
                authenticator,
                prefix,
                bundle_limit=lambda: controller.settings.current.max_bundle_bytes,
                page="JUPYTERHUB_CLIENT_ID" in os.environ,  # without the Hub's login there is nobody to show it to
                pods=parts.pods,
            )
            server = make_server(application)
            server.listen(address.port or 80, address.hostname)
            self.log.info("jupyter-gq service on %s%s", url, prefix)
            loop = asyncio.create_task(controller.run())
            await _signal()
            loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await loop
            server.stop()
            await server.close_all_connections()
            authenticator.close()

    @contextlib.asynccontextmanager
    async def _on_this_machine(self, service_url: str) -> AsyncIterator[_Parts]:
        clock = SystemClock()
        state = self._state()
        simulated = SimulatedDevices(config=self.config)
        probe = choose_probe(NvmlProbe(now=clock.now), simulated, clock.now)
        local = LocalBackend(parent=self)
        jobs = local.backend(state_dir=state, probe=probe, now=clock.now, service_url=service_url)
        stopper = HubServerStopper(*_hub())
        servers = ServersBackend(parent=self).backend(stopper=stopper, now=clock.now)
        settings = PolicyFile(Path(self.config_file), jobs.nodes)
        store = self._open_store()
        try:
            controller = Controller(
                store=store,
                backends=(servers, jobs),
                settings=settings,
                clock=clock,
                bundles=local.bundles(state_dir=state),
                probe=probe,
                check_invariants=self.check_invariants,
            )
            yield _Parts(controller=controller)
        finally:
            store.close()

    @contextlib.asynccontextmanager
    async def _on_a_cluster(self, service_url: str) -> AsyncIterator[_Parts]:
        try:  # on one machine it is not installed
            from jupyter_gq.backends.kubernetes import KubernetesBackend
        except ImportError as error:
            problem = f"c.SchedulerService.backend is kubernetes, but its client is not installed ({error})."
            raise BackendError(f"{problem} Run: pip install 'jupyter-gq[kubernetes]'") from error
        clock = SystemClock()
        # Which nodes there are is not asked before the settings are in force: they come and go.
        settings = PolicyFile(Path(self.config_file), tuple)
        wake = _Late()
        runs = KubernetesBackend(parent=self).backend(
            pools=lambda: settings.current.pod_pools,
            stopper=HubServerStopper(*_hub()),
            now=clock.now,
            on_change=wake,
            service_url=service_url,
        )
        store = self._open_store()
        try:
            controller = Controller(
                store=store,
                backends=(runs,),
                settings=settings,
                clock=clock,
                bundles=StoredBundles(store, store),
                meter=ReportedMeter(runs.usage),
                check_invariants=self.check_invariants,
            )
            wake.call = controller.wake
            options = runs.options
            pods = PodAuthenticator(
                runs.cluster.review_token,
                nodes_namespace=options.nodes_namespace,
                training_namespace=options.training_namespace,
            )
            with contextlib.suppress(BackendError):  # it is said in the log, and tried again
                await runs.observe()  # before anybody asks whether what he wants is there
            yield _Parts(controller=controller, pods=pods)
        finally:
            await runs.close()
            store.close()

    def _state(self) -> Path:
        return Path(self.state_dir).resolve()

    def _open_store(self) -> SqlStore:
        return SqlStore(self.database_url or f"sqlite:///{self._state() / 'service.sqlite'}")


class _Late:
    """A call to what is put together later."""

    call: Callable[[], None] | None = None

    def __call__(self) -> None:
        if self.call is not None:
            self.call()


def _hub() -> tuple[str, str]:
    """Address of the Hub's API, and this service's own token for it."""
    api_url = os.environ.get("JUPYTERHUB_API_URL", "http://127.0.0.1:8081/hub/api")
    return api_url, os.environ.get("JUPYTERHUB_API_TOKEN", "")


async def _signal() -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, ended.set)
    await ended.wait()
