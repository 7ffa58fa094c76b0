"""NVIDIA's MPS on devices of this machine: its control daemon, and the variables by which programs use it.

Rules
-----
- Own daemon: it has a folder of its own, serves the named devices only, and lives on when the service ends, because
  its clients do. A later service finds it by the folder, which also says which devices it serves.
- Fixed devices: a daemon serves the devices with which it was started. One that lacks a named device is started anew as
  soon as it has no client.
- Named by UUID: an entry for a device that a program does not see would drop all of its memory limits.
- All or nothing: a program gets the variables only if the daemon serves every device that it sees, since the daemon
  hides the others.

See docs/decisions/0206-share-named-gpus-by-mps.md and
docs/decisions/0234-start-the-daemon-of-mps-anew-when-nobody-uses-it.md.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.devices.limits import watched_memory
from jupyter_gq.domain.amount import ONE_GPU, MilliGpu
from jupyter_gq.domain.cluster import Device

PROGRAM = "nvidia-cuda-mps-control"
UNDER_MPS = "The GPU is shared by MPS, and the driver does not suspend programs under MPS."
#: Seconds within which the daemon answers or starts.
_TIMEOUT = 20
#: Looks whether a daemon has ended that was told so, and the seconds between them.
_LOOKS, _BETWEEN_LOOKS = 10, 0.5
_NO_PROGRAM = f"MPS cannot run: {PROGRAM} is not on the search path. Install the driver's compute utilities."
#: Longest path of a Unix socket in Linux, less the longest name of one in the folder.
_LONGEST = 90


def default_folder() -> str:
    """Return the folder of the daemon if no setting names one; "" = a folder of the service's own."""
    return "/run/jupyter-gq-mps" if os.geteuid() == 0 else ""


def locate_folder(named: str, state: Path) -> Path:
    """Return the folder of the daemon, `named` or in the folder `state` of the service."""
    return Path(named) if named else state.resolve() / "mps"


@dataclass(frozen=True, kw_only=True, slots=True)
class MpsDaemon:
    """The control daemon of MPS in a folder."""

    folder: Path
    #: Ids of the devices that it shall serve.
    devices: Sequence[str]
    #: Function that returns the path of the program with a name; None if it is not installed.
    which: Callable[[str], str | None] = shutil.which
    #: Waits for so many seconds, in a thread.
    sleep: Callable[[float], None] = time.sleep

    @property
    def pipes(self) -> Path:
        """The folder by which clients find the daemon."""
        return self.folder / "pipe"

    def served(self) -> frozenset[str]:
        """Return the devices that the daemon shall serve and does, by the ones with which it was started.

        Before its first start they are all, and so they are when a daemon without a note is found.
        """
        try:
            started_with = self._started_with.read_text(encoding="utf-8").split()
        except OSError:
            return frozenset(self.devices)
        return frozenset(self.devices).intersection(started_with)

    def lacking(self) -> frozenset[str]:
        """Return the devices that the daemon shall serve and does not, because it was started without them."""
        return frozenset(self.devices) - self.served()

    def is_silent(self) -> bool:
        """Return whether the daemon was started and does not answer now.

        False if that cannot be found out: there is no program to ask it, or its folder belongs to another user.
        """
        program = self.which(PROGRAM)
        try:
            return program is not None and self._started_with.exists() and self._ask(program, "get_server_list") is None
        except subprocess.TimeoutExpired:
            return True
        except OSError:
            return False

    def ensure(self) -> str:
        """Start the daemon unless it answers; return what is wrong, as a sentence, or "" if it answers now.

        One that lacks a device is ended and started anew if it has no client.
        """
        program = self.which(PROGRAM)
        if program is None:
            return _NO_PROGRAM
        if len(str(self.pipes)) > _LONGEST:
            return f"MPS cannot run: the path {self.pipes} is too long for its sockets. Set c.LocalBackend.mps_dir."
        try:
            if self._ask(program, "get_server_list") is None:
                return self._start(program)
            if not self._started_with.exists():
                self._note_devices()
            if self.served() == set(self.devices) or self._has_client(program):
                return ""
            return self._start(program) if self._quits(program) else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"MPS cannot run: {error}."

    def _start(self, program: str) -> str:
        """Start the daemon; return what is wrong, as a sentence, or "" if it answers now."""
        for folder in (self.folder, self.pipes, self.folder / "log"):
            if not folder.exists():
                folder.mkdir(parents=True)
                folder.chmod(0o755)  # the programs of other users find the daemon in it
        self._note_devices()
        output = self.folder / "start.log"
        # The daemon would keep a pipe open for ever, so that its output goes to a file.
        with output.open("wb") as file:
            subprocess.run(  # noqa: S603 - the program of the driver
                [program, "-d", *(["--multiuser-server"] if os.geteuid() == 0 else [])],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                timeout=_TIMEOUT,
                check=False,
                umask=0o022,
            )
        if self._ask(program, "get_server_list") is not None:
            return ""
        said = output.read_text(encoding="utf-8", errors="replace").strip()[:300]
        return f"MPS does not start; it says: {said or 'nothing'}. Its logs are in {self.folder / 'log'}."

    def _note_devices(self) -> None:
        """Write down the devices of the daemon, so that one that is named later is not taken for one that it serves."""
        self._started_with.write_text("".join(f"{device}\n" for device in self.devices), encoding="utf-8")

    @property
    def _started_with(self) -> Path:
        """The file with the devices with which the daemon was started."""
        return self.folder / "devices"

    def _has_client(self, program: str) -> bool:
        """Return whether a program is a client of the daemon, or may be: the daemon does not say that none is."""
        servers = self._ask(program, "get_server_list")
        if servers is None or not all(word.isdecimal() for word in servers.split()):
            return True
        return any(self._ask(program, f"get_client_list {server}") != "" for server in servers.split())

    def _quits(self, program: str) -> bool:
        """Tell the daemon to end; return whether it has ended within a few seconds."""
        self._ask(program, "quit")
        for _ in range(_LOOKS):
            if self._ask(program, "get_server_list") is None:
                return True
            self.sleep(_BETWEEN_LOOKS)
        return False

    def _ask(self, program: str, command: str) -> str | None:
        """Give a command to the daemon, and return what it says; None if it does not answer."""
        asked = subprocess.run(  # noqa: S603 - the program of the driver
            [program],
            input=f"{command}\n".encode(),
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT,
            check=False,
        )
        return asked.stdout.decode(errors="replace").strip() if asked.returncode == 0 else None

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": ",".join(self.devices),
            "CUDA_MPS_PIPE_DIRECTORY": str(self.pipes),
            "CUDA_MPS_LOG_DIRECTORY": str(self.folder / "log"),
        }


def mps_environment(
    devices: Sequence[Device], milli: MilliGpu, *, served: Collection[str], pipes: Path
) -> dict[str, str]:
    """Return the variables by which the programs of a part of each of these devices are clients of MPS.

    `served` are the ids of the devices of the daemon, and `pipes` is its folder. There are no variables for whole
    devices, or if the daemon does not serve all of them.
    """
    if milli >= ONE_GPU or not devices or not all(device.id in served for device in devices):
        return {}
    limits = {device.id: watched_memory(device, milli) for device in devices}
    environment = {
        "CUDA_MPS_PIPE_DIRECTORY": str(pipes),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(max(1, milli * 100 // ONE_GPU)),
    }
    if all(limits.values()):
        named = ",".join(f"{id}={limit}M" for id, limit in limits.items())
        environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = named
    return environment
