"""The scheduler service: the one place that names implementations and puts them together.

The Hub starts it as a managed service: address, prefix and token come from the environment that the Hub gives, and
everything else from the Hub's own configuration file.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from traitlets import Bool, Unicode
from traitlets.config import Application

from jupyter_gq.api.app import make_application, make_server
from jupyter_gq.api.auth import HubAuthenticator
from jupyter_gq.backends.local import LocalBackend
from jupyter_gq.backends.servers import HubServerStopper, ServersBackend
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.policy_file import PolicyFile
from jupyter_gq.devices.choose import choose_probe
from jupyter_gq.devices.nvml import NvmlProbe
from jupyter_gq.devices.simulated import SimulatedDevices
from jupyter_gq.domain.errors import JupyterGQError
from jupyter_gq.store.sql import SqlStore


class SchedulerService(Application):
    """Decides who gets which GPU; serves the API; runs as a service of the Hub."""

    name = "jupyter-gq service"
    description = "The scheduler service of jupyter-gq. JupyterHub starts it."
    aliases = {"config": "SchedulerService.config_file", "f": "SchedulerService.config_file"}

    config_file = Unicode(
        "jupyterhub_config.py", help="The Hub's configuration file: quotas, queues and devices are read from it."
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
        with self._controller(f"{address.scheme}://{address.netloc}{prefix}") as controller:
            authenticator = HubAuthenticator(*_hub(), service=os.environ.get("JUPYTERHUB_SERVICE_NAME", "jupyter-gq"))
            application = make_application(
                controller,
                authenticator,
                prefix,
                bundle_limit=lambda: controller.settings.current.max_bundle_bytes,
                page="JUPYTERHUB_CLIENT_ID" in os.environ,  # without the Hub's login there is nobody to show it to
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

    @contextlib.contextmanager
    def _controller(self, service_url: str) -> Iterator[Controller]:
        clock = SystemClock()
        state = Path(self.state_dir).resolve()
        simulated = SimulatedDevices(config=self.config)
        probe = choose_probe(NvmlProbe(now=clock.now), simulated, clock.now)
        local = LocalBackend(parent=self)
        jobs = local.backend(state_dir=state, probe=probe, now=clock.now, service_url=service_url)
        stopper = HubServerStopper(*_hub())
        servers = ServersBackend(parent=self).backend(stopper=stopper, now=clock.now)
        settings = PolicyFile(Path(self.config_file), jobs.nodes)
        store = SqlStore(self.database_url or f"sqlite:///{state / 'service.sqlite'}")
        try:
            yield Controller(
                store=store,
                backends=(servers, jobs),
                settings=settings,
                clock=clock,
                bundles=local.bundles(state_dir=state),
                probe=probe,
                check_invariants=self.check_invariants,
            )
        finally:
            store.close()


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
