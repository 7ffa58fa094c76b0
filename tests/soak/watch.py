"""What is looked at while a soak run goes on: memory of the service, shares of devices, ledger and processes."""

import asyncio
import contextlib
from dataclasses import dataclass, field

import httpx
import numpy as np
import psutil

from jupyter_gq.client.connection.http import ServiceClient, ServiceError
from tests.patience import Deadline, eventually

from .world import ADMIN, World

#: Seconds between two looks at memory and shares.
_EVERY = 2.0
#: Seconds between two comparisons of ledger and processes.
_COMPARE_EVERY = 60.0
#: Seconds within which a difference between ledger and processes has to be gone, in calm.
SETTLES_WITHIN = 90.0
MIB = 2**20


@dataclass(frozen=True, slots=True)
class MemorySample:
    """The resident memory of the service at one moment."""

    at: float
    pid: int
    mib: float


@dataclass(slots=True)
class Seen:
    """What was seen during a run."""

    memory: list[MemorySample] = field(default_factory=list)
    comparisons: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MemoryTrend:
    """The line through the samples of the process of the service that lived longest, after its first third."""

    seconds: float
    mib_per_hour: float
    highest_mib: float


def fit_memory(samples: list[MemorySample]) -> MemoryTrend | None:
    """Return the trend of the longest-lived service process; None if none was seen often enough."""
    by_pid: dict[int, list[MemorySample]] = {}
    for sample in samples:
        by_pid.setdefault(sample.pid, []).append(sample)
    longest = max(by_pid.values(), key=lambda each: each[-1].at - each[0].at, default=[])
    warm = longest[len(longest) // 3 :]
    if len(warm) < 5:
        return None
    slope, _ = np.polyfit([each.at for each in warm], [each.mib for each in warm], 1)
    highest = max(each.mib for each in samples)
    return MemoryTrend(warm[-1].at - warm[0].at, float(slope) * 3600, highest)


class Watcher:
    """Looks until it is cancelled."""

    def __init__(self, world: World, seen: Seen) -> None:
        self._world, self._seen = world, seen

    async def watch(self) -> None:
        """Look at memory and shares every two seconds, and compare ledger and processes every minute."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_often())
            group.create_task(self._compare_often())

    async def see_memory(self) -> None:
        """Wait, while `watch` goes on, until the memory of one process of the service was seen often enough.

        Where replicas take turns as the leader, no process leads for long under load.
        """
        with contextlib.suppress(AssertionError):
            await eventually(lambda: fit_memory(self._seen.memory) is not None, every=_EVERY / 2)

    async def _look_often(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.to_thread(self._look, loop.time())
            await asyncio.sleep(_EVERY)

    def _look(self, now: float) -> None:
        with contextlib.suppress(psutil.Error):
            service = self._world.service()
            if service is not None:
                self._seen.memory.append(MemorySample(now, service.pid, service.memory_info().rss / MIB))
        for device, held in self._world.overcommitted_devices().items():
            self._seen.faults.append(f"living processes held {held:g} of device {device} at one moment")

    async def _compare_often(self) -> None:
        while True:
            await asyncio.sleep(_COMPARE_EVERY)
            async with self._world.calm:
                self._seen.faults += await self.compare()
            self._seen.comparisons += 1

    async def compare(self, settles_within: float = SETTLES_WITHIN) -> list[str]:
        """Return a sentence for each workload on which ledger and processes never agreed for `settles_within` seconds.

        Workloads that start or end differ for a moment.
        """
        deadline = Deadline(settles_within)
        differs: dict[str, str] | None = None
        while not deadline.is_over():
            held = await self.read_ledger()
            if held is not None:
                alive = await asyncio.to_thread(self._world.live_workloads)
                now = {each: "has processes and no device" for each in alive - held}
                now |= {each: "holds a device and has no process" for each in held - alive}
                differs = now if differs is None else {key: now[key] for key in differs.keys() & now.keys()}
                if not differs:
                    return []
            await asyncio.sleep(0.5)
        if differs is None:
            return [f"the service did not answer for {deadline.waited():.0f} s in calm"]
        return [f"{workload} {what} for {deadline.waited():.0f} s" for workload, what in sorted(differs.items())]

    async def read_ledger(self) -> set[str] | None:
        """Return the workloads that hold devices by the service's account; None if it does not answer."""
        try:
            client: ServiceClient = await self._world.service_client(ADMIN)
        except httpx.HTTPError:
            return None
        try:
            devices = (await client.devices()).devices
        except ServiceError:
            return None
        finally:
            client.close()
        return {holder["id"] for device in devices for holder in device.holders}
