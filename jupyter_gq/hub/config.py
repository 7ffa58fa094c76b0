"""`configure(c)`: everything in a hub configuration that depends on the Hub's version or that jupyter-gq needs.

Rules
-----
1. The administrator's file holds values only; what is already set in it is kept and added to.
2. The service executes the same file again whenever it changes: this module imports little and decides the same
   again, above all the same port.
3. No token is made here: the Hub makes one for the service at each start and keeps only its hash.
"""

import os
import random
import shutil
import socket
import sys
import time
from collections.abc import Collection
from pathlib import Path
from types import FrameType
from typing import Any, Literal
from urllib.parse import urlsplit

from .config_parts import SERVICE, base_url, items, page_login, set_pages, set_scopes, value

_HOST = "127.0.0.1"
_PROXY = "configurable-http-proxy"
_PYTHON_PROXY = "jupyter_gq.hub.proxy"
_STATE_DIR = "jupyter-gq-state"
#: The pure-Python proxy ends every request after 20 s unless told otherwise; this is an hour, in milliseconds.
_PROXY_TIMEOUT = "3600000"
#: Below the ports that Linux gives to outgoing connections (32768 and up).
_PORTS = range(20_000, 32_000)
#: A service that was told to end gets this many moments, each of this many seconds.
_MOMENTS, _MOMENT = 30, 0.1

ProxyChoice = Literal["auto", "python", "node"]


def configure(
    c: Any,
    *,
    spawner: str = "jupyter-gq-local",
    service_port: int = 0,
    state_dir: str = "",
    admins: Collection[str] = (),
    proxy: ProxyChoice = "auto",
) -> None:
    """Prepare the hub configuration `c` for jupyter-gq: spawner, service, scopes, pages, proxy.

    `spawner` is an entry point or a class; "jupyter-gq-system" runs servers as system users. `service_port` 0 takes a
    free port and keeps it in `state_dir` (default: c.SchedulerService.state_dir, or "jupyter-gq-state" in the hub's
    working folder). `admins` may see and change everybody's jobs and become administrators of the hub.
    """
    if state_dir:
        c.SchedulerService.state_dir = state_dir
    folder = Path(value(c.SchedulerService, "state_dir", _STATE_DIR))
    port = service_port or _service_port(folder)
    c.GPUShareMixin.service_url = f"http://{_HOST}:{port}{base_url(c)}services/{SERVICE}/"
    c.JupyterHub.spawner_class = spawner
    set_pages(c)
    set_scopes(c, admins)
    _set_service(c, port)
    c.ConfigurableHTTPProxy.command = proxy_command(proxy)
    c.JupyterHub.last_activity_interval = 0  # an open browser tab is no activity; the servers report their kernels


def proxy_command(choice: ProxyChoice = "auto") -> list[str]:
    """The proxy to start: that of Node where both are installed for good, else the pure-Python one of this environment.

    Node's streams answers; the other holds each back until it is complete, which our pages and servers allow for.
    """
    node = _node_proxy() if choice != "python" else None
    if node is not None:
        return [node]
    if choice == "node":
        raise ValueError(f"No {_PROXY} of Node on the PATH. Install it with: npm install -g {_PROXY}")
    # It writes times of the local zone where the Hub expects UTC.
    return ["env", "TZ=UTC", sys.executable, "-m", _PYTHON_PROXY, "--proxy-timeout", _PROXY_TIMEOUT]


def _node_proxy() -> str | None:
    """A proxy on the PATH that is Node's and not of this environment (where Node may be only for a build)."""
    ours = Path(sys.prefix).resolve()
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        command = shutil.which(_PROXY, path=folder) if folder else None
        if command and ours not in Path(command).absolute().parents and _is_for_node(Path(command)):
            return command if _node_outside(ours) else None
    return None


def _is_for_node(command: Path) -> bool:
    try:
        with command.open("rb") as file:
            first_line = file.readline(256)
    except OSError:
        return False
    return first_line.startswith(b"#!") and b"node" in first_line


def _node_outside(ours: Path) -> bool:
    node = shutil.which("node")
    return node is not None and ours not in Path(node).absolute().parents


def _set_service(c: Any, port: int) -> None:
    services = [service for service in items(c.JupyterHub, "services") if service.get("name") != SERVICE]
    entry = {
        "name": SERVICE,
        "url": f"http://{_HOST}:{port}",
        "command": [*_kept_running(), "-m", "jupyter_gq.app", "service", "--config", str(_config_file())],
        "environment": {name: os.environ[name] for name in ("HOME", "TZ") if name in os.environ},
        **page_login(),
    }
    c.JupyterHub.services = [*services, entry]


def _kept_running() -> list[str]:
    """A Python that ends with the Hub, also when the Hub is killed, and comes back at once when it is killed itself."""
    return [sys.executable, str(Path(__file__).with_name("keep_running.py"))]


def _config_file() -> Path:
    """The file that the Hub was started with: it may load the one that calls `configure` (`load_subconfig`)."""
    arguments = sys.argv[1:]
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in ("-f", "--config", "--JupyterHub.config_file"):
            given = value if equals else next(iter(arguments[index + 1 :]), "")
            if given:
                return Path(given).absolute()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    caller = frame.f_globals.get("__file__", "jupyterhub_config.py") if frame else "jupyterhub_config.py"
    return Path(caller).absolute()


def _service_port(folder: Path) -> int:
    """The port of the last start, so that what outlives the Hub still finds the service; else a free one."""
    running = os.environ.get("JUPYTERHUB_SERVICE_URL", "")
    if running and os.environ.get("JUPYTERHUB_SERVICE_NAME") == SERVICE:
        return urlsplit(running).port or 0  # this is the service itself, reading the file
    remembered = folder / "port"
    try:
        port = int(remembered.read_text())
    except (OSError, ValueError):
        port = 0
    if "jupyterhub.app" not in sys.modules:
        return port or _new_port()  # somebody else looks at the file: nothing is decided for the Hub, nor written
    port = _free_again(port) or _new_port()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    remembered.write_text(f"{port}\n")
    return port


def _free_again(port: int) -> int:
    """That port once it is free: the service of a Hub that was killed needs a moment to end. 0 if it stays taken."""
    for _ in range(_MOMENTS):
        free = _free_port(port)
        if free:
            return free
        time.sleep(_MOMENT)
    return 0


def _new_port() -> int:
    """A free port, none of those for outgoing connections: one could be gone before the service listens there."""
    tried = random.SystemRandom().sample(_PORTS, 100)
    return next((port for port in tried if _free_port(port)), 0) or _free_port(0)


def _free_port(wanted: int) -> int:
    """`wanted` if nobody listens there, a free one for 0; 0 when `wanted` is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, wanted))
        except OSError:
            return 0
        return int(probe.getsockname()[1])
