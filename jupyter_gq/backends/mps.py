"""The devices of this machine that are shared by MPS; the port `capabilities.partitioning` of local backends.

The daemon is asked every `_CHECK_INTERVAL`, in a thread, and is started again if it does not answer. A device that the
daemon does not serve yet is used without MPS meanwhile, because the daemon would hide it from its clients.
See docs/decisions/0206-share-named-gpus-by-mps.md.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_gq.devices.nvidia.mps import MpsDaemon, mps_environment
from jupyter_gq.devices.suspension.threads import run_in_thread
from jupyter_gq.domain.amount import MilliGpu
from jupyter_gq.domain.cluster import Device

log = logging.getLogger(__name__)

#: Seconds after which the daemon is asked again whether it runs.
_CHECK_INTERVAL = 10.0
_LACKING = (
    "MPS does not share {devices} yet: its daemon was started without, and programs use it. It is started anew as soon "
    "as no program uses it. To have that sooner, end the notebooks and jobs on the GPUs that MPS shares."
)


@dataclass(kw_only=True)
class MpsDevices:
    """The devices that one daemon of MPS serves."""

    daemon: MpsDaemon
    #: Returns the seconds for which the machine has been awake.
    awake: Callable[[], float]
    #: Called after the daemon has begun or ceased to answer.
    on_change: Callable[[], None]
    #: The devices that the daemon serves.
    _served: frozenset[str] = field(init=False)
    #: What is wrong with the daemon, and the devices that it lacks although it answers.
    _trouble: str = field(init=False, default="")
    _lacking: frozenset[str] = field(init=False, default_factory=frozenset)
    _checked_at: float | None = field(init=False, default=None)
    _busy: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._served = self.daemon.served()

    @property
    def trouble(self) -> str:
        """The trouble with the daemon, as a sentence; "" if it answers and serves all devices, or was not asked yet."""
        return self._trouble or _describe_lacking(self._lacking)

    def serves(self, devices: Collection[str]) -> bool:
        """Return whether one of these devices is shared by MPS."""
        return not self._served.isdisjoint(devices)

    def describe_trouble(self, devices: Collection[str]) -> str:
        """Return what is wrong with MPS for the programs on these devices, as a sentence; "" if nothing is."""
        if self._trouble:
            return "" if set(devices).isdisjoint(self.daemon.devices) else self._trouble
        return "" if self._lacking.isdisjoint(devices) else _describe_lacking(self._lacking)

    def environment(self, devices: Sequence[Device], milli: MilliGpu) -> Mapping[str, str]:
        """Return the variables of programs that have `milli` of each of these devices; see `mps_environment`."""
        return mps_environment(devices, milli, served=self._served, pipes=self.daemon.pipes)

    def keep_running(self) -> None:
        """Begin to start the daemon if it does not answer; does nothing if it was asked lately."""
        due = self._checked_at is None or self.awake() - self._checked_at >= _CHECK_INTERVAL
        if not due or self._busy:
            return
        self._busy = True
        run_in_thread("keep MPS running", self.daemon.ensure, self._note)

    def _note(self, trouble: str | None) -> None:
        """Take over what is wrong with the daemon; None = the attempt has failed, which the log explains."""
        self._busy, self._checked_at = False, self.awake()
        self._served, before = self.daemon.served(), self.trouble
        self._trouble = "MPS could not be started; the service's log says why." if trouble is None else trouble
        self._lacking = frozenset() if self._trouble else self.daemon.lacking()
        if self.trouble != before:
            log.warning("%s", self.trouble or "MPS runs again.")
            self.on_change()


def _describe_lacking(devices: Collection[str]) -> str:
    """Return the sentences on the devices that the daemon does not serve yet; "" if there are none."""
    return _LACKING.format(devices=", ".join(sorted(devices))) if devices else ""
