"""The real probe, the real checkpointer and a real program work together on fakes of the driver's libraries."""

import select
import signal

import pynvml
import pytest

from jupyter_gq.devices.checkpointer import CheckpointError, CheckpointProblem
from jupyter_gq.devices.linux.signals import send_signal
from jupyter_gq.devices.memory_watchdog import Act, LimitedUse, Watched, WatchRule, judge
from jupyter_gq.devices.meter import ProbeMeter, Share
from jupyter_gq.devices.nvidia.driver_limits import LimitError
from jupyter_gq.devices.probe import ProbeState
from jupyter_gq.domain.amount import MiB, Seconds
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


def test_program_that_takes_managed_memory_cannot_be_suspended(world):
    """What tests of a real GPU do to cause that."""
    process, checkpointer = world.start(1000), world.checkpointer()
    world.machine.tell(process.pid, "manage", 16)
    checkpointer.lock(process, Seconds(1))
    with pytest.raises(CheckpointError) as found:
        checkpointer.checkpoint(process)
    assert found.value.problem is CheckpointProblem.UNSUPPORTED


def test_use_through_mps_is_an_obstacle(world):
    process = world.start(1000)
    assert world.probe.suspension_obstacle(world.devices[0], [process.pid]) is None
    assert not world.probe.usage(world.devices[0], [process.pid])[0].through_mps
    (world.folder / "mps").write_text(f"{process.pid}\n")
    assert "MPS" in world.probe.suspension_obstacle(world.devices[0], [process.pid])
    assert world.probe.usage(world.devices[0], [process.pid])[0].through_mps
    assert world.used(process) == 1000


@pytest.fixture
def limited(world, tmp_path):
    """Return the driver's limiter, and a control group."""
    if not hasattr(pynvml, "nvmlDeviceSetMemoryLimits_v1"):
        pytest.skip("the installed nvidia-ml-py does not know memory limits")
    group = tmp_path / "group"
    group.mkdir()
    return world.machine.driver().limiter, str(group)


def test_driver_limits_a_control_group_on_one_device_until_the_limit_is_cleared(world, limited):
    """The hard limit alone, in bytes: memory that is kept for a group could not be lent."""
    (limiter, group), (device, other) = limited, world.devices
    assert limiter.read_limit(device, group) is None
    limiter.set_limit(device, group, MiB(10_240))
    assert (world.folder / "limits").read_text() == f"0 0 {10_240 << 20} {group}\n"
    assert (limiter.read_limit(device, group), limiter.read_limit(other, group)) == (10_240, None)
    limiter.set_limit(device, group, None)
    assert limiter.read_limit(device, group) is None


@pytest.mark.parametrize(
    ("mark", "sentence"), [("user", "lets only root"), ("unlimited", "does not limit the memory of this GPU")]
)
def test_driver_that_refuses_a_limit_is_told_in_words(world, limited, mark, sentence):
    (world.folder / mark).touch()
    with pytest.raises(LimitError, match=sentence):
        limited[0].set_limit(world.devices[0], limited[1], MiB(10_240))


def test_group_without_a_memory_controller_is_told_in_words(world, limited):
    with pytest.raises(LimitError, match="controller dmem delegated"):
        limited[0].set_limit(world.devices[0], "/nowhere", MiB(10_240))


def test_watchdog_sums_the_programs_of_a_share_and_ends_only_the_largest(world):
    """Of three programs, two are the share's: the third one holds more, and is nobody's business."""
    largest, small, other = world.start(7000), world.start(3000), world.start(20_000)
    acts, state = [], Watched()
    for now in range(0, 160, 5):
        state, act = judge(state, [sample(world, largest, small)], float(now), WatchRule())
        if act is not None:
            acts.append((act, state.excess.used, state.excess.largest))
        if act is Act.KILL:
            assert send_signal(largest.pid, largest.ticks, signal.SIGKILL)
            world.machine.programs[largest.pid].wait()
    assert acts == [(act, 10_000, largest) for act in Act]
    assert (world.used(small), world.used(other)) == (3000, 20_000)
    assert state == Watched(known=True)


def test_watchdog_does_nothing_while_the_driver_has_lost_the_device(world):
    program = world.start(12_000)
    (world.folder / "lost").touch()
    state = Watched()
    for now in range(0, 600, 5):
        state, act = judge(state, [sample(world, program)], float(now), WatchRule())
        assert act is None
    assert not state.known


def sample(world, *programs):
    """Return the use of the first device by these programs, which may hold 8000 MiB of it."""
    share = Share(devices=world.devices[:1], pids=tuple(program.pid for program in programs))
    (use,) = ProbeMeter(world.probe).measure({"share": share})["share"].devices
    return LimitedUse(limit=MiB(8000), use=use)


def test_lost_device_is_a_state_and_its_memory_unknown(world):
    process = world.start(1000)
    (world.folder / "lost").touch()
    assert world.probe.status().state is ProbeState.LOST
    assert world.probe.usage(world.devices[0], [process.pid]) is None
    assert world.probe.free_memory(world.devices[0]) is None


def test_one_lost_device_takes_no_other_with_it(world, tmp_path):
    process = world.start(1000)
    driver, (kept, gone) = world.machine.driver(), world.devices
    assert driver.probe.status().detail == "2x Fake GPU"
    (world.folder / "lost").write_text("1\n")
    status = driver.probe.status()
    assert status.state is ProbeState.OK
    assert status.detail.startswith(f"1x Fake GPU. Not usable: the Fake GPU {gone}. A GPU fell off the bus")
    assert [device.uuid for device in driver.probe.devices()] == [kept]
    assert [use.memory for use in driver.probe.usage(kept, [process.pid])] == [1000]
    assert driver.probe.free_memory(kept) == 40960 - 1000
    assert driver.limiter.read_limit(kept, str(tmp_path)) is None
    assert driver.probe.usage(gone, [process.pid]) is None
    assert driver.probe.free_memory(gone) is None
    with pytest.raises(LimitError):
        driver.limiter.read_limit(gone, str(tmp_path))
    (world.folder / "lost").unlink()
    driver.clock.advance(60)
    assert driver.probe.status().state is ProbeState.OK  # the opening that has seen the loss ends
    assert driver.probe.status().detail == "2x Fake GPU"


def test_first_device_that_was_lost_before_the_service_began_is_told(world):
    (world.folder / "lost").write_text("0\n")
    driver = world.machine.driver()
    status = driver.probe.status()
    assert (status.state, [device.index for device in driver.probe.devices()]) == (ProbeState.OK, [1])
    assert "Not usable: another GPU. A GPU fell off the bus" in status.detail


def test_device_that_was_lost_is_found_again_by_the_same_process(world, tmp_path):
    """As after its reset: NVML tells nothing new until each opening of it, of the probe and the limiter, was closed."""
    process = world.start(1000)
    driver = world.machine.driver()
    for _ in range(2):
        assert driver.probe.status().state is ProbeState.OK
        assert driver.limiter.read_limit(world.devices[0], str(tmp_path)) is None
        (world.folder / "lost").touch()
        assert driver.probe.status().state is ProbeState.LOST
        (world.folder / "lost").unlink()
    assert driver.probe.status().state is ProbeState.OK
    assert [use.memory for use in driver.probe.usage(world.devices[0], [process.pid])] == [1000]
