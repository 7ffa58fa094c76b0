"""The choices that depend on the devices: the driver's, or simulated ones; and how their shares are suspended."""

import time
from collections.abc import Callable
from pathlib import Path

from jupyter_gq.devices.linux.processes import boot_id
from jupyter_gq.devices.nvidia.cuda_checkpointer import CudaCheckpointer
from jupyter_gq.devices.nvidia.driver_limits import MemoryLimiter, NoLimiter, NvmlLimiter
from jupyter_gq.devices.simulated.checkpointer import SimulatedCheckpointer
from jupyter_gq.devices.simulated.devices import SimulatedDevices, SimulatedProbe
from jupyter_gq.devices.suspension.host_memory import HostMemory, LinuxHostMemory, SimulatedHostMemory
from jupyter_gq.devices.suspension.journal import FileJournal
from jupyter_gq.devices.suspension.share_suspender import ShareSuspender
from jupyter_gq.devices.suspension.suspender import Suspender
from jupyter_gq.devices.suspension.tree_steps import SuspensionLimits, Waiting
from jupyter_gq.domain.amount import MiB

from .checkpointer import Checkpointer
from .probe import DeviceProbe, ProbeState

#: States of a machine without a GPU. Other problems are reported: jobs for real GPUs must not run on simulated ones.
_NO_GPU = frozenset({ProbeState.NOT_INSTALLED, ProbeState.NO_DRIVER, ProbeState.NO_DEVICES})


def choose_probe(nvml: DeviceProbe, simulated: SimulatedDevices, now: Callable[[], float]) -> DeviceProbe:
    """Return the driver's probe or the simulated one, as `simulated.mode` says.

    "auto" means simulated if there is no driver, or fewer GPUs than `simulated.needed`, as the driver's probe says now.
    Any other problem of the driver keeps the driver's probe, which reports it. `now` returns the time in seconds.
    """
    if simulated.mode == "never":
        return nvml
    if simulated.mode == "always":
        return simulated.probe(why="the configuration says so.", now=now)
    status = nvml.status()
    if status.state in _NO_GPU:
        return simulated.probe(why=status.detail, now=now)
    found = len(nvml.devices()) if status.state is ProbeState.OK else simulated.needed
    if found < simulated.needed:
        why = f"this machine has {found} GPU{'s' if found > 1 else ''}, and the configuration needs {simulated.needed}."
        return simulated.probe(why=why, now=now)
    return nvml


def choose_checkpointer(probe: DeviceProbe) -> Checkpointer:
    """Return the checkpointer of the devices that the probe sees: simulated ones, or those of NVIDIA's driver."""
    if isinstance(probe, SimulatedProbe):
        return SimulatedCheckpointer(probe, sleep=time.sleep)
    return CudaCheckpointer(devices=lambda: [device.uuid for device in probe.devices()])


def choose_limiter(probe: DeviceProbe) -> MemoryLimiter:
    """Return what limits the memory of control groups on the devices of this probe: the driver, or nothing."""
    if isinstance(probe, SimulatedProbe):
        return NoLimiter("Simulated GPUs have no driver that limits memory.")
    return NvmlLimiter()


def choose_suspender(
    probe: DeviceProbe,
    journal: Path,
    elapsed: Callable[[], float],
    limit: Callable[[], MiB | None],
    host: HostMemory | None = None,
) -> Suspender:
    """Return what suspends shares of the devices of this probe: the driver's checkpointer, or the simulated one.

    `journal` is the path of the file in which suspensions are noted. `elapsed` returns seconds since a fixed moment.
    `limit` returns the MiB of host memory that all suspended shares may take, or None for any amount. `host` is the
    host memory for the state of real devices; None = that of this machine.
    """
    return ShareSuspender(
        checkpointer=choose_checkpointer(probe),
        probe=probe,
        host=SimulatedHostMemory() if isinstance(probe, SimulatedProbe) else host or LinuxHostMemory(),
        journal=FileJournal(journal, boot=boot_id(), elapsed=elapsed),
        waiting=Waiting(monotonic=elapsed, sleep=time.sleep),
        limits=SuspensionLimits(most_suspended=limit),
    )
