"""The machine of the soak: its driver and the programs that hold device memory. Both outlive every service."""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.devices.checkpointer import Checkpointer, CheckpointError, CheckpointProblem, CheckpointState
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.nvidia.cuda_checkpointer import CudaCheckpointer
from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from jupyter_gq.devices.probe import DeviceProbe
from tests.contract.test_checkpointer import FakeDriverWorld, SimulatedWorld
from tests.driver_fakes import DriverMachine

#: MiB of the device on which all programs are.
CAPACITY = 40_960
#: Variable that names the folder of the state of the fake driver.
DRIVER_FOLDER = "GQ_FAKE_DRIVER"


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that holds device memory, and a number in it if the driver keeps content."""

    id: ProcessId
    mib: int
    number: int


class Machine(ABC):
    """A machine with one device that is used; `start_program` and `kill` are the only acts on it."""

    probe: DeviceProbe
    checkpointer: Checkpointer
    device: str

    @abstractmethod
    def start_program(self, mib: int, number: int) -> Program:
        """Start a program that holds so much memory with this number in it."""

    @abstractmethod
    def kill(self, program: Program) -> None:
        """Kill a program unless it is dead already, and wait until the system has forgotten it."""

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

    def used(self) -> int:
        """Return the MiB of the device that are not free, as the probe shows them."""
        free = self.probe.free_memory(self.device)
        assert free is not None
        return CAPACITY - free


class FakeDriverMachine(Machine):
    """A machine with the fakes of the driver's libraries, which this process must have been started with."""

    device = FakeDriverWorld.devices[0]

    def __init__(self) -> None:
        self._folder = Path(os.environ[DRIVER_FOLDER])
        self._machine = DriverMachine({})
        self.probe = NvmlProbe(now=lambda: 1000.0)
        self.checkpointer = CudaCheckpointer(devices=lambda: [each.uuid for each in self.probe.devices()])

    def start_program(self, mib: int, number: int) -> Program:
        process = self._machine.start(mib)
        self._machine.tell(process.pid, "write", number)
        return Program(id=process, mib=mib, number=number)

    def kill(self, program: Program) -> None:
        child = self._machine.programs.pop(program.id.pid)
        child.kill()
        child.wait()
        # The fake knows processes by their ids only, which the system will use again.
        (self._folder / str(program.id.pid)).unlink(missing_ok=True)

    def content_of(self, program: Program) -> int:
        return int(self._machine.tell(program.id.pid, "read"))

    def close(self) -> None:
        self._machine.close()


class SimulatedMachine(Machine):
    """A machine with simulated devices, which have no content."""

    device = SimulatedWorld.devices[0]

    def __init__(self) -> None:
        self._world = SimulatedWorld()
        self.probe, self.checkpointer = self._world.probe, self._world.checkpointer()
        self._numbers: dict[ProcessId, int] = {}

    def start_program(self, mib: int, number: int) -> Program:
        program = Program(id=self._world.start(mib), mib=mib, number=number)
        self._numbers[program.id] = number
        return program

    def kill(self, program: Program) -> None:
        (child,) = (each for each in self._world.kernels if each.pid == program.id.pid)
        self._world.kernels.remove(child)
        child.kill()
        child.wait()

    def content_of(self, program: Program) -> int:
        return self._numbers[program.id]

    def close(self) -> None:
        self._world.close()


#: The machines by the names under which `python -m tests.soak.suspensions` knows them.
MACHINES: dict[str, type[Machine]] = {"fakes": FakeDriverMachine, "simulated": SimulatedMachine}
