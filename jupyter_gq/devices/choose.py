"""The choice of the probe: the driver's devices, or simulated ones."""

from collections.abc import Callable

from .probe import DeviceProbe, ProbeState
from .simulated import SimulatedDevices

#: States of a machine without a GPU. Other problems are reported: jobs for real GPUs must not run on simulated ones.
_NO_GPU = frozenset({ProbeState.NOT_INSTALLED, ProbeState.NO_DRIVER, ProbeState.NO_DEVICES})


def choose_probe(nvml: DeviceProbe, simulated: SimulatedDevices, now: Callable[[], float]) -> DeviceProbe:
    """Return the driver's probe or the simulated one, as `simulated.mode` says.

    "auto" means simulated if there is no GPU or no driver, as the driver's probe says now. Any other problem of the
    driver keeps the driver's probe, which reports it. `now` returns the time in seconds.
    """
    if simulated.mode == "never":
        return nvml
    if simulated.mode == "always":
        return simulated.probe(why="the configuration says so.", now=now)
    status = nvml.status()
    if status.state in _NO_GPU:
        return simulated.probe(why=status.detail, now=now)
    return nvml
