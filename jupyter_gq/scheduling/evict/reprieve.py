"""Reprieve victims whose devices turned out not to be needed, since their preemptor got other devices or none.

The victim that was evicted last is asked first. No victim stays if its devices are taken or if it would be above a
limit.
"""

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.decision import Evict, Suspend
from jupyter_gq.scheduling.quota.limits import exceeded_limits_above
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.state.reservations import Reservations

#: Victims that go whether or not other work needs their devices.
_UNCONDITIONAL = frozenset({EvictReason.STALE_GANG, EvictReason.NODE_EMPTIED})


def reprieve_victims(
    index: ClusterIndex, allocations: Allocations, reservations: Reservations, evictions: Evictions
) -> None:
    """Take back the evictions and migrations of this cycle that no workload needs, those decided last first.

    Suspensions, stale gangs and drains stay. An elastic workload that stays may want replicas again.
    """
    for instruction in reversed(list(evictions.evicted.values())):
        victim = evictions.stopping[instruction.workload]
        stays = False
        if victim.id in evictions.migrations:
            stays = _cancel_migration(allocations, reservations, evictions, victim)
        elif _may_stay(instruction):
            stays = _take_back(allocations, victim)
        if stays:
            evictions.reprieve(victim)
            if victim.elastic:
                allocations.replicas.want(allocations.replicas.current(index.workloads[victim.id]))
    for eviction in reversed(list(evictions.replicas.values())):
        replica, reason = eviction.replica, eviction.reason
        needed = reason is EvictReason.CONSOLIDATED or reason in _UNCONDITIONAL
        if not needed and replica.whole.id not in evictions.evicted and _take_back(allocations, replica):
            evictions.reprieve_replica(replica)


def _may_stay(instruction: Evict | Suspend) -> bool:
    """Tell whether the decision may be taken back: False for a suspension, a stale gang or a drained node."""
    return isinstance(instruction, Evict) and instruction.reason not in _UNCONDITIONAL


def _take_back(allocations: Allocations, victim: Workload) -> bool:
    """Undo the release of a victim, if its place is free and it exceeds no limit.

    Returns False, without change, otherwise.
    """
    if not allocations.undo_release(victim):
        return False
    if any(exceeded_limits_above(allocations.account(victim), victim)):
        allocations.release(victim)
        return False
    return True


def _cancel_migration(
    allocations: Allocations, reservations: Reservations, evictions: Evictions, workload: Workload
) -> bool:
    """Let a workload stay where it is instead of moving, if its old place is free; tell whether it stays.

    If the old place is taken, nothing changes.
    """
    ledger, new_place = allocations.ledger, evictions.migrations[workload.id]
    ledger.withdraw(workload, new_place)
    if not ledger.undo_release(workload, nominated=False):
        ledger.nominate(workload, new_place)
        return False
    del evictions.migrations[workload.id]
    reservations.recorded.discard(workload.id)
    return True
