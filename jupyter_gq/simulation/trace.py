"""What is replayed: jobs, and the queues that they belong to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from jupyter_gq.domain.amount import ONE_GPU, Instant, MiB, MilliGpu, Seconds
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.workload import Request

#: The pool of a replayed cluster, and the model and memory of its devices: a trace says nothing of them.
POOL = "train"
_MODEL = "GPU"
_MEMORY = MiB(40_960)


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One row of a trace: what was asked for, when, and how long it ran."""

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
        """GPUs over all of its tasks."""
        return self.request.milli * self.tasks


def in_whole_devices(jobs: Iterable[Job]) -> list[Job]:
    """The same jobs on a cluster that shares no device: who asks for a part of one gets all of it."""
    return [
        replace(job, request=Request(devices=job.request.devices)) if job.request.milli_per_device < ONE_GPU else job
        for job in jobs
    ]


def scaled(quotas: Mapping[str, MilliGpu], total: MilliGpu) -> dict[str, MilliGpu]:
    """The quotas, in their proportion, of a pool of `total`; what rounding leaves goes to the largest remainders."""
    whole = sum(quotas.values())
    if not whole:
        return dict(quotas)
    shares = {name: quota * total // whole for name, quota in quotas.items()}
    remainders = sorted(quotas, key=lambda name: (-(quotas[name] * total % whole), name))
    for name in remainders[: total - sum(shares.values())]:
        shares[name] += 1
    return {name: MilliGpu(share) for name, share in shares.items()}


def queues_of(quotas: Mapping[str, MilliGpu]) -> tuple[Queue, ...]:
    """A guaranteed queue each, with the usual settings."""
    return tuple(Queue(name=name, pool=POOL, quota=quota) for name, quota in quotas.items())


def nodes_of(gpus: int, per_node: int) -> tuple[Node, ...]:
    """That many GPUs in nodes of `per_node`; the last node has what is left."""
    width = len(str(max(0, gpus - 1) // per_node))
    return tuple(
        _node(f"node-{first // per_node:0{width}d}", min(per_node, gpus - first)) for first in range(0, gpus, per_node)
    )


def _node(name: str, devices: int) -> Node:
    return Node(
        name=name,
        devices=tuple(
            Device(id=f"{name}-{index}", index=index, model=_MODEL, memory=_MEMORY, pool=POOL)
            for index in range(devices)
        ),
    )
