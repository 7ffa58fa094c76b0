"""The enforcers of shares on this machine that an administrator has switched on."""

from dataclasses import dataclass

from .memory_limits import DriverLimits
from .mps import MpsDevices


@dataclass(frozen=True, kw_only=True, slots=True)
class Enforcers:
    """The enforcers of shares on this machine beside the watchdog and the frameworks."""

    #: Has the driver limit the memory of shares; None = the driver is told no limit.
    limits: DriverLimits | None = None
    #: Shares some devices by MPS; None = there are none.
    mps: MpsDevices | None = None

    @property
    def partitioned(self) -> frozenset[str]:
        """The devices that are shared by MPS."""
        return frozenset(() if self.mps is None else self.mps.daemon.devices)


NO_ENFORCERS = Enforcers()
