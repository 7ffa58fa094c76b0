"""Traces: the jobs of a replay, and the queues and nodes that they get."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from jupyter_gq.domain.amount import ONE_GPU, Instant, MiB, MilliCpu, MilliGpu, Seconds
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.workload import Request

#: The pool of a replayed cluster, and the model and memory of its devices: a trace says nothing of them.
POOL = "train"
_MODEL = "GPU"
_MEMORY = MiB(40_960)


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceJob:
    """A row of a trace: what was asked for, when, and how long the job ran."""

    #: Unique in its trace.
    id: str
    #: Name of its queue.
    queue: str
    #: Name of its user; "" where the trace does not tell.
    owner: str
    #: When it was submitted.
    submitted: Instant
    #: How long it runs when nobody disturbs it.
    duration: Seconds
    #: What each task needs.
    request: Request
    #: Tasks that start together.
    tasks: int = 1

    @property
    def milli(self) -> int:
        """The milli-GPU of all tasks of the job."""
        return self.request.milli * self.tasks


def in_whole_devices(jobs: Iterable[TraceJob]) -> list[TraceJob]:
    """Return the jobs for a cluster that shares no device: a job that asks for a part of a device gets all of it."""
    return [
        replace(job, request=replace(job.request, milli_per_device=ONE_GPU))
        if job.request.milli_per_device < ONE_GPU
        else job
        for job in jobs
    ]


def scaled(quotas: Mapping[str, MilliGpu], total: MilliGpu) -> dict[str, MilliGpu]:
    """Return the quotas scaled in proportion, so that their sum is `total`; all zero quotas stay as they are.

    Each amount is rounded down. What that leaves over goes to the largest remainders, one milli-GPU each, ties by name.
    """
    whole = sum(quotas.values())
    if not whole:
        return dict(quotas)
    found = {name: quota * total // whole for name, quota in quotas.items()}
    remainders = sorted(quotas, key=lambda name: (-(quotas[name] * total % whole), name))
    for name in remainders[: total - sum(found.values())]:
        found[name] += 1
    return {name: MilliGpu(amount) for name, amount in found.items()}


def queues_of(quotas: Mapping[str, MilliGpu]) -> tuple[Queue, ...]:
    """Return a guaranteed queue with default settings for each quota."""
    return tuple(Queue(name=name, pool=POOL, quota=quota) for name, quota in quotas.items())


def nodes_of(
    gpus: int, per_node: int, *, cpu_milli: MilliCpu | None = None, memory: MiB | None = None
) -> tuple[Node, ...]:
    """Return empty nodes with `gpus` GPUs in all, `per_node` each; the last node has what is left.

    `cpu_milli` and `memory` are those of a whole node.
    """
    width = len(str(max(0, gpus - 1) // per_node))
    sizes = ((first // per_node, min(per_node, gpus - first)) for first in range(0, gpus, per_node))
    return tuple(
        Node(
            name=f"node-{number:0{width}d}",
            devices=_devices(f"node-{number:0{width}d}", devices),
            cpu_milli=part_of(cpu_milli, devices, per_node),
            memory=part_of(memory, devices, per_node),
        )
        for number, devices in sizes
    )


_Counted = TypeVar("_Counted", bound=int)


def part_of(whole: _Counted | None, devices: int, per_node: int) -> _Counted | None:
    """Return what a node with `devices` of `per_node` devices has of a resource of which a whole node has `whole`.

    The amount is rounded down; None = the resource is not counted.
    """
    return None if whole is None else type(whole)(whole * devices // per_node)


def _devices(node: str, count: int) -> tuple[Device, ...]:
    """Return that many healthy devices for the node of that name."""
    return tuple(
        Device(id=f"{node}-{index}", index=index, model=_MODEL, memory=_MEMORY, pool=POOL) for index in range(count)
    )
