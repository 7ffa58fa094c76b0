"""PyTorch on a real GPU: its state and its training survive a suspension to the last bit, and its cap holds.

PyTorch is looked for in the Python of the tests, or in the one that `JUPYTER_GQ_TORCH_PYTHON` names.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jupyter_gq.agent.clock import monotonic, now
from jupyter_gq.devices.limits import memory_quota, share_environment
from jupyter_gq.devices.linux.processes import boot_id
from jupyter_gq.devices.nvidia.cuda_checkpointer import CudaCheckpointer
from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from jupyter_gq.devices.suspension.host_memory import LinuxHostMemory
from jupyter_gq.devices.suspension.journal import FileJournal
from jupyter_gq.devices.suspension.share_suspender import ShareSuspender
from jupyter_gq.devices.suspension.suspender import SuspensionTarget
from jupyter_gq.devices.suspension.tree_steps import SuspensionLimits, Waiting
from jupyter_gq.domain.amount import MilliGpu
from jupyter_gq.domain.cluster import Device
from jupyter_gq.notebook import kernel_startup
from tests.driver_fakes import DriverMachine

PYTHON = os.environ.get("JUPYTER_GQ_TORCH_PYTHON", sys.executable)
PROGRAM = Path(__file__).with_name("torch_program.py")
PROBE = NvmlProbe(now=now)
SUPPORT = CudaCheckpointer(devices=lambda: []).support()


def missing():
    """Return what is missing on this machine; "" if nothing is."""
    found = subprocess.run(
        [PYTHON, "-c", "import torch; print(torch.cuda.is_available())"], capture_output=True, text=True, check=False
    )
    if found.stdout.strip() != "True":
        return f"{PYTHON} has no PyTorch that finds a GPU: name one that has it with JUPYTER_GQ_TORCH_PYTHON"
    return ""


if missing():
    pytest.skip(f"PyTorch cannot be tried on a GPU: {missing()}", allow_module_level=True)

needs_suspension = pytest.mark.skipif(not SUPPORT.available, reason=f"no suspension: {SUPPORT.detail}")


@pytest.fixture
def device():
    return PROBE.devices()[0]


@pytest.fixture
def machine(device):
    made = DriverMachine({"CUDA_VISIBLE_DEVICES": device.uuid})
    yield made
    made.close()


class SuspendedShare:
    """A share of the first device with one program, by the product's own suspender."""

    def __init__(self, program, device, folder):
        self.suspender = ShareSuspender(
            checkpointer=CudaCheckpointer(devices=lambda: tuple(each.uuid for each in PROBE.devices())),
            probe=PROBE,
            host=LinuxHostMemory(),
            journal=FileJournal(folder / "journal", boot=boot_id()),
            waiting=Waiting(monotonic=monotonic, sleep=time.sleep),
            limits=SuspensionLimits(),
        )
        self.target = SuspensionTarget(name="share", devices=(device.uuid,), find_processes=lambda: [program])

    def suspend(self):
        return self.suspender.suspend(self.target, lambda: False)

    def resume(self):
        self.suspender.resume("share", timeout=60)


@needs_suspension
@pytest.mark.parametrize("mib", [4096, 40960])
def test_state_of_torch_is_equal_to_the_last_bit_after_a_suspension(device, machine, tmp_path, mib):
    if PROBE.free_memory(device.uuid) < mib + 4096 or LinuxHostMemory().room([]).memory < mib + 4096:
        pytest.skip(f"the first GPU or the host memory has no room for {mib} MiB")
    program = machine.run([PYTHON, str(PROGRAM)], "hold", mib)
    before = machine.tell(program.pid, "digest")
    share = SuspendedShare(program, device, tmp_path)
    assert share.suspend().total >= mib
    share.resume()
    assert machine.tell(program.pid, "digest") == before


@needs_suspension
def test_losses_of_a_training_that_is_suspended_twice_are_those_of_one_that_is_not(device, machine, tmp_path):
    """Once between two steps, and once while it trains, wherever the driver stops it."""
    alone = machine.run([PYTHON, str(PROGRAM)], "hold", 0)
    losses = machine.tell(alone.pid, "train", 4000).split()
    program = machine.run([PYTHON, str(PROGRAM)], "hold", 0)
    share = SuspendedShare(program, device, tmp_path)
    found = machine.tell(program.pid, "train", 1000).split()
    share.suspend()
    share.resume()
    machine.begin(program.pid, "train", 3000)
    share.suspend()
    share.resume()
    found += machine.answer(program.pid).split()
    assert found == losses


def test_torch_that_takes_all_it_can_stays_within_its_share(device, machine):
    whole = Device(id=device.uuid, index=0, model=device.model, memory=device.memory, pool="")
    share = MilliGpu(100)
    quota = memory_quota(whole, share)
    if PROBE.free_memory(device.uuid) < quota + 4096:
        pytest.skip(f"the first GPU has no {quota + 4096} MiB of free memory")
    machine.environment |= share_environment([whole], share)
    program = machine.run([PYTHON, str(PROGRAM), kernel_startup.__file__], "hold", 0)
    taken = int(machine.tell(program.pid, "fill"))
    (use,) = PROBE.usage(device.uuid, [program.pid])
    assert quota // 2 < taken <= use.memory <= quota
