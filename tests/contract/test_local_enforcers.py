"""Jobs of one machine with limits of the driver, and on devices that are shared by MPS."""

import pytest

from jupyter_gq.backends.memory_limits import DriverLimits
from jupyter_gq.backends.mps import MpsDevices
from jupyter_gq.devices.nvidia.mps import MpsDaemon
from tests.fakes.driver import DriverThatKeepsLimits
from tests.kubernetes.waiting import eventually

from .test_local_backend import environment, placed

pytestmark = pytest.mark.asyncio


async def test_limits_of_the_driver_follow_the_group_of_a_run_until_its_end(group_world):
    driver, workload = DriverThatKeepsLimits(), group_world.workload()
    limits = DriverLimits(
        limiter=driver, devices=["a", "b"], parent=None, awake=group_world.clock.awake, on_change=lambda: None
    )
    group_world.backend._limits = limits
    await group_world.launch(workload)
    await group_world.running(workload)
    (group,) = group_world.groups.glob(f"*{workload.id}*")

    def confirmed():
        limits.want(workload.id, 1, {"a": 1000})
        return limits.state(workload.id, 1).confirmed

    await eventually(confirmed, "the limit")
    assert driver.limits == {("a", str(group)): 1000}
    await group_world.backend.stop(workload.id, 1, group_world.grace)
    await group_world.end(workload)
    await eventually(lambda: not group.exists(), "the end of the group")
    assert driver.calls[-1] == ("a", None)


async def test_each_task_is_limited_by_mps_on_its_own_device_only(local):
    """What MPS told the notebook, from which the job was sent, is not for the job."""
    daemon = MpsDaemon(folder=local.folder, devices=["GPU-sim-0"])
    local.backend._launcher._mps = MpsDevices(daemon=daemon, awake=local.clock.awake, on_change=lambda: None)
    workload = placed(local.workload(gpus="0.25", tasks=2), ("GPU-sim-0",), ("GPU-sim-1",))
    local.prepare(workload, {}, {"environment": {"CUDA_MPS_PIPE_DIRECTORY": "/of/the/notebook"}})
    await local.launch(workload)
    seen = [environment(local, workload, task) for task in range(2)]
    assert seen[0]["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "GPU-sim-0=10240M"
    assert seen[0]["CUDA_MPS_PIPE_DIRECTORY"] == str(daemon.pipes)
    assert not [name for name in seen[1] if name.startswith("CUDA_MPS")]
