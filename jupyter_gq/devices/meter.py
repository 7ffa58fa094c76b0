"""The measurement of the use that the processes of a share make of its devices; used by the service and by agents.

Rules
-----
- Unknown stays unknown: a device that cannot be sampled, or a process of which the driver does not tell the memory or
  the utilisation, makes that figure None.
- Sum and maximum: memory is the sum over processes and devices; utilisation is the highest of any process and device.
- Unlisted means no use: a process that the driver does not list uses nothing.
- Identified first: the start time of each process is read before its use. So a figure never belongs to a process that
  got the id of an earlier one.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jupyter_gq.devices.linux.processes import ProcessId, identify
from jupyter_gq.domain.amount import MiB

from .probe import DeviceProbe, Usage


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """The processes and the devices of a share whose use is measured."""

    #: Ids of the devices.
    devices: tuple[str, ...]
    pids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessUse:
    """The memory that one process holds on a device; None = the driver does not tell."""

    process: ProcessId
    memory: MiB | None
    #: Whether the process uses the device through MPS.
    through_mps: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceUse:
    """The use of one device by the processes of a share."""

    device: str
    #: The processes of the share that use the device; None = the device could not be sampled.
    processes: tuple[ProcessUse, ...] | None
    #: Memory of the device that no process holds; None = unknown.
    free: MiB | None
    #: Memory of the device, which may differ from what its node says; None = it is what the node says.
    total: MiB | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareUse:
    """The use of a share's devices by its processes at the last sample; None means unknown."""

    memory: MiB | None
    #: Highest utilisation of its processes, 0 to 100.
    utilisation: int | None
    #: Use by device and process; empty if the watchdog cannot act on these processes, or if it is unknown.
    devices: tuple[DeviceUse, ...] = field(default=(), compare=False)


UNKNOWN = ShareUse(memory=None, utilisation=None)


class ShareMeter(Protocol):
    """A source of the use of shares, which changes nothing."""

    def measure(self, shares: Mapping[str, Share]) -> Mapping[str, ShareUse]:
        """Return the use of each of these shares under its name in `shares`."""
        ...


class ProbeMeter:
    """The meter of shares on this machine, by its device probe."""

    def __init__(self, probe: DeviceProbe, identify: Callable[[int], ProcessId | None] = identify) -> None:
        """Create a meter; `identify` returns the identity of a living process, and tests replace it."""
        self._probe = probe
        self._identify = identify

    def measure(self, shares: Mapping[str, Share]) -> Mapping[str, ShareUse]:
        """Return the use of each share under its name. Each device is sampled once, for all processes of its shares."""
        found = ((pid, self._identify(pid)) for pid in {pid for share in shares.values() for pid in share.pids})
        known = {pid: process for pid, process in found if process is not None}
        samples = {
            device: _Sample(self._probe.usage(device, pids), self._probe.free_memory(device), known)
            for device, pids in _pids_by_device(shares).items()
        }
        return {name: _use_of(share, samples) for name, share in shares.items()}


class ReportedMeter:
    """The meter of shares on other machines, by the newest reports of their agents."""

    def __init__(self, find_uses: Callable[[Collection[str]], Mapping[str, ShareUse]]) -> None:
        """Create a meter; `find_uses` returns the use of workloads in their newest reports, without too old ones."""
        self._find_uses = find_uses

    def measure(self, shares: Mapping[str, Share]) -> Mapping[str, ShareUse]:
        """Return the reported use of each share; the use of a share without a report is unknown."""
        found = self._find_uses(shares.keys())
        return {name: found.get(name, UNKNOWN) for name in shares}


def _pids_by_device(shares: Mapping[str, Share]) -> dict[str, list[int]]:
    pids: dict[str, list[int]] = {}
    for share in shares.values():
        for device in share.devices:
            pids.setdefault(device, []).extend(share.pids)
    return pids


@dataclass(frozen=True, slots=True)
class _Sample:
    """The sample of one device, with the identity of each process that was alive before it."""

    usage: Sequence[Usage] | None
    free: MiB | None
    processes: Mapping[int, ProcessId]


def _use_of(share: Share, samples: Mapping[str, _Sample]) -> ShareUse:
    """Return the memory of a share's processes in sum, and their highest utilisation, from the samples of each device.

    A figure that the driver does not tell of one process is None. If a device has no sample, both are None.
    """
    pids = frozenset(share.pids)
    devices = tuple(_device_use(device, pids, samples[device]) for device in share.devices)
    found: list[Usage] = []
    for device in share.devices:
        usage = samples[device].usage
        if usage is None:
            return ShareUse(memory=None, utilisation=None, devices=devices)
        found += [each for each in usage if each.pid in pids]
    memory = None if any(usage.memory is None for usage in found) else MiB(sum(usage.memory or 0 for usage in found))
    unknown = any(usage.utilisation is None for usage in found)
    most = None if unknown else max((usage.utilisation or 0 for usage in found), default=0)
    return ShareUse(memory=memory, utilisation=most, devices=devices)


def _device_use(device: str, pids: Collection[int], sample: _Sample) -> DeviceUse:
    """Return the use of one device by these processes; processes that had ended before the sample are left out."""
    if sample.usage is None:
        return DeviceUse(device=device, processes=None, free=sample.free)
    return DeviceUse(
        device=device,
        processes=tuple(
            ProcessUse(process=sample.processes[usage.pid], memory=usage.memory, through_mps=usage.through_mps)
            for usage in sample.usage
            if usage.pid in pids and usage.pid in sample.processes
        ),
        free=sample.free,
    )
