"""Queues: where workloads wait, with the quotas and limits that apply there."""

from dataclasses import dataclass

from .amount import NO_GPU, MiB, MilliGpu, Seconds

#: The queue above every user's fixed quota. A user's own leaf is `build_queue(user)`.
BUILD_ROOT = "build"
#: The highest and the lowest priority of a job. Most users may not use all of this range.
MAX_PRIORITY, MIN_PRIORITY = 100, -100


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    """A node of the queue tree. Only leaves have workloads; quotas and limits of all queues up to the root apply."""

    name: str
    #: The pool whose devices the queue's workloads use; the same in a whole subtree.
    pool: str
    #: Name of the queue above; None for a root.
    parent: str | None = None
    #: GPUs that are guaranteed to the queue (its deserved quota).
    quota: MilliGpu = NO_GPU
    #: GPUs that the queue may never exceed; None = no limit.
    limit: MilliGpu | None = None
    #: CPU (thousandths of a core) and memory that the queue may never exceed; None = no limit.
    cpu_limit: int | None = None
    memory_limit: MiB | None = None
    #: CPU and memory that are guaranteed to the queue: for work that needs them, it reclaims what other queues use
    #: above their own quotas. None = no quota, so the queue is never above it.
    cpu_quota: int | None = None
    memory_quota: MiB | None = None
    #: The queue's part of the idle devices, relative to its siblings; 0 = none, so it borrows only what is left over.
    over_quota_weight: int = 1
    #: Idle devices go to siblings of higher priority first.
    priority: int = 0
    #: Work of the queue is not preempted inside the queue before it has run for this time; None = as the queue above.
    preempt_min_runtime: Seconds | None = None
    #: Work of the queue is not reclaimed by another queue before it has run for this time; None = as the queue above.
    reclaim_min_runtime: Seconds | None = None


def build_queue(user: str) -> str:
    """Return the name of the leaf that holds the fixed quota of `user`."""
    return f"{BUILD_ROOT}/{user}"
