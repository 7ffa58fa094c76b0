"""The level at which the memory limit of each share is enforced; see `domain.share_level`."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from jupyter_gq.backends.capabilities import LimitState, Partitioning
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.share_level import Enforcement, ShareLevel, decide_level
from jupyter_gq.domain.workload import Kind, Workload

_OUTSIDE_MPS = (
    "A program of the share uses the GPU outside MPS, so that neither its memory nor its part of the processors is "
    "limited. {remedy}"
)
_LIMITED_OUTSIDE_MPS = (
    "The programs of the share use the GPU outside MPS: the driver limits their memory, and nothing their part of the "
    "processors. {remedy}"
)
_REMEDIES = {
    Kind.NOTEBOOK: "Restart its kernel; if that does not help, restart the server.",
    Kind.TRAINING: "Let the job start it without removing the variables of MPS, or send the job again.",
}


def level_of(context: Context, workload: Workload, devices: Mapping[str, Device]) -> ShareLevel:
    """Return the level of a workload's share; `devices` are all devices by id.

    Before the workload has its devices, that is the level that a share of its pool would have.
    """
    held = [devices[name] for task in workload.placement for name in task.devices if name in devices]
    settings = context.settings
    pool = settings.build_pool if workload.kind is Kind.NOTEBOOK else settings.train_pool
    asked = workload.request
    found = _enforcement(
        context,
        workload.kind,
        held or _in_pool(devices.values(), pool),
        has_gpu=bool(asked.devices),
        whole=asked.milli_per_device >= ONE_GPU,
        watched=workload.id in context.watched and context.can_watch(workload.kind, held) if held else None,
    )
    limits = _limits_of(context, workload)
    limited = bool(held) and {device.id for device in held} <= limits.confirmed
    clients = _clients_of_mps(context, workload)
    return decide_level(replace(found, limited=limited, through_mps=bool(clients) and all(clients)))


def describe_missing_limit(context: Context, workload: Workload) -> str:
    """Return why the driver or MPS does not limit the memory of a share although it shall, in sentences; "" if not."""
    port = context.backend_of(workload.kind).capabilities.partitioning
    trouble = "" if port is None or not _is_part(workload) else port.describe_trouble(_devices_of(workload))
    if port is None or not _is_shared_by_mps(port, workload):
        return " ".join(filter(None, [trouble, _limits_of(context, workload).trouble]))
    return " ".join(filter(None, [trouble, *_describe_outside(context, workload)]))


def _describe_outside(context: Context, workload: Workload) -> list[str]:
    """Return what is not limited of programs outside of MPS that shall use it, as sentences."""
    clients, limits = _clients_of_mps(context, workload), _limits_of(context, workload)
    if all(clients):
        return []
    remedy = _REMEDIES[workload.kind]
    if limits.confirmed.issuperset(_devices_of(workload)):
        return [_LIMITED_OUTSIDE_MPS.format(remedy=remedy)]
    return [_OUTSIDE_MPS.format(remedy=remedy), limits.trouble]


def _clients_of_mps(context: Context, workload: Workload) -> list[bool]:
    """Return whether each program on the devices of a share uses MPS; empty unless all of them shall, or if unknown."""
    port = context.backend_of(workload.kind).capabilities.partitioning
    return [] if port is None or not _is_shared_by_mps(port, workload) else context.list_clients(workload)


def _is_shared_by_mps(port: Partitioning, workload: Workload) -> bool:
    """Return whether the share is a part of devices that are all shared by MPS, so that its programs use MPS."""
    devices = _devices_of(workload)
    return _is_part(workload) and bool(devices) and all(port.serves([device]) for device in devices)


def _is_part(workload: Workload) -> bool:
    """Return whether the share is a part of each of its devices."""
    return workload.request.milli_per_device < ONE_GPU


def _devices_of(workload: Workload) -> list[str]:
    return [device for task in workload.placement for device in task.devices]


def describe_fractions(context: Context) -> str:
    """Return a sentence on the level of a new notebook's part of a GPU; "" if the pool of notebooks has no GPU."""
    nodes = (device for node in context.nodes() for device in node.devices)
    pool = _in_pool(nodes, context.settings.build_pool)
    if not pool:
        return ""
    level = decide_level(_enforcement(context, Kind.NOTEBOOK, pool, has_gpu=True, whole=False, watched=None))
    return f"A part of a GPU has a memory limit that is {level.value}. {level.meaning}"


def _limits_of(context: Context, workload: Workload) -> LimitState:
    """Return the state of the driver's limits of a share; nothing is confirmed where the driver is told none."""
    port = context.backend_of(workload.kind).capabilities.memory_limits
    return LimitState() if port is None else port.state(workload.id, workload.run)


def _in_pool(devices: Iterable[Device], pool: str) -> list[Device]:
    return [device for device in devices if device.pool == pool]


def _enforcement(
    context: Context, kind: Kind, devices: list[Device], *, has_gpu: bool, whole: bool, watched: bool | None
) -> Enforcement:
    """Return what enforces the limit of a share of these devices, which are all of one pool.

    `watched`: whether its memory is watched; None = the share does not run yet.
    """
    pool = devices[0].pool if devices else ""
    return Enforcement(
        has_gpu=has_gpu,
        # The device plugin gives whole devices, whatever divides the others.
        whole=whole,
        divided_by=context.backend_of(kind).capabilities.enforcement(pool),
        capped=bool(devices) and all(device.memory for device in devices),
        watched=bool(devices) and context.can_watch(kind, devices) if watched is None else watched,
    )
