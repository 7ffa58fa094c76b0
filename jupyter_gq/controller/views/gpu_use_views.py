"""The views of the GPU use of jobs: pure functions from samples to what the owner sees."""

from collections.abc import Mapping

from jupyter_gq.client.models import JobUsage, UnusedGpuView, UsagePoint
from jupyter_gq.controller.durations import format_duration
from jupyter_gq.controller.gpu_use import UnusedGpu, UseSeries
from jupyter_gq.devices.limits import memory_quota
from jupyter_gq.devices.meter import ShareUse
from jupyter_gq.domain.amount import MiB, format_gpus, format_memory
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.workloads import gang

_MINUTE = 60.0


def memory_limit(workload: Workload, devices: Mapping[str, Device]) -> MiB | None:
    """Return the memory that a job may use on all of its devices; None without devices, or if it is unknown."""
    places = [name for task in workload.held_places for name in task.devices]
    held = [devices.get(name) for name in places]
    known = [device for device in held if device is not None and device.memory]
    if not held or len(known) < len(held):
        return None
    return MiB(sum(memory_quota(device, workload.request.milli_per_device) for device in known))


def unused_view(workload: Workload, unused: UnusedGpu | None) -> UnusedGpuView | None:
    """Return the finding that a job uses no GPU, with the sentence for its owner; None for None."""
    if unused is None:
        return None
    seconds = unused.seconds - unused.seconds % _MINUTE if unused.seconds >= 2 * _MINUTE else unused.seconds
    milli = gang.held(workload)
    amount = f"{format_gpus(milli)} {'GPUs' if milli > 1000 else 'GPU'}"
    return UnusedGpuView(
        since=unused.since,
        sentence=f"This job has used no GPU for {format_duration(seconds)}, although it holds {amount}. "
        "Cancel it, or let its code use the GPU.",
    )


def usage_view(
    workload: Workload, series: tuple[int, UseSeries] | None, use: ShareUse | None, limit: MiB | None
) -> JobUsage:
    """Return the use of a job's GPUs over time: the number of the run with its series, and the last sample `use`."""
    run, found = series or (0, None)
    points = [] if found is None else found.points()
    return JobUsage(
        run=run if points else 0,
        since=found.start if found is not None and points else None,
        seconds=found.width if found is not None and points else 0,
        points=[
            UsagePoint(at=each.at, utilisation=each.mean, highest=each.highest, memory_mib=each.memory)
            for each in points
        ],
        memory_limit_mib=limit,
        sentence=_describe_use(workload, use, limit),
    )


def _describe_use(workload: Workload, use: ShareUse | None, limit: MiB | None) -> str:
    """Return the last sample in words, or why nothing is known now."""
    if not workload.request.devices:
        return "The job has no GPU."
    if workload.state is not State.RUNNING:
        return "The job does not run now."
    if use is None or (use.utilisation is None and use.memory is None):
        return "The use of its GPU is not known now: the driver, or the agent of the node, does not tell it."
    parts = [
        "" if use.utilisation is None else f"{use.utilisation} % of its GPU",
        "" if use.memory is None else _describe_memory(use.memory, limit),
    ]
    return f"The job uses {' and '.join(filter(None, parts))}."


def _describe_memory(used: MiB, limit: MiB | None) -> str:
    of = "" if limit is None else f" of {format_memory(limit)}"
    return f"{format_memory(used)}{of} of GPU memory"
