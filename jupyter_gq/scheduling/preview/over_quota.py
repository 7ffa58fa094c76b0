"""The part of a workload above the quota of its queue: how much, who may take it back, how long it is protected."""

from collections.abc import Sequence

from jupyter_gq.domain.amount import NO_GPU, HostResource, MilliGpu, Seconds
from jupyter_gq.domain.queue_tree import find_leaves
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.quota.accounts import Accounts
from jupyter_gq.scheduling.quota.min_runtime import AT_ONCE, MinRuntimes
from jupyter_gq.scheduling.wording import (
    describe_duration,
    describe_gpus,
    enumerate_names,
    is_fixed_quota,
    name_host_amount,
)
from jupyter_gq.scheduling.workloads import gang

#: The most other queues that a preview names.
NAMED_QUEUES = 2


def find_over_quota(snapshot: Snapshot, workload: Workload) -> MilliGpu:
    """Return the milli-GPU of a workload above its queue's quota if it ran beside the work of the queue that runs.

    Work that is not preemptible is never above a quota, and work of an unknown queue is taken as within it.
    """
    queue = next((each for each in snapshot.queues if each.name == workload.queue), None)
    if queue is None or not workload.preemptible:
        return NO_GPU
    used = sum(gang.occupied(other) for other in snapshot.workloads if other.queue == workload.queue and other.holds)
    needed = gang.smallest(workload)
    return MilliGpu(max(0, min(needed, used + needed - queue.quota)))


def describe_over_quota(snapshot: Snapshot, policy: Policy, workload: Workload, milli: MilliGpu) -> str:
    """Return a clause about the part of a workload above its queue's quota; "" if there is none.

    `milli` is that part in milli-GPU. The clause says for which queues the workload may be paused, and for how long a
    run is protected from that.
    """
    over = _describe_amount(snapshot, workload, milli)
    if not over:
        return ""
    takers = _find_takers(snapshot, workload)
    names = _name_takers(takers)
    owner = " or ".join(names) if 0 < len(names) <= NAMED_QUEUES else "another queue"
    protected = _find_protection(snapshot, policy, workload, takers)
    when = f"but not within its first {describe_duration(protected)}" if protected else ""
    text = f"{over} over your queue's quota; may be paused when {owner} needs its GPUs back"
    return f"{text}, {when}" if when else text


def _find_takers(snapshot: Snapshot, workload: Workload) -> list[str]:
    """Return the names of the other leaf queues of the same pool that have a quota, for which work may be reclaimed."""
    pool = next(queue.pool for queue in snapshot.queues if queue.name == workload.queue)
    return sorted(
        queue.name
        for queue in find_leaves(snapshot.queues)
        if queue.pool == pool and queue.quota > 0 and queue.name != workload.queue
    )


def _name_takers(takers: Sequence[str]) -> list[str]:
    """Return the names of queues in sentences; the fixed quotas of users, which have no such names, are one of them."""
    names = [taker for taker in takers if not is_fixed_quota(taker)]
    return names if len(names) == len(takers) else [*names, "a notebook"]


def _find_protection(snapshot: Snapshot, policy: Policy, workload: Workload, takers: list[str]) -> Seconds:
    """Return for how many seconds a run of the workload is protected from every one of these queues."""
    accounts = Accounts(snapshot.queues)
    least = MinRuntimes(accounts, policy.min_runtime)
    own = accounts.of(workload.queue)
    return min((least.of(own, accounts.of(taker)) for taker in takers), default=AT_ONCE)


def _describe_amount(snapshot: Snapshot, workload: Workload, milli: MilliGpu) -> str:
    """Return the part above the queue's quota in words; "" if there is none.

    `milli` are the GPUs above quota. CPU and memory are added if the queue has a quota of them.
    """
    queue = next((each for each in snapshot.queues if each.name == workload.queue), None)
    quotas = (None, None) if queue is None else (queue.cpu_quota, queue.memory_quota)
    held = [gang.held_host(other) for other in snapshot.workloads if other.queue == workload.queue]
    parts = [describe_gpus(milli)] if milli else []
    for resource, quota, needed in zip(HostResource, quotas, gang.smallest_host(workload), strict=True):
        above = 0 if quota is None else needed + sum(used[resource] for used in held) - quota
        if above > 0:
            parts.append(name_host_amount(resource, min(above, needed)))
    return enumerate_names(parts) if parts else ""
