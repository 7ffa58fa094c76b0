"""Fake libraries of NVIDIA's driver, in C: the real pynvml and the real ctypes code run against them.

A library is found by its name when a process starts, so the code under test runs in a child process (`driver.py`).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from jupyter_gq.devices.checkpointer import CheckpointError, CheckpointProblem
from jupyter_gq.devices.linux.processes import read_process
from jupyter_gq.devices.nvidia.driver_limits import LimitError

from .wire import receive, send

HERE = Path(__file__).parent
LIBRARIES = {"libcuda.so.1": "libcuda.c", "libnvidia-ml.so.1": "libnvidia_ml.c"}
MIB = 1024 * 1024


def compiler() -> str | None:
    """Return the path of a C compiler; None if there is none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(folder: Path, *options: str) -> Path:
    """Compile the libraries into the folder, and return it; `-DOLD_DRIVER` leaves the suspension of processes out."""
    flags = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *options]
    for library, source in LIBRARIES.items():
        subprocess.run([str(compiler()), *flags, "-o", folder / library, HERE / source], check=True)
    return folder


class DriverMachine:
    """A machine with NVIDIA's driver: real, or one of fakes in `libraries`, with programs that hold device memory."""

    def __init__(self, environment: dict[str, str]) -> None:
        # The first device is the same for CUDA, which has the fastest first by default, and for NVML.
        self.environment = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", **environment}
        self.programs: dict[int, subprocess.Popen[str]] = {}
        self.drivers: list[Driver] = []

    def driver(self) -> "Driver":
        """Start a process with the probe and the checkpointer of the product."""
        self.drivers.append(Driver(self.environment))
        return self.drivers[-1]

    def start(self, mib: int, devices: Sequence[int] = (0,)):
        """Start a program that holds so much memory of each of these devices, and return its identity."""
        return self.run([sys.executable, str(HERE / "program.py"), *map(str, devices)], "hold", mib)

    def run(self, command: Sequence[str], *words: object):
        """Start a program, let it do something, and return its identity once that is done."""
        program = subprocess.Popen(
            command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.programs[program.pid] = program
        self.tell(program.pid, *words)
        found = read_process(program.pid)
        assert found is not None
        return found.id

    def tell(self, pid: int, *words: object) -> str:
        """Let a program do something, and return what it answers."""
        self.begin(pid, *words)
        return self.answer(pid)

    def begin(self, pid: int, *words: object) -> None:
        print(*words, file=self.programs[pid].stdin, flush=True)

    def answer(self, pid: int) -> str:
        return self.programs[pid].stdout.readline().strip()

    def end(self, pid: int) -> None:
        self.programs.pop(pid).communicate()

    def close(self) -> None:
        for program in self.programs.values():
            program.kill()
            program.communicate()
        for driver in self.drivers:
            driver.close()


class Driver:
    """The probe, the checkpointer and the limiter of the product, in a child process."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.driver_fakes.driver"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.probe = _Remote(self, "probe")
        self.checkpointer = _Remote(self, "checkpointer")
        self.limiter = _Remote(self, "limiter")
        #: The clock of the probe; `advance` takes seconds.
        self.clock = _Remote(self, "clock")

    def call(self, thing: str, name: str, arguments: tuple):
        """Call a method in the child, and return its result or raise its error."""
        send(self._child.stdin, (thing, name, arguments))
        kind, answer = receive(self._child.stdout)
        if kind == "error":
            raise CheckpointError(CheckpointProblem(answer[0]), answer[1])
        if kind == "limit error":
            raise LimitError(answer)
        return answer

    def close(self) -> None:
        self._child.communicate()


class _Remote:
    """An object in the child process."""

    def __init__(self, driver: Driver, thing: str) -> None:
        self._driver, self._thing = driver, thing

    def __getattr__(self, name: str):
        return lambda *arguments: self._driver.call(self._thing, name, arguments)
