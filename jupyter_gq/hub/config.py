"""`configure(c)`: the part of a hub configuration that depends on the Hub's version or that jupyter-gq needs.

Rules
-----
- Additions only: the administrator's file holds values only; values that it has set are kept and added to.
- Repeatable: the service executes the same file again whenever it changes. So this module imports little and decides
  the same again, above all the same port.
- Two addresses: programs that send tokens reach the service through a Unix socket, which no other account can imitate.
  The Hub's proxy passes browsers on to a port. The port is chosen once, nothing moves it silently, and the Hub and its
  proxy hold it; see `client.connection.service_port`.
- No secrets: no token is made here. The Hub makes one for the service at each start and keeps only its hash.
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
from typing import Literal
from urllib.parse import urlsplit

from traitlets import TraitError
from traitlets.config import Config
from traitlets.log import get_logger

from jupyter_gq.client.connection.service_address import SOCKET_VARIABLE, SocketPlace
from jupyter_gq.client.connection.service_port import HOST, hold_port, is_in_use
from jupyter_gq.domain.errors import AdminError
from jupyter_gq.domain.plain_text import quoted

from .config_parts import (
    SERVICE,
    get_base_url,
    get_list,
    get_value,
    make_early_answer,
    make_page_login,
    make_start_timeout,
    set_scopes,
    set_template_paths,
)
from .config_variables import read_variables

_PROXY = "configurable-http-proxy"
_PYTHON_PROXY = "jupyter_gq.hub.proxy"
_STATE_DIR = "jupyter-gq-state"
#: Milliseconds in which a server has to begin its answer to the pure-Python proxy: an hour instead of 20 s.
_PROXY_TIMEOUT = "3600000"
#: Threads that touch users' files come and go, and an arena of malloc keeps what its thread once had: two are enough.
_MALLOC = {"MALLOC_ARENA_MAX": "2"}
#: Ports for the service, below those that Linux gives to outgoing connections (32768 and up).
_PORTS = range(20_000, 32_000)
#: Attempts at the last port while an earlier service ends, and seconds between two of them.
_PORT_TRIES, _PORT_PAUSE = 30, 0.1
#: The sockets that hold ports for this Hub, by port. No socket is closed before the Hub ends.
_held_ports: dict[int, socket.socket] = {}

ProxyChoice = Literal["auto", "python", "node"]


def configure(
    c: Config,
    *,
    spawner: str = "jupyter-gq-local",
    service_port: int = 0,
    state_dir: str = "",
    admins: Collection[str] = (),
    proxy: ProxyChoice = "auto",
) -> None:
    """Prepare the hub configuration `c` for jupyter-gq: spawner, service, scopes, pages, proxy.

    `spawner` is an entry point or a class; "jupyter-gq-system" runs servers as system users. `service_port` is the port
    of the service; 0: c.JupyterGQ.port, if the file sets it before this call. Without either, the first start chooses a
    free port from 20000 to 31999 and records it in the file `port` of `state_dir`. A port that is taken is an error.
    `state_dir` "": c.SchedulerService.state_dir, or "jupyter-gq-state" in the hub's working folder. Only the proxy uses
    the port: servers, jobs and the Hub use a Unix socket in c.SchedulerService.socket_dir, whose path must not be too
    long. `admins` may see and change all jobs and become administrators of the hub. `proxy` is as in
    `build_proxy_command`. An open browser tab no longer counts as activity.
    """
    if state_dir:
        c.SchedulerService.state_dir = state_dir
    folder = Path(get_value(c.SchedulerService, "state_dir", _STATE_DIR))
    port = _find_service_port(folder, service_port or _get_port_setting(c))
    place = _locate_socket(c, folder)
    c.GPUShareMixin.service_url = _build_service_url(c, place)
    c.JupyterHub.spawner_class = spawner
    set_template_paths(c)
    set_scopes(c, admins)
    _set_service(c, port, folder, place)
    command = build_proxy_command(proxy)
    get_logger().info("The Hub's proxy is %s", "the pure-Python one" if _PYTHON_PROXY in command else command[0])
    c.ConfigurableHTTPProxy.command = [sys.executable, "-P", "-m", "jupyter_gq.hub.hold_port", str(port), *command]
    c.JupyterHub.last_activity_interval = 0  # an open browser tab is no activity; the kernels' activity counts


def build_proxy_command(choice: ProxyChoice = "auto") -> list[str]:
    """Return the command line that starts the Hub's proxy.

    "auto" takes Node's proxy if Node and the proxy are installed for good, else the pure-Python one. "python" and
    "node" name one of them. Raises `ValueError` if `choice` is "node" and Node's proxy is not installed.
    """
    node = _find_node_proxy() if choice != "python" else None
    if node is not None:
        return [node]
    if choice == "node":
        raise ValueError(f"There is no {_PROXY} of Node on the PATH. Install it with: npm install -g {_PROXY}")
    # The proxy writes times of the local zone, and the Hub expects UTC.
    return ["env", "TZ=UTC", sys.executable, "-P", "-m", _PYTHON_PROXY, "--proxy-timeout", _PROXY_TIMEOUT]


def _find_node_proxy() -> str | None:
    """Return the command of Node's proxy on the PATH; None if it is not installed for good.

    A proxy or a Node inside this environment does not count: it may be there only for a build.
    """
    ours = Path(sys.prefix).resolve()
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        command = shutil.which(_PROXY, path=folder) if folder else None
        if command and ours not in Path(command).absolute().parents and _is_for_node(Path(command)):
            return command if _has_node_outside(ours) else None
    return None


def _is_for_node(command: Path) -> bool:
    """Tell whether a command is a script whose first line names Node; False if it cannot be read."""
    try:
        with command.open("rb") as file:
            first_line = file.readline(256)
    except OSError:
        return False
    return first_line.startswith(b"#!") and b"node" in first_line


def _has_node_outside(ours: Path) -> bool:
    """Tell whether Node is on the PATH and outside the environment `ours`."""
    node = shutil.which("node")
    return node is not None and ours not in Path(node).absolute().parents


def _locate_socket(c: Config, state_dir: Path) -> SocketPlace:
    """Return the place of the service's socket; in the service itself, the one that the Hub has given it.

    The service runs as the account of this process.
    """
    given = os.environ.get(SOCKET_VARIABLE, "") if os.environ.get("JUPYTERHUB_SERVICE_NAME") == SERVICE else ""
    return SocketPlace.own(given, str(get_value(c.SchedulerService, "socket_dir", "")), state_dir)


def _build_service_url(c: Config, place: SocketPlace) -> str:
    """Return the URL of the service at its socket; raise `TraitError` if the path is too long for a socket."""
    try:
        return place.url(f"{get_base_url(c)}services/{SERVICE}/")
    except AdminError as error:
        raise TraitError(str(error)) from error


def _set_service(c: Config, port: int, folder: Path, place: SocketPlace) -> None:
    """Put the entry of our service into the Hub's configuration, in place of an earlier entry of that name."""
    file = _find_config_file()
    services = [service for service in get_list(c.JupyterHub, "services") if service.get("name") != SERVICE]
    entry = {
        "name": SERVICE,
        "url": f"http://{HOST}:{port}",
        "command": [*_keep_running_command(), "-m", "jupyter_gq.app", "service", "--config", str(file)],
        "cwd": str(Path.cwd()),
        "environment": {
            **_MALLOC,
            **read_variables({file, _find_caller()}),
            **{name: os.environ[name] for name in ("HOME", "TZ") if name in os.environ},
            SOCKET_VARIABLE: str(place.path),
            **_locate_database(c, folder),
            **make_early_answer(),
        },
        **make_page_login(),
        **make_start_timeout(),
    }
    c.JupyterHub.services = [*services, entry]


def _locate_database(c: Config, folder: Path) -> dict[str, str]:
    """Return the service's environment variables for the folder of its state and, if `c` sets one, its database URL.

    The service needs them when it is started again while this file has an error.
    """
    url = str(get_value(c.SchedulerService, "database_url", ""))
    place = {"JUPYTER_GQ_STATE_DIR": str(folder.absolute())}
    return {**place, "JUPYTER_GQ_DATABASE_URL": url} if url else place


def _keep_running_command() -> list[str]:
    """Return the beginning of a command line that runs `python` with the arguments appended to it.

    That process ends with the Hub, even a killed one, and is started again if a signal kills it. With `-P`, neither
    process imports modules from its working folder, where anybody's `json.py` may lie.
    """
    return [sys.executable, "-P", str(Path(__file__).with_name("keep_running.py")), "-P"]


def _find_config_file() -> Path:
    """Return the absolute path of the configuration file on this process's command line, else that of the caller.

    The two differ if the first one loads the second one (`load_subconfig`).
    """
    arguments = sys.argv[1:]
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in ("-f", "--config", "--JupyterHub.config_file"):
            given = value if equals else next(iter(arguments[index + 1 :]), "")
            if given:
                return Path(given).absolute()
    return _find_caller()


def _find_caller() -> Path:
    """Return the absolute path of the file whose code called this module."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    caller = frame.f_globals.get("__file__", "jupyterhub_config.py") if frame else "jupyterhub_config.py"
    return Path(caller).absolute()


def _get_port_setting(c: Config) -> int:
    """Return c.JupyterGQ.port, 0 if it is not set; raise `TraitError` if it is no port."""
    port: object = get_value(c.JupyterGQ, "port", 0)
    if type(port) is not int or not 0 <= port < 65536:
        raise TraitError(f"c.JupyterGQ.port = {quoted(port)} is no port; a port is a number from 1 to 65535.")
    return port


def _find_service_port(folder: Path, given: int) -> int:
    """Return the port `given`, or with 0 the one that the first start chose and recorded in `folder`.

    In the service itself, return the port that the Hub has given it. In the Hub, the first start records its choice,
    and `TraitError` is raised if another program has the port. The Hub's proxy passes browsers on to it, so the service
    never moves to another port by itself. Also raise `TraitError` for a malformed number.
    """
    running = os.environ.get("JUPYTERHUB_SERVICE_URL", "")
    if running and os.environ.get("JUPYTERHUB_SERVICE_NAME") == SERVICE:
        return urlsplit(running).port or 0  # the service itself reads the file
    if not 0 <= given < 65536:
        raise TraitError(f"configure(c, service_port={given}) names no port; a port is a number from 1 to 65535.")
    port = given or _read_port(folder / "port")
    if "jupyterhub.app" not in sys.modules:
        return port or _choose_port()  # another program reads the file: nothing is written or decided for the Hub
    if port:
        _await_port(port, "c.JupyterGQ.port or configure(c, service_port=...)" if given else str(folder / "port"))
        return port
    port = _choose_port()
    _await_port(port, "chosen just now")
    _record_port(folder / "port", port)
    return port


def _read_port(file: Path) -> int:
    """Return the port in this file; 0 if there is no file. Raise `TraitError` if the file holds no port."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise TraitError(f"The port of the scheduler service cannot be read from {file}: {error.strerror}.") from error
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536):
        raise TraitError(
            f"{file} should hold the port of the scheduler service, a number from 1 to 65535, but it holds "
            f"{quoted(text)}. Write the number there, or delete the file if no server or job runs: then the next start "
            "chooses a new port."
        )
    return int(text)


def _record_port(file: Path, port: int) -> None:
    """Write the port to this file, which then holds it as a whole or does not exist."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.write_text(f"{port}\n")
    temporary.replace(file)


def _await_port(port: int, source: str) -> None:
    """Hold the port for as long as the Hub runs, once nobody listens there.

    Wait up to 3 s, as the service of a killed Hub needs a moment to end. Raise `TraitError` if the port stays taken;
    `source` says where its number comes from.
    """
    for _ in range(_PORT_TRIES):
        if _hold(port):
            return
        time.sleep(_PORT_PAUSE)
    raise TraitError(
        f"The port {port} of the scheduler service ({source}) is in use by another program, so the Hub does not start. "
        f"End that program (`ss -ltnp 'sport = :{port}'` shows it); perhaps it is a Hub that still runs. To use "
        "another port, set c.JupyterGQ.port before configure(c)."
    )


def _hold(port: int) -> bool:
    """Hold a port for as long as the Hub runs; return False if another program has the port or listens there."""
    held = _held_ports.get(port) or hold_port(port)
    if held is None:
        return False
    if is_in_use(port):  # by another service of this account
        held.close()
        _held_ports.pop(port, None)
        return False
    _held_ports[port] = held
    return True


def _choose_port() -> int:
    """Return a free port of `_PORTS`, which no outgoing connection can take before the service does.

    Raise `TraitError` if none is free.
    """
    port = next((port for port in random.SystemRandom().sample(_PORTS, len(_PORTS)) if _is_free(port)), None)
    if port is None:
        raise TraitError(f"No port from {_PORTS[0]} to {_PORTS[-1]} is free for the scheduler service.")
    return port


def _is_free(port: int) -> bool:
    """Return whether no program has this port of the loopback interface or listens there."""
    held = hold_port(port)
    if held is None:
        return False
    held.close()
    return not is_in_use(port)
