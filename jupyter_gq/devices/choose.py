"""Which devices are used: those of the driver, or simulated ones."""

from collections.abc import Callable

from .probe import DeviceProbe, ProbeState
from .simulated import SimulatedDevices

#: A machine without a GPU. Anything else that is wrong is reported: jobs for real GPUs must not run on pretended ones.
_NO_GPU = frozenset({ProbeState.NOT_INSTALLED, ProbeState.NO_DRIVER, ProbeState.NO_DEVICES})


def choose_probe(nvml: DeviceProbe, simulated: SimulatedDevices, now: Callable[[], float]) -> DeviceProbe:
    """Return the probe to use. The driver is asked once; the choice holds for the life of the service."""
    if simulated.mode == "never":
        return nvml
    if simulated.mode == "always":
        return simulated.probe(why="the configuration says so.", now=now)
    status = nvml.status()
    if status.state in _NO_GPU:
        return simulated.probe(why=status.detail, now=now)
    return nvml
