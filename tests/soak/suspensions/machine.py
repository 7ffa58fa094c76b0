"""The machine of the soak: its driver and the programs that hold device memory. Both outlive every service."""

import os
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.devices.checkpointer import Checkpointer, CheckpointError, CheckpointProblem, CheckpointState
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.nvidia.cuda_checkpointer import CudaCheckpointer
from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.devices.simulated.memory import SimulatedFault, clear_fault, set_fault
from tests.contract.test_checkpointer import FakeDriverWorld, SimulatedWorld
from tests.driver_fakes import DriverMachine

#: MiB of each device.
CAPACITY = 40_960
#: Variable that names the folder of the state of the fake driver.
DRIVER_FOLDER = "GQ_FAKE_DRIVER"


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that holds device memory, and a number in it if the driver keeps content."""

    id: ProcessId
    #: MiB that it holds on each of its devices.
    mib: int
    number: int
    #: The indexes of its devices.
    on: tuple[int, ...] = (0,)


class Machine(ABC):
    """A machine with two devices; `start_program` and `kill` are the only acts on it."""

    probe: DeviceProbe
    checkpointer: Checkpointer
    devices: tuple[str, ...]

    @abstractmethod
    def start_program(self, mib: int, number: int, on: tuple[int, ...] = (0,)) -> Program:
        """Start a program that holds so much memory of each of these devices, with this number in it."""

    @abstractmethod
    def kill(self, program: Program) -> None:
        """Kill a program unless it is dead already, and wait until the system has forgotten it."""

    @abstractmethod
    def trouble(self, program: Program, index: int, *, busy: bool) -> None:
        """Let the GPU work of a program never end if `busy`, else let a device (or all) fall off the bus."""

    @abstractmethod
    def mend(self) -> None:
        """End all troubles."""

    @abstractmethod
    def content_of(self, program: Program) -> int:
        """Return the number in the memory of a program that runs."""

    @abstractmethod
    def close(self) -> None:
        """End all programs."""

    def state_of(self, program: Program) -> CheckpointState | None:
        """Return the state of a program as the driver knows it; None if it has ended."""
        try:
            return self.checkpointer.state(program.id)
        except CheckpointError as error:
            if error.problem is not CheckpointProblem.NO_PROCESS:
                raise
            return None

    def used(self, device: str) -> int:
        """Return the MiB of a device that are not free, as the probe shows them."""
        self.probe.devices()  # finds again what was lost
        free = self.probe.free_memory(device)
        assert free is not None
        return CAPACITY - free


class FakeDriverMachine(Machine):
    """A machine with the fakes of the driver's libraries, which this process must have been started with."""

    devices = FakeDriverWorld.devices

    def __init__(self) -> None:
        self._folder = Path(os.environ[DRIVER_FOLDER])
        self._machine = DriverMachine({})
        # A clock that is much too fast: the probe looks for a lost device once in a minute.
        self.probe = NvmlProbe(now=lambda: time.monotonic() * 600)  # noqa: TID251
        self.checkpointer = CudaCheckpointer(devices=lambda: [each.uuid for each in self.probe.devices()])

    def start_program(self, mib: int, number: int, on: tuple[int, ...] = (0,)) -> Program:
        process = self._machine.start(mib, on)
        self._machine.tell(process.pid, "write", number)
        return Program(id=process, mib=mib, number=number, on=on)

    def kill(self, program: Program) -> None:
        child = self._machine.programs.pop(program.id.pid)
        child.kill()
        child.wait()
        # The fake knows processes by their ids only, which the system will use again.
        (self._folder / str(program.id.pid)).unlink(missing_ok=True)

    def trouble(self, program: Program, index: int, *, busy: bool) -> None:
        if busy:
            (self._folder / f"{program.id.pid}.busy").touch()
        else:
            (self._folder / "lost").write_text(f"{index}\n")

    def mend(self) -> None:
        for mark in [self._folder / "lost", *self._folder.glob("*.busy")]:
            mark.unlink(missing_ok=True)

    def content_of(self, program: Program) -> int:
        return int(self._machine.tell(program.id.pid, "read"))

    def close(self) -> None:
        self._machine.close()


class SimulatedMachine(Machine):
    """A machine with simulated devices, which have no content."""

    devices = SimulatedWorld.devices

    def __init__(self) -> None:
        self._world = SimulatedWorld()
        self.probe, self.checkpointer = self._world.probe, self._world.checkpointer()
        self._numbers: dict[ProcessId, int] = {}

    def start_program(self, mib: int, number: int, on: tuple[int, ...] = (0,)) -> Program:
        program = Program(id=self._world.start(mib, on), mib=mib, number=number, on=on)
        self._numbers[program.id] = number
        return program

    def kill(self, program: Program) -> None:
        (child,) = (each for each in self._world.kernels if each.pid == program.id.pid)
        self._world.kernels.remove(child)
        child.kill()
        child.wait()

    def trouble(self, program: Program, index: int, *, busy: bool) -> None:
        if busy:
            set_fault(SimulatedFault.LOCK_TIMEOUT, [program.id.pid])
        else:
            set_fault(SimulatedFault.NVML_LOST)

    def mend(self) -> None:
        for fault in (SimulatedFault.LOCK_TIMEOUT, SimulatedFault.NVML_LOST):
            clear_fault(fault)

    def content_of(self, program: Program) -> int:
        return self._numbers[program.id]

    def close(self) -> None:
        self._world.close()


#: The machines by the names under which `python -m tests.soak.suspensions` knows them.
MACHINES: dict[str, type[Machine]] = {"fakes": FakeDriverMachine, "simulated": SimulatedMachine}
