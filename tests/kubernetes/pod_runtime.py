"""The processes of a node's pods: what a container runtime is to a kubelet. It survives its kubelet."""

import contextlib
import datetime
import os
import shlex
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tests.kept_logs import LOGS
from tests.kubernetes.marks import end_marked, marked
from tests.kubernetes.programs import ROOT

#: In the environment of every process of a pod; the agent knows it too.
POD_MARK = "JUPYTER_GQ_POD_UID"
#: In the environment of every process of a container.
_CONTAINER_MARK = "JUPYTER_GQ_TEST_CONTAINER"
#: Bytes of the termination message, and of the log where it stands in for one.
_MESSAGE, _LOG_TAIL = 4096, 2048


def now() -> str:
    """The time of an event, as the API wants it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: TID251 - the API's timestamps


@dataclass(kw_only=True)
class Container:
    """One container of a pod: its process, and the folder around it."""

    #: The pod that it is of.
    uid: str
    namespace: str
    pod: str
    #: Its name in the pod.
    name: str
    #: Its image.
    image: str
    #: Everything on this machine that belongs to the container.
    folder: Path
    #: Everything on this machine that belongs to the pod.
    pod_folder: Path
    #: The pod's address.
    address: str
    #: What the device plugin gave to the pod, by resource.
    devices: dict[str, list[str]] = field(default_factory=dict)
    #: What is run, once it is known.
    command: list[str] = field(default_factory=list)
    #: The whole environment of the process.
    environment: dict[str, str] = field(default_factory=dict)
    #: Where the process begins.
    workdir: Path | None = None
    #: How often it was started again.
    restarts: int = 0
    #: Begin and end of the present process.
    started: str = ""
    finished: str = ""
    process: subprocess.Popen | None = None
    #: What its readiness probe says; without one, it is ready as long as it runs.
    ready: bool = True
    #: Its pod is at its end: its devices are free.
    over: bool = False
    #: Of the main container: the other ones that run, in the order of the spec, native sidecars last.
    beside: list["Container"] = field(default_factory=list)
    #: An init container that is always restarted: it is told to end when the others have ended.
    native: bool = False

    def given(self, resource: str) -> list[str]:
        """Devices of this resource."""
        return self.devices.get(resource, [])

    @property
    def path(self) -> str:
        """Where the logs of a failed test are, below the folder of the test."""
        return f"pods/{self.namespace}/{self.pod}/{self.name}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def termination_log(self) -> Path:
        return self.folder / "termination-log"

    def start(self, ended) -> None:
        """Start the process; `ended()` is called in another thread when it has ended."""
        self.termination_log.write_bytes(b"")
        LOGS.add(self.path, self.folder, "log", "termination-log")
        with self.log.open("ab") as log:
            try:
                self.process = subprocess.Popen(
                    self.command,
                    cwd=self.workdir or self.folder,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                log.write(f"{error}\n".encode())
                self.process = subprocess.Popen(["/bin/sh", "-c", "exit 127"])
        self.started, self.finished = now(), ""
        self.listen(ended)

    def listen(self, ended) -> None:
        """Call `ended()` when the process has ended: for the kubelet that adopts it."""
        threading.Thread(target=self._wait, args=(ended,), daemon=True).start()

    def _wait(self, ended) -> None:
        self.process.wait()
        self.finished = self.finished or now()
        LOGS.release(self.path, self.folder)
        ended()

    @property
    def code(self) -> int | None:
        """The exit code as a container has it; None while it runs."""
        code = self.process.poll() if self.process else None
        return code if code is None or code >= 0 else 128 - code

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Only the first process gets it, as in a container."""
        if self.process and self.code is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    def sweep(self) -> None:
        """Nothing outlives the first process of a container, whatever session it has made for itself."""
        end_marked(self.mark)

    @property
    def mark(self) -> str:
        return f"{_CONTAINER_MARK}={self.uid}/{self.name}"

    @property
    def everything(self) -> list["Container"]:
        """This container and those beside it."""
        return [self, *self.beside]

    def processes(self) -> list[int]:
        """Everything that runs for the pod."""
        return marked(f"{POD_MARK}={self.uid}")

    def message(self, policy: str) -> str:
        """What the process left behind about its end."""
        with contextlib.suppress(OSError):
            if text := self.termination_log.read_bytes()[:_MESSAGE].decode(errors="replace"):
                return text
        if policy == "FallbackToLogsOnError" and self.code and self.log.exists():
            return self.log.read_bytes()[-_LOG_TAIL:].decode(errors="replace")
        return ""


class Runtime:
    """The containers of one node, by the uid of their pod."""

    def __init__(self, folder: Path, environment: dict[str, str], python: str) -> None:
        self.folder = folder
        self.python = python
        self.containers: dict[str, Container] = {}
        self._environment = environment

    def active(self) -> list[Container]:
        """Those whose pods have not ended."""
        return [container for container in list(self.containers.values()) if not container.over]

    def environment(self, container: Container, image: str) -> dict[str, str]:
        """What every process has, before its pod says anything: nothing of this test session but its marks."""
        paths = [Path(self.python).parent, "/usr/local/bin", "/usr/bin", "/bin"]
        known = {"PYTHONPATH": str(ROOT)}
        if "no-runner" in image:
            known, paths = {}, [self._bare_python(), *paths[1:]]
        home = container.folder / "home"
        home.mkdir(exist_ok=True)
        path = os.pathsep.join(map(str, paths))
        name, value = container.mark.split("=")
        marks = {POD_MARK: container.uid, name: value}
        return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", **marks, **known, **self._environment}

    def found(self, word: str, image: str) -> str:
        """The program that this word means in that image."""
        if word in ("python", "python3"):
            return str(self._bare_python() / "python") if "no-runner" in image else self.python
        beside = Path(self.python).parent / word
        return str(beside) if "/" not in word and beside.exists() and "no-runner" not in image else word

    def _bare_python(self) -> Path:
        """A folder with a python that has the standard library and nothing else."""
        folder = self.folder / "bare-python"
        folder.mkdir(exist_ok=True)
        for name in ("python", "python3"):
            file = folder / name
            if not file.exists():
                file.write_text(f'#!/bin/sh\nexec {shlex.quote(self.python)} -S -I "$@"\n')
                file.chmod(0o755)
        return folder

    def end(self) -> None:
        """Kill everything."""
        for container in [each for main in list(self.containers.values()) for each in main.everything]:
            container.signal(signal.SIGKILL)
            container.sweep()
            if container.process:
                container.process.wait()
            LOGS.release(container.path, container.folder)
