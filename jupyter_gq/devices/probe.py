"""The protocol of probes of this machine's devices. One contract suite runs against every implementation."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from jupyter_gq.domain.amount import MiB


class ProbeState(StrEnum):
    """The states of a probe: OK, or one of the ways in which devices can be missing."""

    OK = "OK"
    NOT_INSTALLED = "NOT_INSTALLED"  # the module pynvml cannot be imported
    NO_DRIVER = "NO_DRIVER"  # libnvidia-ml.so.1 is missing or not loaded
    DRIVER_MISMATCH = "DRIVER_MISMATCH"  # library and kernel module differ in version: the machine needs a restart
    NO_PERMISSION = "NO_PERMISSION"
    NO_DEVICES = "NO_DEVICES"  # the driver works and finds no device
    LOST = "LOST"  # a device fell off the bus
    BROKEN = "BROKEN"  # any other error of the driver; `detail` has its text


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeStatus:
    """The state of a probe, and a sentence that says what it means and what to do."""

    state: ProbeState
    detail: str
    #: Number of devices that the driver counts and could not describe; 0 unless the state is OK.
    undescribed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceInfo:
    """A device as the driver describes it."""

    uuid: str
    index: int
    model: str
    memory: MiB
    #: Number N of the device node /dev/nvidiaN, which can differ from the index; None if it has none or it is unknown.
    minor: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """The use of one device by one process. None means that the driver does not tell; unknown is never 0."""

    pid: int
    memory: MiB | None
    #: Highest utilisation in the last seconds, 0 to 100.
    utilisation: int | None
    #: Whether the process uses the device through MPS.
    through_mps: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceModes:
    """The modes of a device that an administrator can switch; None = the driver does not tell, or has no such mode."""

    #: Whether the device is partitioned (MIG).
    partitioned: bool | None
    #: Whether the driver keeps the device ready while no program uses it.
    persistent: bool | None


class DeviceProbe(Protocol):
    """A probe that observes devices and changes nothing.

    No method raises an exception: a missing device or driver is a state, and a missing value is None.
    """

    def status(self) -> ProbeStatus:
        """Return OK if there are devices, or else the state that says why not; each with a sentence for people."""
        ...

    def devices(self) -> tuple[DeviceInfo, ...]:
        """Return the devices in order of their index; an empty tuple unless the state is OK."""
        ...

    def usage(self, device: str, pids: Sequence[int]) -> tuple[Usage, ...] | None:
        """Return the use of the device by each of these processes that uses it; None if that is unknown.

        A simulated probe returns each process that is alive, and its CPU use since the last call as the utilisation.
        """
        ...

    def free_memory(self, device: str) -> MiB | None:
        """Return the memory of the device in MiB, rounded down, that no process holds; None if that is unknown."""
        ...

    def modes(self, device: str) -> DeviceModes:
        """Return the modes of the device."""
        ...

    def suspension_obstacle(self, device: str, pids: Sequence[int]) -> str | None:
        """Return a sentence if the driver shows that it cannot suspend these processes on the device; else None.

        Devices that are partitioned (MIG) and processes that use the device through MPS are such obstacles.
        """
        ...
