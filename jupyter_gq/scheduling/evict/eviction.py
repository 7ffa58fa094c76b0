"""Decide that work goes: whole workloads, suspensions, and the victims that a search found.

If only replicas of elastic work go, the rest of it goes on.
"""

from collections.abc import Callable, Sequence
from functools import partial

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.admit.start import try_admit
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.evictions import Evictions, ReplicaEviction
from jupyter_gq.scheduling.workloads.replicas import Replica, whole_workload

from . import notices


def evict_whole(
    allocations: Allocations, evictions: Evictions, workload: Workload, reason: EvictReason, sentence: str
) -> None:
    """Release a workload with all its replicas, and decide their eviction, for no other workload.

    Replicas that the workload was to get in this cycle do not start.
    """
    for unit in reversed(allocations.replicas.split(workload)):
        allocations.release(unit)
    evict_released(allocations, evictions, workload, reason, None, lambda _: sentence)


def evict_released(
    allocations: Allocations,
    evictions: Evictions,
    workload: Workload,
    reason: EvictReason,
    by: str | None,
    sentence: Callable[[Workload], str],
) -> None:
    """Decide the eviction of a workload that was released with all its replicas, for the workload of the id `by`.

    Replicas that the workload was to get in this cycle do not start. `sentence` tells its owner why; the function is
    given the workload or the replica that goes.
    """
    core, *replicas = allocations.replicas.split(workload)
    for replica in reversed(replicas):
        if replica.id in allocations.admitted:
            allocations.retract(replica)
        elif replica.id in allocations.nominated:
            allocations.drop_nomination(replica)
        elif isinstance(replica, Replica):
            evictions.evict_replica(ReplicaEviction(replica=replica, reason=reason, by=by, sentence=sentence))
    evictions.evict(core, reason, by, sentence(workload))


def suspend(allocations: Allocations, evictions: Evictions, notebook: Workload, by: str | None, sentence: str) -> None:
    """Decide to suspend a released notebook, and count its usage in its queue again, since it keeps its quota."""
    allocations.restore_usage(notebook)
    evictions.suspend(notebook, by, sentence)


def evict_victims(
    allocations: Allocations, evictions: Evictions, victims: Sequence[Workload], preemptor: Workload
) -> bool:
    """Decide the eviction of the released victims of a nominated preemptor. Victims placed in this cycle do not start.

    Victims of the preemptor's own queue are preempted, and all others reclaimed. Returns True if this cycle had
    admitted or nominated a victim. If it had placed all of them, the preemptor is admitted at once, if it fits.
    """
    undone, stops = drop_victims(allocations, evictions, victims, preemptor)
    if undone and not stops:
        place = allocations.withdraw(preemptor)
        if not try_admit(allocations, preemptor):
            allocations.nominate_again(preemptor, place)
    return undone


def drop_victims(
    allocations: Allocations, evictions: Evictions, victims: Sequence[Workload], preemptor: Workload
) -> tuple[bool, bool]:
    """Decide the eviction of released victims for a preemptor, and that victims placed in this cycle do not start.

    A victim that this cycle moves does not go on at its new place. Returns whether this cycle had placed some of them,
    and whether some of them run there and have to stop.
    """
    undone = stops = False
    for victim in victims:
        if victim.id in allocations.admitted:
            allocations.retract(victim)
            undone = True
        elif victim.id in allocations.nominated:
            allocations.drop_nomination(victim)
            undone = True
        elif victim.id in evictions.migrations:
            _evict_victim(allocations, evictions, victim, preemptor)
            undone = True
        else:
            _evict_victim(allocations, evictions, victim, preemptor)
            stops = True
    return undone, stops


def describe_reclaim_now(allocations: Allocations, preemptor: Workload) -> Callable[[Workload, Workload], str]:
    """Return `describe_reclaim` as it is true now that the preemptor has a place: whether its queue borrows."""
    return partial(notices.describe_reclaim, borrows=allocations.account(preemptor).over_quota > 0)


def _evict_victim(allocations: Allocations, evictions: Evictions, victim: Workload, preemptor: Workload) -> None:
    name = whole_workload(preemptor).id
    reason, describe = EvictReason.RECLAIMED, describe_reclaim_now(allocations, preemptor)
    if victim.queue == preemptor.queue:
        reason, describe = EvictReason.PREEMPTED, notices.describe_preemption
    if isinstance(victim, Replica):
        evictions.evict_replica(
            ReplicaEviction(
                replica=victim, reason=reason, by=name, sentence=lambda replica: describe(replica, preemptor)
            )
        )
    elif victim.id in evictions.migrations:
        evictions.end_move(victim.id, reason, name, describe(victim, preemptor))
    else:
        evictions.evict(victim, reason, name, describe(victim, preemptor))
