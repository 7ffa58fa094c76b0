"""The CPU and memory of each task of a job, from its request and the defaults of its queue.

See docs/decisions/0036-jobs-name-cpu-and-memory.md.
"""

from dataclasses import replace

from jupyter_gq.client.models import JobFields
from jupyter_gq.controller.settings.queue_resources import Defaults
from jupyter_gq.domain.amount import NO_MEMORY, MiB, MilliCpu, parse_cpus, parse_memory
from jupyter_gq.domain.errors import InvalidAmount, NeverFits, Resource
from jupyter_gq.domain.workload import Request

from .job_devices import check_models


def with_host_resources(devices: Request, asked: JobFields, defaults: Defaults) -> Request:
    """Return `devices` with the CPU and memory that the user asked for, or the queue's defaults.

    Without either, CPU and memory are 0. Raises `InvalidAmount` for an invalid amount or 0.
    """
    return replace(devices, cpu_milli=_cpus(asked.cpus, defaults), memory=_memory(asked.memory, defaults))


def with_resources_of(before: Request, devices: Request) -> Request:
    """Return `devices` with the CPU, memory and GPU models of the request before.

    Raises `NeverFits` for a GPU model without a GPU.
    """
    changed = replace(
        before,
        devices=devices.devices,
        milli_per_device=devices.milli_per_device,
        device_memory=devices.device_memory,
        node_labels=devices.node_labels,
    )
    check_models(changed)
    return changed


def explain_default(refusal: NeverFits, asked: JobFields) -> NeverFits:
    """Return the refusal; if it concerns a default of the queue, the sentence adds that the user named no amount."""
    unnamed = {Resource.CPU: asked.cpus is None, Resource.MEMORY: asked.memory is None}
    if not unnamed.get(refusal.resource, False):
        return refusal
    what = "CPU cores" if refusal.resource is Resource.CPU else "memory"
    return NeverFits(
        f"{refusal} You named no {what}: this is what the queue {asked.queue} gives to such jobs.", refusal.resource
    )


def _cpus(asked: str | int | float | None, defaults: Defaults) -> int:
    """Return thousandths of a core for each task: the amount asked for, else the default, else 0.

    Raises `InvalidAmount` if the amount asked for is invalid or 0.
    """
    if asked is None:
        return defaults.cpu_milli or MilliCpu(0)
    milli = parse_cpus(asked)
    if milli == 0:
        raise InvalidAmount(asked, "a job needs some", "use more, or leave it out", Resource.CPU)
    return milli


def _memory(asked: str | int | float | None, defaults: Defaults) -> MiB:
    """Return the MiB of memory for each task: the amount asked for, else the default, else 0.

    Raises `InvalidAmount` if the amount asked for is invalid or 0.
    """
    if asked is None:
        return defaults.memory or NO_MEMORY
    mib = parse_memory(asked)
    if mib == 0:
        raise InvalidAmount(asked, "a job needs some", "use more, or leave it out", Resource.MEMORY)
    return mib
