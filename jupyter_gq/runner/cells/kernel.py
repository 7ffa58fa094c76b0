"""The kernel's process: start it, watch it, and end it with everything that it started. Standard library only.

The kernel is started before anything slow is imported, so that it boots meanwhile. The sockets are files in a folder
that only this user can enter, because loopback ports are open to every user of the machine.
"""

import json
import os
import re
import secrets
import shutil
import signal
import socket
import string
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from jupyter_gq.client.environment.kernel import STARTUP_FILE, prepare
from jupyter_gq.client.files.working_folder import find_folder_fault
from jupyter_gq.devices.linux.control_group import MemoryWatch, find_group_of_run
from jupyter_gq.domain.json_types import JsonMapping, JsonObject
from jupyter_gq.domain.last_words import VARIABLE
from jupyter_gq.runner.files.bundle import Bundle
from jupyter_gq.runner.files.kernelspec import read_spec_variables
from jupyter_gq.runner.mask import Mask
from jupyter_gq.runner.problems import KernelError

from .last_words import LastWords
from .masked_log import open_masked_log

Transport = Literal["ipc", "tcp"]

#: Longest path of a socket that every Unix accepts, in bytes.
LONGEST_SOCKET_PATH = 100
#: Umask of the kernel: files of the cells are readable as from a notebook, while the runner's own files are private.
USERS_UMASK = 0o022
#: Signals that come from outside: the user's code is not to blame.
OUTSIDE_SIGNALS = frozenset({signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP})
_CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
_OWN_PYTHON = frozenset({"python", "python3", f"python3.{sys.version_info.minor}"})
#: Variables of the runner that the user's code does not get: the address of the service, and the last number of
#: earlier outputs.
_RUNNER_ONLY = frozenset({"GQ_SERVICE_URL", "GQ_LAST_SEQ"})


@dataclass(kw_only=True, slots=True, eq=False)
class KernelProcess:
    """A running kernel and its connection."""

    process: "subprocess.Popen[bytes]"
    #: Content of the connection file.
    connection: JsonMapping
    #: Folder of the connection file and the sockets; mode 0700.
    folder: Path
    #: What Linux counts of the memory of this run.
    memory: MemoryWatch = field(default_factory=lambda: MemoryWatch(None))
    last_words: LastWords = field(default_factory=LastWords)
    _discarded: bool = False

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process: None while it runs, negative if a signal ended it."""
        return self.process.poll()

    def describe_exit(self) -> str:
        """Return how the kernel, which has ended, did so unexpectedly, as the end of a clause: "was killed ..."."""
        code = self.exit_code
        if code is None:
            return "was ended by this run"
        if code != -signal.SIGKILL:
            return describe_exit(code)
        kill = self.memory.find_kill()
        if kill is not None:
            return f"was killed because {kill.explain('the job')}"
        return describe_exit(code, by_memory=False if self.memory.is_known else None)

    @property
    def sockets_exist(self) -> bool:
        """Whether the kernel listens on all its channels; always True for TCP, where that cannot be seen."""
        if self.connection["transport"] != "ipc":
            return True
        address = self.connection["ip"]
        return all(os.path.exists(f"{address}-{self.connection[f'{c}_port']}") for c in _CHANNELS)

    def signal_tree(self, number: signal.Signals) -> None:
        """Send a signal to the kernel and the processes of its session; do nothing if none is left."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return

    def discard(self) -> None:
        """Kill the processes of the session, wait until the kernel has ended, and remove the folder of its sockets.

        A second call does nothing: the process id may belong to another process by then.
        """
        if self._discarded:
            return
        self._discarded = True
        self.signal_tree(signal.SIGKILL)
        self.process.wait()
        self.last_words.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def start_kernel(
    bundle: Bundle,
    home: Path,
    extra_env: Mapping[str, str],
    transport: Transport = "ipc",
    mask: Mask | None = None,
    *,
    in_pod: bool = False,
) -> KernelProcess:
    """Start the kernel of this bundle in its working folder; raise `KernelError` with a sentence if that fails.

    The sockets lie in `home` if its path is short enough, else among temporary files. The kernel's environment is the
    runner's without the variables of the runner alone, overridden by the kernelspec's and then by `extra_env`. With
    a `mask`, the values of secrets are hidden in what the kernel's processes print to the log. `in_pod`: the container
    is this run's alone.
    """
    fault = find_folder_fault(bundle.cwd)
    if fault:
        raise KernelError(f"The working folder {bundle.cwd} {fault}, so nothing was run.")
    folder = make_socket_folder(home)
    connection = _make_connection(folder, transport)
    file = folder / "kernel.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps({**connection, "kernel_name": bundle.kernel_name}), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name not in _RUNNER_ONLY}
    environment |= {name: _expand_variables(value) for name, value in _find_spec_variables(bundle).items()}
    environment |= {**extra_env, "JPY_PARENT_PID": str(os.getpid())}
    argv, environment = prepare(_build_command(bundle.argv, file), environment)
    last_words = LastWords()
    # Any other kernel would leave the memory and its variable to the programs that its cells start.
    inherited = () if str(STARTUP_FILE) not in argv or last_words.file is None else (last_words.file,)
    if inherited:
        environment[VARIABLE] = str(last_words.file)
    output = None if mask is None else open_masked_log(mask)
    try:
        process = subprocess.Popen(  # noqa: S603 - running the user's own kernelspec is the purpose
            argv,
            cwd=bundle.cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=inherited,
            start_new_session=True,
            umask=USERS_UMASK,
        )
    except OSError as error:
        last_words.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise KernelError(
            f"The kernel {bundle.kernel_name!r} could not be started: {argv[0]}: {error.strerror or error}."
        ) from error
    finally:
        if output is not None:
            os.close(output)
    memory = MemoryWatch(find_group_of_run(in_pod=in_pod))
    return KernelProcess(process=process, connection=connection, folder=folder, memory=memory, last_words=last_words)


def _find_spec_variables(bundle: Bundle) -> dict[str, str]:
    """Return the variables of the kernelspec; those without a value here are named in the log."""
    found, missing = read_spec_variables(bundle.kernel_name, bundle.resource_dir, bundle.env_names, os.environ)
    missing = [name for name in missing if name not in bundle.env]
    if missing:
        what = f"the kernelspec {bundle.kernel_name!r} of this machine does not set {', '.join(missing)}"
        print(f"Not set: {what}.", flush=True)  # noqa: T201 - standard output is the run's log
    return {**bundle.env, **found}


def describe_exit(exit_code: int, *, by_memory: bool | None = None) -> str:
    """Return how a kernel ended unexpectedly, as the end of a clause: "was killed ..."; below 0 = by a signal.

    `by_memory` is False if Linux is known to have killed no process for want of memory.
    """
    if exit_code == -signal.SIGKILL and by_memory is False:
        return "was killed (SIGKILL), and not by Linux for want of memory"
    if exit_code == -signal.SIGKILL:
        return "was killed, most often because the machine or its memory limit ran out of memory"
    if -exit_code in OUTSIDE_SIGNALS:
        return f"was ended from outside ({_signal_name(-exit_code)})"
    if exit_code < 0:
        return f"crashed ({_signal_name(-exit_code)}), most often inside a native library"
    return f"ended by itself with exit code {exit_code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def make_socket_folder(home: Path) -> Path:
    """Make and return a private folder whose path is short enough for sockets: in `home`, or among temporary files.

    In `home`, the new folder replaces one of an earlier run and is removed with the job's files. Raises `KernelError`
    if no path is short enough.
    """
    wanted = home / "kernel"
    if _is_short_enough(wanted):
        shutil.rmtree(wanted, ignore_errors=True)
        wanted.mkdir(mode=0o700)
        return wanted
    for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - mkdtemp makes it private
        if _is_short_enough(Path(parent, "gq-xxxxxxxx")):
            return Path(tempfile.mkdtemp(prefix="gq-", dir=parent))
    raise KernelError("No folder for temporary files has a path short enough for the kernel's sockets.")


def _is_short_enough(folder: Path) -> bool:
    return len(os.fsencode(folder / "k-5")) <= LONGEST_SOCKET_PATH


def _make_connection(folder: Path, transport: Transport) -> JsonObject:
    """Return the content of a connection file: sockets in `folder`, or free TCP ports, with a new key."""
    if transport == "ipc":
        address, ports = str(folder / "k"), list(range(1, len(_CHANNELS) + 1))
    else:
        address, ports = "127.0.0.1", _free_ports(len(_CHANNELS))
    return {
        "transport": transport,
        "ip": address,
        "key": secrets.token_hex(32),
        "signature_scheme": "hmac-sha256",
        **{f"{channel}_port": port for channel, port in zip(_CHANNELS, ports, strict=True)},
    }


def _free_ports(count: int) -> list[int]:
    """Return `count` TCP ports of the loopback interface on which nothing listens now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()


def _build_command(argv: tuple[str, ...], connection_file: Path) -> list[str]:
    """Return the kernelspec's command with its placeholders filled in; raise `KernelError` if it is empty.

    Unknown placeholders stay. A Python that is not on PATH is replaced by the runner's own. An ipykernel gets an option
    that keeps replayed cells out of the user's history.
    """
    known = {"connection_file": str(connection_file), "prefix": sys.prefix}
    command = [re.sub(r"\{([A-Za-z0-9_]+)\}", lambda m: known.get(m[1], m[0]), part) for part in argv]
    if not command:
        raise KernelError("The kernel of this notebook has no command to start it with.")
    if command[0] in _OWN_PYTHON and shutil.which(command[0]) is None:
        command[0] = sys.executable
    if "ipykernel_launcher" in command:
        command.append("--HistoryManager.hist_file=:memory:")  # replayed cells are not the user's typing
    return command


def _expand_variables(value: str) -> str:
    """Return `value` with each `${NAME}` replaced by the runner's own variable; names of unknown variables stay."""
    return string.Template(value).safe_substitute(os.environ)
