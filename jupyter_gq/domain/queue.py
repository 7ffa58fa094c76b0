"""Queues: where workloads wait, and what is promised to them."""

from dataclasses import dataclass

from .amount import NO_GPU, MiB, MilliGpu, Seconds

#: The queue above every user's fixed quota. A user's own leaf is `build_queue(user)`.
BUILD_ROOT = "build"


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    """A node of the queue tree. Leaves take workloads; every check walks up to the root."""

    name: str
    #: The pool whose devices its workloads use; the same in a whole subtree.
    pool: str
    #: None for a root.
    parent: str | None = None
    #: What is guaranteed to it (its deserved quota).
    quota: MilliGpu = NO_GPU
    #: What it may never exceed; None = no limit.
    limit: MilliGpu | None = None
    #: Processors (thousandths of a core) and memory of nodes that it may never exceed; None = no limit.
    cpu_limit: int | None = None
    memory_limit: MiB | None = None
    #: Processors and memory that are guaranteed to it: what others use above theirs it takes back for work that needs
    #: them. None = nothing is said, so it is never above.
    cpu_quota: int | None = None
    memory_quota: MiB | None = None
    #: Its part of the idle devices, relative to its siblings; 0 = it never borrows.
    over_quota_weight: int = 1
    #: Surplus goes to higher priorities first.
    priority: int = 0
    #: What started here is not preempted inside this queue before it ran so long; None = as the queue above says.
    preempt_min_runtime: Seconds | None = None
    #: What started here is not reclaimed by another queue before it ran so long; None = as the queue above says.
    reclaim_min_runtime: Seconds | None = None


def build_queue(user: str) -> str:
    """The name of the leaf that holds the fixed quota of `user`."""
    return f"{BUILD_ROOT}/{user}"
