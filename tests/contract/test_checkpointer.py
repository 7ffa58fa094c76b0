"""Every checkpointer takes a process through the same states, gives its memory back, and refuses what it must."""

import os
import subprocess
import sys

import pytest

from jupyter_gq.devices.checkpointer import CheckpointError, CheckpointProblem, CheckpointState
from jupyter_gq.devices.linux.processes import ProcessId, read_process
from jupyter_gq.devices.probe import ProbeState
from jupyter_gq.devices.simulated.checkpointer import SimulatedCheckpointer
from jupyter_gq.devices.simulated.devices import SimulatedProbe, parse_devices
from jupyter_gq.devices.simulated.memory import SimulatedFault, clear_fault, set_fault
from jupyter_gq.domain.amount import Seconds
from tests.driver_fakes import DriverMachine, build, compiler

#: Uses the memory that its input says, as a kernel does.
KERNEL = """
import sys, jupyter_gq
for line in sys.stdin:
    jupyter_gq.simulate_memory(int(line))
    print("done", flush=True)
"""


class SimulatedWorld:
    """A machine with two simulated devices and processes on the first one."""

    devices = ("GPU-sim-0", "GPU-sim-1")
    #: MiB by which the figures of the probe may differ from what is expected.
    tolerance = 0

    def __init__(self):
        self.slept = []
        self.probe = SimulatedProbe(parse_devices("2x A100-40GB"), why="test.", now=lambda: 1000.0)
        self.kernels = []

    def checkpointer(self):
        """Return a new checkpointer, as a restarted service has it."""
        return SimulatedCheckpointer(self.probe, sleep=self.slept.append)

    def start(self, mib, devices=(0,)):
        """Start a process that uses `mib` MiB of each of these devices."""
        kernel = subprocess.Popen(
            [sys.executable, "-c", KERNEL],
            env={**os.environ, "JUPYTER_GQ_DEVICES": ",".join(self.devices[index] for index in devices)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.kernels.append(kernel)
        print(mib, file=kernel.stdin, flush=True)
        assert kernel.stdout.readline() == "done\n"
        return read_process(kernel.pid).id

    def end(self, process):
        (kernel,) = (each for each in self.kernels if each.pid == process.pid)
        kernel.communicate()

    def fail(self, fault, process):
        set_fault(fault, [] if fault is SimulatedFault.NVML_LOST else [process.pid])

    def mend(self, fault):
        clear_fault(fault)

    def fill(self):
        """Fill the first device, but for less than the process of a test needs."""
        self.start(self.probe.free_memory(self.devices[0]) - 999)

    def used(self, process, device=0):
        """Return the MiB of a device that the probe shows for the process."""
        return sum(use.memory for use in self.probe.usage(self.devices[device], [process.pid]))

    def close(self):
        for kernel in self.kernels:
            kernel.communicate()


class FakeDriverWorld:
    """A machine with fakes of the driver's libraries, on which the real probe and the real checkpointer run."""

    devices = tuple(f"GPU-00000000-0000-0000-0000-00000000000{index}" for index in (1, 2))
    tolerance = 0
    _marks = {
        SimulatedFault.LOCK_TIMEOUT: "busy",
        SimulatedFault.MANAGED_MEMORY: "managed",
        SimulatedFault.RESTORE_OOM: "oom",
    }

    def __init__(self, folder, libraries):
        self.folder = folder
        (folder / "devices").write_text("".join(f"{device} {40960 << 20}\n" for device in self.devices))
        self.machine = DriverMachine({"GQ_FAKE_DRIVER": str(folder), "LD_LIBRARY_PATH": str(libraries)})
        self.start, self.close = self.machine.start, self.machine.close
        self.probe = self.machine.driver().probe

    def checkpointer(self):
        return self.machine.driver().checkpointer

    def end(self, process):
        self.machine.end(process.pid)

    def fail(self, fault, process):
        if fault is SimulatedFault.PID_RECYCLED:
            pytest.skip("the real ids of processes are read; see test_recycled_id_is_refused")
        self._place(fault, process.pid).touch()

    def mend(self, fault):
        for mark in self.folder.glob(self._place(fault, "*").name):
            mark.unlink()

    def _place(self, fault, pid):
        return self.folder / ("lost" if fault is SimulatedFault.NVML_LOST else f"{pid}.{self._marks[fault]}")

    used, fill = SimulatedWorld.used, SimulatedWorld.fill


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """Return the folder of the compiled fake libraries."""
    if compiler() is None:
        pytest.skip("there is no C compiler for the fake libraries of the driver")
    return build(tmp_path_factory.mktemp("driver"))


@pytest.fixture(params=["simulated", "driver fakes"])
def world(request, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    if request.param == "simulated":
        world = SimulatedWorld()
    else:
        world = FakeDriverWorld(tmp_path, request.getfixturevalue("libraries"))
    yield world
    world.close()


@pytest.fixture
def process(world):
    return world.start(1000)


@pytest.fixture
def checkpointer(world):
    return world.checkpointer()


def suspend(checkpointer, process):
    checkpointer.lock(process, Seconds(1))
    checkpointer.checkpoint(process)


def refused(problem, call, *arguments):
    """Check that a call is refused for this reason, with a sentence."""
    with pytest.raises(CheckpointError) as found:
        call(*arguments)
    assert found.value.problem is problem
    assert str(found.value).endswith(".")


def test_support_says_what_the_machine_can_do(checkpointer):
    support = checkpointer.support()
    assert support.available
    assert support.detail.endswith(".")


def test_process_goes_through_the_states(checkpointer, process):
    assert checkpointer.state(process) is CheckpointState.RUNNING
    checkpointer.lock(process, Seconds(1))
    assert checkpointer.state(process) is CheckpointState.LOCKED
    checkpointer.checkpoint(process)
    assert checkpointer.state(process) is CheckpointState.CHECKPOINTED
    checkpointer.restore(process, {})
    assert checkpointer.state(process) is CheckpointState.LOCKED
    checkpointer.unlock(process)
    assert checkpointer.state(process) is CheckpointState.RUNNING


def is_free(world, memory, device=0):
    """Tell whether the probe shows so many MiB as free on a device."""
    return abs(world.probe.free_memory(world.devices[device]) - memory) <= world.tolerance


def test_memory_leaves_the_device_and_comes_back(world, checkpointer, process):
    free, held = world.probe.free_memory(world.devices[0]), world.used(process)
    assert held == 1000 or (world.tolerance and held > 1000)
    suspend(checkpointer, process)
    assert world.used(process) == 0
    assert is_free(world, free + held)
    checkpointer.restore(process, {})
    assert abs(world.used(process) - held) <= world.tolerance
    assert is_free(world, free)


def test_memory_can_come_back_on_another_device(world, checkpointer, process):
    if not checkpointer.support().can_move or len(world.devices) < 2:
        pytest.skip("this machine cannot move the state of a process to another device")
    first, second = world.devices[:2]
    free, held = [world.probe.free_memory(device) for device in (first, second)], world.used(process)
    for moves in ({first: second}, {second: first}):
        suspend(checkpointer, process)
        checkpointer.restore(process, moves)
        checkpointer.unlock(process)
        if moves == {first: second}:
            assert world.used(process, 0) == 0
            assert abs(world.used(process, 1) - held) <= world.tolerance
            assert is_free(world, free[0] + held, 0)
            assert is_free(world, free[1] - held, 1)
    assert is_free(world, free[0], 0)
    assert is_free(world, free[1], 1)


def test_program_on_two_devices_leaves_both_and_comes_back_to_both(world, checkpointer):
    if len(world.devices) < 2:
        pytest.skip("this machine has one device")
    program, devices = world.start(1000, (0, 1)), (0, 1)
    held = [world.used(program, device) for device in devices]
    free = [world.probe.free_memory(world.devices[device]) for device in devices]
    assert all(held)
    suspend(checkpointer, program)
    assert [world.used(program, device) for device in devices] == [0, 0]
    assert all(is_free(world, free[device] + held[device], device) for device in devices)
    checkpointer.restore(program, {})
    assert all(abs(world.used(program, device) - held[device]) <= world.tolerance for device in devices)


def test_state_outlives_the_program_that_caused_it(world, process):
    suspend(world.checkpointer(), process)
    successor = world.checkpointer()
    assert successor.uses_device(process)
    assert successor.state(process) is CheckpointState.CHECKPOINTED
    assert world.used(process) == 0
    successor.restore(process, {})
    successor.unlock(process)


def test_call_in_another_state_is_refused_and_changes_nothing(checkpointer, process):
    for call in (checkpointer.checkpoint, checkpointer.unlock, lambda each: checkpointer.restore(each, {})):
        refused(CheckpointProblem.WRONG_STATE, call, process)
        assert checkpointer.state(process) is CheckpointState.RUNNING
    checkpointer.lock(process, Seconds(1))
    refused(CheckpointProblem.WRONG_STATE, checkpointer.lock, process, Seconds(1))
    assert checkpointer.state(process) is CheckpointState.LOCKED


def test_process_that_has_not_opened_the_driver_is_none_of_its(checkpointer):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as program:
        other = read_process(program.pid).id
        assert not checkpointer.uses_device(other)
        refused(CheckpointProblem.NO_PROCESS, checkpointer.state, other)
        refused(CheckpointProblem.NO_PROCESS, checkpointer.lock, other, Seconds(1))
        program.communicate(b"\n")


def test_recycled_id_is_refused(checkpointer, process):
    earlier = ProcessId(process.pid, process.ticks - 1)
    assert not checkpointer.uses_device(earlier)
    refused(CheckpointProblem.NO_PROCESS, checkpointer.lock, earlier, Seconds(1))
    assert checkpointer.state(process) is CheckpointState.RUNNING


def test_id_that_is_recycled_during_a_suspension_is_refused(world, checkpointer, process):
    suspend(checkpointer, process)
    world.fail(SimulatedFault.PID_RECYCLED, process)
    assert not checkpointer.uses_device(process)
    for call in (checkpointer.state, checkpointer.unlock, lambda each: checkpointer.restore(each, {})):
        refused(CheckpointProblem.NO_PROCESS, call, process)
    world.mend(SimulatedFault.PID_RECYCLED)
    assert checkpointer.state(process) is CheckpointState.CHECKPOINTED


def test_lost_devices_are_a_state_and_what_they_hold_is_unknown(world, process):
    device, held = world.devices[0], world.used(process)
    world.fail(SimulatedFault.NVML_LOST, process)
    assert world.probe.usage(device, [process.pid]) is None
    assert world.probe.free_memory(device) is None
    assert (world.probe.status().state, world.probe.devices()) == (ProbeState.LOST, ())
    world.mend(SimulatedFault.NVML_LOST)
    assert world.probe.status().state is ProbeState.OK
    assert world.used(process) == held


def test_process_that_has_ended_is_refused(world, checkpointer, process):
    suspend(checkpointer, process)
    world.end(process)
    assert not checkpointer.uses_device(process)
    refused(CheckpointProblem.NO_PROCESS, checkpointer.restore, process, {})


def test_lock_that_times_out_leaves_the_process_running(world, checkpointer, process):
    world.fail(SimulatedFault.LOCK_TIMEOUT, process)
    refused(CheckpointProblem.BUSY, checkpointer.lock, process, Seconds(0.1))
    assert checkpointer.state(process) is CheckpointState.RUNNING
    world.mend(SimulatedFault.LOCK_TIMEOUT)
    checkpointer.lock(process, Seconds(1))


def test_managed_memory_is_not_supported(world, checkpointer, process):
    world.fail(SimulatedFault.MANAGED_MEMORY, process)
    checkpointer.lock(process, Seconds(1))
    refused(CheckpointProblem.UNSUPPORTED, checkpointer.checkpoint, process)
    assert checkpointer.state(process) in (CheckpointState.LOCKED, CheckpointState.FAILED)


def test_restore_without_room_loses_the_process(world, checkpointer, process):
    suspend(checkpointer, process)
    world.fail(SimulatedFault.RESTORE_OOM, process)
    refused(CheckpointProblem.OUT_OF_MEMORY, checkpointer.restore, process, {})
    world.mend(SimulatedFault.RESTORE_OOM)
    refused(CheckpointProblem.LOST, checkpointer.restore, process, {})


def test_restore_onto_a_full_device_loses_the_process(world, checkpointer, process):
    suspend(checkpointer, process)
    world.fill()
    refused(CheckpointProblem.OUT_OF_MEMORY, checkpointer.restore, process, {})
