"""The real probe, the real checkpointer and a real program work together on fakes of the driver's libraries."""

import select

import pytest

from jupyter_gq.devices.probe import ProbeState
from jupyter_gq.domain.amount import Seconds
from tests.contract.test_checkpointer import FakeDriverWorld, libraries

__all__ = ["libraries"]


@pytest.fixture
def world(tmp_path, libraries):
    world = FakeDriverWorld(tmp_path, libraries)
    yield world
    world.close()


def test_probe_describes_the_devices(world):
    assert world.probe.status().state is ProbeState.OK
    assert [(each.uuid, each.model, each.memory) for each in world.probe.devices()] == [
        (device, "Fake GPU", 40960) for device in world.devices
    ]


def test_call_made_during_a_suspension_waits_and_is_then_answered(world):
    process, checkpointer = world.start(1000), world.checkpointer()
    world.machine.tell(process.pid, "write", 4711)
    checkpointer.lock(process, Seconds(1))
    checkpointer.checkpoint(process)
    world.machine.begin(process.pid, "read")
    answers = world.machine.programs[process.pid].stdout
    assert select.select([answers], [], [], 0.3)[0] == []
    checkpointer.restore(process, {})
    checkpointer.unlock(process)
    assert world.machine.answer(process.pid) == "4711"


def test_program_cannot_take_what_another_one_holds_until_that_is_suspended(world):
    first, second, checkpointer = world.start(30_000), world.start(10_000), world.checkpointer()
    checkpointer.lock(first, Seconds(1))
    checkpointer.checkpoint(first)
    world.machine.tell(second.pid, "hold", 35_000)
    assert world.used(second) == 35_000
    assert world.probe.free_memory(world.devices[0]) == 5_960


def test_use_through_mps_is_an_obstacle(world):
    process = world.start(1000)
    assert world.probe.suspension_obstacle(world.devices[0], [process.pid]) is None
    (world.folder / "mps").write_text(f"{process.pid}\n")
    assert "MPS" in world.probe.suspension_obstacle(world.devices[0], [process.pid])
    assert world.used(process) == 1000


def test_lost_device_is_a_state_and_its_memory_unknown(world):
    process = world.start(1000)
    (world.folder / "lost").touch()
    assert world.probe.status().state is ProbeState.LOST
    assert world.probe.usage(world.devices[0], [process.pid]) is None
    assert world.probe.free_memory(world.devices[0]) is None
