"""Enforce limits that were lowered under running work: evict until each queue is within its limits again.

Rules
-----
Order: work that its queues hold above their own quotas goes first, then the rest, each in the order of disruption. For
CPU and memory only the quotas count that are set; a queue without one is never above it.

Preemptible only: other work was entitled when it started and is left alone. The queue then stays above its limit until
that work ends.

Same resource: work that holds nothing of the exceeded resource stays.

Limits only: a lowered *quota* needs nothing here, since work above it can be reclaimed.
"""

from collections.abc import Sequence

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.quota.accounts import Account
from jupyter_gq.scheduling.quota.limits import QueueLimit, exceeded_limits, exceeded_limits_above, first_limit_below
from jupyter_gq.scheduling.quota.reclaim_rights import is_above_host_quota
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.evictions import Evictions, ReplicaEviction
from jupyter_gq.scheduling.workloads.disruption import by_disruption
from jupyter_gq.scheduling.workloads.replicas import Replica

from . import notices
from .victims import staying_holders


def enforce_limits(index: ClusterIndex, allocations: Allocations, evictions: Evictions) -> None:
    """Evict preemptible work from every queue that will be above a limit once everything that stops has stopped.

    Stops as soon as the queue is within its limits. A queue stays above a limit if only work that is not preemptible is
    left.
    """
    if not any(any(exceeded_limits(account)) for account in allocations.accounts):
        return
    gone: set[str] = set()
    for entitled in (False, True):
        holders = (each for each in staying_holders(index, allocations, evictions) if each.preemptible)
        for victim in by_disruption(holders):
            broken = None if victim.id in gone else _exceeded_limit(allocations, victim, entitled=entitled)
            if broken is not None:
                for each in (*allocations.replicas.surplus_of(victim), victim):
                    gone.add(each.id)
                    allocations.release(each)
                    _evict(allocations, evictions, each, broken)


def _exceeded_limit(allocations: Allocations, victim: Workload, *, entitled: bool) -> QueueLimit | None:
    """Return an exceeded limit of a queue on the victim's path, of a resource that the victim holds.

    Returns None if there is none. If `entitled` is false, a limit counts only if each queue from the leaf up to that
    queue is above its quota.
    """
    chain = allocations.account(victim).chain
    broken = exceeded_limits_above(chain[0], victim)
    return next((each for each in broken if entitled or _is_over_quota_below(each, chain)), None)


def _is_over_quota_below(broken: QueueLimit, chain: Sequence[Account]) -> bool:
    """Tell whether each queue from the leaf to the one with the exceeded limit is above its quota of the resource."""
    path = tuple(chain[: chain.index(broken.account) + 1])
    if broken.resource is None:
        return all(each.lasting > each.deserved for each in path)
    return is_above_host_quota(path, broken.resource)


def _evict(allocations: Allocations, evictions: Evictions, victim: Workload, broken: QueueLimit) -> None:
    """Decide the eviction of one released victim because of the limit that its queue exceeds."""
    too_low = first_limit_below(allocations.account(victim), victim)
    if isinstance(victim, Replica):
        evictions.evict_replica(
            ReplicaEviction(
                replica=victim,
                reason=EvictReason.QUOTA_LOWERED,
                by=None,
                sentence=lambda replica: notices.describe_over_limit(replica, broken, too_low),
            )
        )
    else:
        evictions.evict(victim, EvictReason.QUOTA_LOWERED, None, notices.describe_over_limit(victim, broken, too_low))
