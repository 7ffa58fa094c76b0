"""The protocol of probes of this machine's devices. One contract suite runs against every implementation."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from jupyter_gq.domain.amount import MiB


class ProbeState(StrEnum):
    """The states of a probe: each way in which it can be there or missing has a name."""

    OK = "OK"
    NOT_INSTALLED = "NOT_INSTALLED"  # the module pynvml cannot be imported
    NO_DRIVER = "NO_DRIVER"  # libnvidia-ml.so.1 is not there
    DRIVER_MISMATCH = "DRIVER_MISMATCH"  # library and kernel module differ: the machine wants a reboot
    NO_PERMISSION = "NO_PERMISSION"
    NO_DEVICES = "NO_DEVICES"  # the driver works and finds none
    LOST = "LOST"  # a device fell off the bus
    BROKEN = "BROKEN"  # any other error of the driver; `detail` has its words


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeStatus:
    """The state of a probe and one sentence on it: what it means and what to do."""

    state: ProbeState
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceInfo:
    """A device as the driver describes it."""

    uuid: str
    index: int
    model: str
    memory: MiB
    #: Number of its device node (/dev/nvidia<N>), which need not be its index; None = it has none, or it is unknown.
    minor: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """The use of one device by one process. None = the driver does not say; unknown is never 0."""

    pid: int
    memory: MiB | None
    #: Highest sample in the window, 0 to 100.
    utilisation: int | None


class DeviceProbe(Protocol):
    """Observes devices; changes nothing. Never raises: what is missing is a state or None."""

    def status(self) -> ProbeStatus:
        """Whether there is something to observe."""
        ...

    def devices(self) -> tuple[DeviceInfo, ...]:
        """Return the devices by index; none unless the state is OK."""
        ...

    def usage(self, device: str, pids: Sequence[int]) -> tuple[Usage, ...] | None:
        """Return the use of each of these processes that uses the device; None if it cannot be known.

        A simulated probe counts the CPU use of a process since it was last asked.
        """
        ...
