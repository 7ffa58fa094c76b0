"""Requests for device memory, translated into a part of a device.

The part is ceil(100 x memory / memory of the device) hundredths of the *smallest* suitable device: a device of the
pool, of a required model, with at least that much memory. On a larger device the same part is more than was asked for.
The part is computed when a snapshot enters the core. Running work keeps a part below a whole device: its programs have
limits that were computed from that part, whatever devices come and go.
"""

from collections.abc import Iterable
from dataclasses import replace

from jupyter_gq.domain.amount import ONE_GPU, MilliGpu
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Request, Workload

HUNDREDTH = ONE_GPU // 100


def resolved(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with `milli_per_device` computed for every request of device memory.

    Returns the same object if there is no such request.
    """
    if not any(_asks_for_memory(workload) for workload in snapshot.workloads):
        return snapshot
    pools = {queue.name: queue.pool for queue in snapshot.queues}
    parts = MemoryParts(snapshot.nodes)
    workloads = tuple(parts.of_workload(workload, pools.get(workload.queue, "")) for workload in snapshot.workloads)
    return replace(snapshot, workloads=workloads)


def _asks_for_memory(workload: Workload) -> bool:
    return workload.request.device_memory is not None or any(
        group.request.device_memory is not None for group in workload.groups
    )


class MemoryParts:
    """The part of a device that a request for device memory takes, for the devices of a cluster."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        kinds = {(d.pool, d.model, int(d.memory)) for node in nodes for d in node.devices}
        self._kinds = sorted(kinds, key=lambda kind: kind[2])

    def of_workload(self, workload: Workload, pool: str) -> Workload:
        """Return the workload with `milli_per_device` of its requests of device memory, for devices of `pool`."""
        if not _asks_for_memory(workload):
            return workload
        groups = tuple(replace(g, request=self._of(g.request, pool, workload.holds)) for g in workload.groups)
        return replace(workload, request=self._of(workload.request, pool, workload.holds), groups=groups)

    def _of(self, request: Request, pool: str, holds: bool) -> Request:
        """Return the request with the part of a device for its device memory; a whole device if none is suitable.

        Work that holds devices keeps a part below a whole device.
        """
        if request.device_memory is None or (holds and request.milli_per_device < ONE_GPU):
            return request
        for kind_pool, model, memory in self._kinds:
            if kind_pool == pool and memory >= request.device_memory and model in (request.models or (model,)):
                hundredths = -(-100 * request.device_memory // memory)
                return replace(request, milli_per_device=MilliGpu(max(1, hundredths) * HUNDREDTH))
        return replace(request, milli_per_device=ONE_GPU)
