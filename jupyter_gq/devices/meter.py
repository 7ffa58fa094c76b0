"""The measurement of the use that the processes of a share make of its devices; used by the service and by agents.

Rules
-----
- Unknown stays unknown: a device that cannot be sampled, or a process of which the driver does not tell the memory or
  the utilisation, makes that figure None.
- Sum and maximum: memory is the sum over processes and devices; utilisation is the highest of any process and device.
- Unlisted means no use: a process that the driver does not list uses nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from jupyter_gq.domain.amount import MiB

from .probe import DeviceProbe, Usage


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """The processes and the devices of a share whose use is measured."""

    #: Ids of the devices.
    devices: tuple[str, ...]
    pids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareUse:
    """The use of a share's devices by its processes at the last sample; None means unknown."""

    memory: MiB | None
    #: Highest utilisation of its processes, 0 to 100.
    utilisation: int | None


UNKNOWN = ShareUse(memory=None, utilisation=None)


class ShareMeter(Protocol):
    """A source of the use of shares, which changes nothing."""

    def measure(self, shares: Mapping[str, Share]) -> Mapping[str, ShareUse]:
        """Return the use of each of these shares under its name in `shares`."""
        ...


class ProbeMeter:
    """The meter of shares on this machine, by its device probe."""

    def __init__(self, probe: DeviceProbe) -> None:
        self._probe = probe

    def measure(self, shares: Mapping[str, Share]) -> Mapping[str, ShareUse]:
        """Return the use of each share under its name. Each device is sampled once, for all processes of its shares."""
        samples = {device: self._probe.usage(device, pids) for device, pids in _pids_by_device(shares).items()}
        return {name: _use_of(share, samples) for name, share in shares.items()}


class ReportedMeter:
    """The meter of shares on other machines, by the newest reports of their agents."""

    def __init__(self, usage: Callable[[str], ShareUse | None]) -> None:
        """Create a meter; `usage` returns the use of a workload in its newest report, or None if that is too old."""
        self._usage = usage

    def measure(self, shares: Mapping[str, Share]) -> Mapping[str, ShareUse]:
        """Return the reported use of each share; the use of a share without a report is unknown."""
        return {name: self._usage(name) or UNKNOWN for name in shares}


def _pids_by_device(shares: Mapping[str, Share]) -> dict[str, list[int]]:
    pids: dict[str, list[int]] = {}
    for share in shares.values():
        for device in share.devices:
            pids.setdefault(device, []).extend(share.pids)
    return pids


def _use_of(share: Share, samples: Mapping[str, Sequence[Usage] | None]) -> ShareUse:
    """Return the memory of a share's processes in sum, and their highest utilisation, from the samples of each device.

    A figure that the driver does not tell of one process is None. If a device has no sample, both are None.
    """
    found: list[Usage] = []
    for device in share.devices:
        sample = samples[device]
        if sample is None:
            return UNKNOWN
        found += [usage for usage in sample if usage.pid in share.pids]
    memory = None if any(usage.memory is None for usage in found) else MiB(sum(usage.memory or 0 for usage in found))
    if any(usage.utilisation is None for usage in found):
        return ShareUse(memory=memory, utilisation=None)
    return ShareUse(memory=memory, utilisation=max((usage.utilisation or 0 for usage in found), default=0))
