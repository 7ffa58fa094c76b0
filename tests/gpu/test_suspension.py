"""The contract of checkpointers on a real GPU, and a whole share that is suspended and resumed there.

Programs of these tests hold a few GiB of the first GPU. Failures that cannot be caused without harm, such as a restore
without memory, are left to the fakes of the driver.
"""

import select
import time
from datetime import UTC, datetime

import pytest

from jupyter_gq.agent.clock import monotonic, now
from jupyter_gq.devices.abilities import Machine
from jupyter_gq.devices.linux.processes import boot_id
from jupyter_gq.devices.nvidia.cuda_checkpointer import CudaCheckpointer
from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from jupyter_gq.devices.simulated.memory import SimulatedFault
from jupyter_gq.devices.suspension.host_memory import LinuxHostMemory
from jupyter_gq.devices.suspension.journal import FileJournal
from jupyter_gq.devices.suspension.share_suspender import ShareSuspender
from jupyter_gq.devices.suspension.suspender import SuspensionTarget
from jupyter_gq.devices.suspension.tree_steps import SuspensionLimits, Waiting
from tests.contract.test_checkpointer import *  # noqa: F403 - the same contract as for simulation and fakes
from tests.contract.test_checkpointer import SimulatedWorld
from tests.driver_fakes import DriverMachine

SUPPORT = CudaCheckpointer(devices=lambda: []).support()
if not SUPPORT.available:
    pytest.skip(f"this GPU cannot suspend: {SUPPORT.detail}", allow_module_level=True)


class GpuWorld:
    """This machine, with programs that hold memory of its first GPU."""

    #: MiB; other programs of the machine and the driver itself may take or give back a little meanwhile.
    tolerance = 64

    def __init__(self):
        self.machine = DriverMachine({})
        self.start, self.close = self.machine.start, self.machine.close
        self.probe = NvmlProbe(now=now)
        self.devices = tuple(device.uuid for device in self.probe.devices())

    def checkpointer(self):
        return CudaCheckpointer(devices=lambda: self.devices)

    def end(self, process):
        self.machine.end(process.pid)

    def fail(self, fault, process):
        if fault is not SimulatedFault.MANAGED_MEMORY:
            pytest.skip(f"{fault.value} is not caused on a real GPU")
        self.machine.tell(process.pid, "manage", 16)

    def fill(self):
        pytest.skip("a restore without memory is not tried on a real GPU")

    used = SimulatedWorld.used


@pytest.fixture
def world():
    world = GpuWorld()
    yield world
    world.close()


#: GB/s that a suspension and a resume should reach.
GOAL = 10.0


def describe_limit(slowest: float, plain: float) -> str:
    """Return what keeps a suspension or a resume below the goal, by the speed of a plain copy to host memory."""
    if slowest >= GOAL:
        return "the goal is met"
    return "the bus or the host memory: a plain copy is as slow" if plain <= 1.25 * slowest else "the driver"


@pytest.mark.parametrize("mib", [2048, 20480])
def test_share_of_two_programs_is_suspended_and_resumed_with_its_content(world, tmp_path, mib, capsys):
    device = world.devices[0]
    if world.probe.free_memory(device) < 2 * mib + 4096 or LinuxHostMemory().room([]).memory < 2 * mib + 4096:
        pytest.skip(f"the first GPU or the host memory has no room for {2 * mib} MiB")
    programs = [world.start(mib), world.start(mib)]
    for number, program in enumerate(programs):
        world.machine.tell(program.pid, "write", 4711 + number)
    began = monotonic()
    world.machine.tell(programs[0].pid, "copy", mib)
    plain = monotonic() - began
    suspender = ShareSuspender(
        checkpointer=world.checkpointer(),
        probe=world.probe,
        host=LinuxHostMemory(),
        journal=FileJournal(tmp_path / "journal", boot=boot_id()),
        waiting=Waiting(monotonic=monotonic, sleep=time.sleep),
        limits=SuspensionLimits(),
    )
    target = SuspensionTarget(name="share", devices=(device,), find_processes=lambda: programs)
    began = monotonic()
    found = suspender.suspend(target, lambda: False)
    out = monotonic() - began
    assert found.total >= 2 * mib
    assert world.used(programs[0]) == world.used(programs[1]) == 0
    for program in programs:
        world.machine.begin(program.pid, "read")
    answers = [world.machine.programs[program.pid].stdout for program in programs]
    assert select.select(answers, [], [], 1)[0] == []
    began = monotonic()
    suspender.resume("share", timeout=10)
    back = monotonic() - began
    assert [world.machine.answer(program.pid) for program in programs] == ["4711", "4712"]
    copied, moved = (size * 2**20 / 1e9 for size in (mib, found.total))
    speeds = [moved / out, moved / back, copied / plain]
    date, model = datetime.fromtimestamp(now(), UTC).date(), world.probe.devices()[0].model
    figures = [f"{figure:.1f}" for figure in (moved, *speeds)]
    limit = describe_limit(min(speeds[:2]), speeds[2])
    cells = [date.isoformat(), model, str(Machine().driver_version()), *figures, limit]
    with capsys.disabled():
        print(f"\n| {' | '.join(cells)} |")
