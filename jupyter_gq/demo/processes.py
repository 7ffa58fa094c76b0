"""A local JupyterHub that ends with all processes that it started.

Guarantees
----------
- Descendants: the Hub, its service, and every server, kernel and job that it starts are descendants of this process,
  even if their parent has died: this process is their subreaper (`prctl(PR_SET_CHILD_SUBREAPER)`, Linux).
- Complete end: `DemoHub.stop` returns once none of these processes is left.

See docs/decisions/0007-make-the-demo-a-subreaper.md.
"""

import asyncio
import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from jupyter_gq.domain.errors import AdminError

from .clock import monotonic

_PR_SET_CHILD_SUBREAPER = 36
_READY_SECONDS = 180.0
#: Example notebook that a new server opens.
FIRST_NOTEBOOK = "digits.ipynb"
_STOP_SECONDS = 15.0
#: Rounds in which descendants are ended: some may come while the others end. What is left then cannot be killed.
_MOST_SWEEPS = 5
#: Ports for servers: below those that Linux uses for outgoing connections (32768 and up), above well-known ones.
_PORTS = range(20_000, 32_000)
_HIGHEST_PORT = 65535


class DemoError(AdminError):
    """A demo that cannot continue; the message says what to do, and may show the end of a log."""

    has_lines = True


def find_packaged_folder(name: str) -> Path:
    """Return a folder that is installed with the package, such as `examples`, from the wheel or the checkout.

    Raise `DemoError` if it is missing.
    """
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise DemoError(f"The folder {name} is missing from this installation: reinstall jupyter-gq.")


def free_port(taken: Container[int] = ()) -> int:
    """Return a TCP port of the loopback interface on which nothing listens now; raise `DemoError` if there is none.

    Ports in `taken` are not returned: those that the caller has chosen before and does not listen on yet. Ports for
    outgoing connections are not used: another program could get the port before the caller listens on it.
    """
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        if port in taken:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise DemoError(f"No TCP port between {_PORTS.start} and {_PORTS.stop - 1} is free.")


def check_port(port: int) -> None:
    """Raise `DemoError` unless a program of this user could listen on this port of the loopback interface."""
    if not 0 < port <= _HIGHEST_PORT:
        raise DemoError(f"{port} is no TCP port. Choose one from 1024 to {_HIGHEST_PORT}, such as --port 8000.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except PermissionError as error:
            raise DemoError(f"You may not listen on port {port}. Choose one from 1024 on: --port 8000.") from error
        except OSError as error:
            other = port + 10 if port + 10 <= _HIGHEST_PORT else 8000
            raise DemoError(
                f"Port {port} is in use by another program. Stop that program, or choose another port: "
                f"jupyter-gq demo --port {other}"
            ) from error


@dataclass(kw_only=True)
class DemoHub:
    """A JupyterHub for this user alone, with all its files in one folder, on the loopback interface."""

    #: Folder of the database, the state, the homes and the log.
    folder: Path
    #: TCP port of the proxy, which the browser uses.
    port: int
    #: The hub's configuration file.
    config: Path
    #: Interpreter that has JupyterHub and this package.
    python: str = sys.executable
    #: Variables added to the Hub's environment.
    environment: dict[str, str] = field(default_factory=dict)
    #: Names of the users whose homes get the example notebooks.
    users: tuple[str, ...] = ()

    _process: subprocess.Popen[bytes] | None = None
    #: Ids of the children that this process had before; they and their descendants are not of the Hub.
    _others: frozenset[int] = frozenset()

    @property
    def url(self) -> str:
        """The URL of the Hub for a browser."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """The path of the log file of the Hub and the service."""
        return self.folder / "jupyterhub.log"

    @property
    def pid(self) -> int:
        """The process id of the Hub; the Hub must have been started."""
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        """Prepare the users' homes and start the Hub, without waiting until it answers.

        This process is the subreaper of all that the Hub starts, until `stop`.
        """
        _set_subreaper(enabled=True)
        self._others = frozenset(process.pid for process in psutil.Process().children())
        self.folder.mkdir(parents=True, exist_ok=True)
        for user in self.users:
            self._prepare_home(user)
        hub_port = free_port({self.port})
        proxy_port = free_port({self.port, hub_port})
        bin_folder = str(Path(self.python).parent)
        environment = {
            **os.environ,
            **self.environment,
            "PATH": os.pathsep.join([bin_folder, os.environ.get("PATH", os.defpath)]),
            "TZ": "UTC",
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [
                    *(self.python, "-m", "jupyterhub", "--config", str(self.config)),
                    f"--JupyterHub.bind_url={self.url}",
                    f"--JupyterHub.hub_port={hub_port}",
                    f"--Spawner.default_url=/lab/tree/{FIRST_NOTEBOOK}",
                    f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{proxy_port}",
                ],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    async def wait_until_ready(self) -> None:
        """Wait up to 180 s until Hub and service answer; raise `DemoError` with the end of the log if they do not."""
        assert self._process is not None
        deadline = monotonic() + _READY_SECONDS
        async with httpx.AsyncClient(base_url=self.url, timeout=5) as client:
            while monotonic() < deadline:
                if self._process.poll() is not None:
                    raise DemoError(f"JupyterHub ended at its start. {self._end_of_log()}")
                if await _is_ready(client):
                    return
                await asyncio.sleep(0.2)
        raise DemoError(f"JupyterHub did not answer within {_READY_SECONDS:.0f} s. {self._end_of_log()}")

    def is_alive(self) -> bool:
        """Return whether the process of the Hub runs."""
        return self._process is not None and self._process.poll() is None

    async def reap(self) -> None:
        """Reap what the Hub has left and has ended, every second until cancelled: this process is its parent then.

        Other parts of this process must start no children meanwhile.
        """
        while True:
            reap_orphans(self._others | {self.pid})
            await asyncio.sleep(1)

    async def stop(self) -> None:
        """End the Hub and all processes that it started; do nothing if it was not started."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, _STOP_SECONDS)
        self._process.poll()
        await asyncio.to_thread(end_descendants, self._others)
        if self._process.poll() is None:
            self._process.wait()
        self._process = None
        _set_subreaper(enabled=False)

    def _prepare_home(self, user: str) -> None:
        """Make the home of a user with the example notebooks; files that exist are kept."""
        home = self.folder / "homes" / user
        home.mkdir(parents=True, exist_ok=True)
        for notebook in find_packaged_folder("examples").glob("*.ipynb"):
            if not (home / notebook.name).exists():
                shutil.copy(notebook, home)
        settings = home / ".jupyter/lab/user-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
        if not settings.exists():  # the lab asks each new user about Jupyter news; three users would be asked
            settings.parent.mkdir(parents=True, exist_ok=True)
            settings.write_text('{"fetchNews": "false", "checkForUpdates": false}\n')

    def _end_of_log(self) -> str:
        """Return the last 15 lines of the log, as the end of an error message."""
        lines = self.log.read_text(errors="replace").splitlines()[-15:]
        return f"The end of {self.log}:\n" + "\n".join(f"  {line}" for line in lines)


def reap_orphans(spare: frozenset[int]) -> None:
    """Reap the children of this process that have ended, without those with an id in `spare`, for whom others wait."""
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess, ChildProcessError):
            if child.pid not in spare and child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, os.WNOHANG)


def end_descendants(spare: frozenset[int] = frozenset()) -> None:
    """Terminate all descendants of this process, and kill those that are left after 5 s, in `_MOST_SWEEPS` rounds.

    Children with an id in `spare`, and their descendants, are left alone. A Hub that is ending may start its proxy
    anew, so this looks again a few times.
    """
    for _ in range(_MOST_SWEEPS):
        family = _find_family(spare)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        _, left = psutil.wait_procs(family, timeout=5)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=5)


def _find_family(spare: frozenset[int]) -> list[psutil.Process]:
    """Return the descendants of this process, but for children with an id in `spare` and their descendants."""
    children = [process for process in psutil.Process().children() if process.pid not in spare]
    return [*children, *(each for process in children for each in _find_descendants(process))]


def _find_descendants(process: psutil.Process) -> list[psutil.Process]:
    """Return all descendants of a process; none if it has ended."""
    try:
        descendants: list[psutil.Process] = process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return descendants


async def _is_ready(client: httpx.AsyncClient) -> bool:
    """Return whether the Hub and the service answer."""
    try:
        hub = await client.get("/hub/health")
        service = await client.get("/services/jupyter-gq/api/v1/health")
    except httpx.TransportError:
        return False
    return hub.is_success and service.is_success


def _set_subreaper(*, enabled: bool) -> None:
    """Set whether this process is the parent of descendants whose own parent dies, if the system can do that."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(enabled), 0, 0, 0)
