"""The memory limits that the driver itself shall keep: for each share of a part of a device, told in each step.

The backend is told too which programs use the devices: only the watchdog holds a program that evades the limits.

Clients of MPS have none: below such limits, MPS may end one program to make room for another. A share whose programs
all run outside of MPS keeps the driver's limit, such as one that was started before MPS shared its device.
See docs/decisions/0205-let-the-driver-limit-control-groups.md and
docs/decisions/0253-let-the-driver-limit-what-runs-outside-of-mps.md.
"""

from collections import Counter
from collections.abc import Mapping

from jupyter_gq.controller.context import Context
from jupyter_gq.devices.limits import watched_memory
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.domain.amount import ONE_GPU, MiB
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload

#: States in which the programs of a share use its devices, or are about to.
_ON_DEVICES = frozenset({State.STARTING, State.RUNNING, State.RESUMING})


def want_limits(context: Context) -> None:
    """Tell each backend whose driver can limit memory the limits of its shares, which it may know already."""
    devices: dict[str, Device] | None = None
    for record in context.records.holding():
        workload = record.workload
        able = context.backend_of(workload.kind).capabilities
        port, mps = able.memory_limits, able.partitioning
        if port is None or workload.state not in _ON_DEVICES:
            continue
        if devices is None:
            devices = {device.id: device for node in context.nodes() for device in node.devices}
        limits = _limits_of(workload, devices)
        clients = context.list_clients(workload)
        is_outside = bool(clients) and not any(clients)
        by_driver = {id: limit for id, limit in limits.items() if mps is None or is_outside or not mps.serves([id])}
        port.want(workload.id, workload.run, by_driver)
        if (users := _find_users(context, workload)) is not None:
            port.note_users(workload.id, workload.run, users)


def _find_users(context: Context, workload: Workload) -> list[ProcessId] | None:
    """Return the processes that use the devices of a share by the last sample; None if they are not known."""
    use = context.usage.get(workload.id)
    if use is None or any(device.processes is None for device in use.devices):
        return None
    return [each.process for device in use.devices for each in device.processes or ()]


def _limits_of(workload: Workload, devices: Mapping[str, Device]) -> dict[str, MiB]:
    """Return the MiB that the programs of a share may hold of each device; none of whole or unknown devices."""
    milli = workload.request.milli_per_device
    if milli >= ONE_GPU:
        return {}
    tasks = Counter(device for task in workload.held_places for device in task.devices)
    limits = {id: watched_memory(devices[id], milli) for id in tasks if id in devices}
    return {id: MiB(limit * tasks[id]) for id, limit in limits.items() if limit is not None}
