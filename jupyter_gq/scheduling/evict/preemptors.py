"""Name the preemptor of each victim anew at the end of a cycle, since other work may have got the devices by then.

Rules
-----
True names: the owner of the victim is told who gets the devices, and that workload is served first once they are free.
So the name must be true.

Kept places: a place for which work was told to stop belongs to its preemptor until that workload starts, gives up or is
not allowed to start any more. So the place is recorded, and later cycles nominate the preemptor for it before they
consider any other work. A workload of the same queue that is older but not entitled does not get the place, nor does
the growth of elastic work. If a preemptor lost its place to entitled work of the victim's queue, of which no reason
would be true, the name stays, and the place of that work is recorded.

See docs/decisions/0072-record-the-place-for-which-work-was-stopped.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.decision import Evict
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.evictions import Evictions, ReplicaEviction
from jupyter_gq.scheduling.state.reservations import Reservations
from jupyter_gq.scheduling.workloads.replicas import whole_workload
from jupyter_gq.scheduling.workloads.seniority import by_seniority

from . import notices
from .eviction import describe_reclaim_now


def name_preemptors(index: ClusterIndex, allocations: Allocations, evictions: Evictions) -> None:
    """Change the preemptor of each eviction of this cycle whose preemptor got no place.

    The new one is the nominee with the highest seniority that gets a device of the victim. The sentence changes as
    well. If there is no such nominee, or the reason would not be true of it, the eviction stays as it is.
    """
    nominees, served = _nominees_by_device(allocations), served_workloads(index, allocations)
    for name in evictions.migrations.keys() & evictions.evicted.keys():
        # Work that goes on elsewhere makes its own preemptor the one for which the work there stops.
        preemptor = index.workloads.get(evictions.evicted[name].by or "")
        if preemptor is not None and preemptor.id in served:
            nominees |= {device: preemptor for task in evictions.migrations[name] for device in task.devices}
    for instruction in list(evictions.evicted.values()):
        if not isinstance(instruction, Evict) or instruction.by is None or instruction.by in served:
            continue
        victim = index.workloads[instruction.workload]
        nominee = _senior_nominee(nominees, victim)
        sentence = None if nominee is None else _sentence(allocations, evictions, instruction.reason, victim, nominee)
        if nominee is not None and sentence is not None:
            evictions.evicted[victim.id] = replace(instruction, by=whole_workload(nominee).id, sentence=sentence)
    for eviction in list(evictions.replicas.values()):
        if eviction.by is not None and eviction.by not in served:
            _change_preemptor(allocations, evictions, eviction, _senior_nominee(nominees, eviction.replica))


def record_nominations(
    index: ClusterIndex, allocations: Allocations, reservations: Reservations, evictions: Evictions
) -> None:
    """Record the nominated places of workloads for which other work stops, and of workloads that move.

    Later cycles keep recorded places, also once the victims have stopped: see `state.cycle_state`. If a preemptor got
    no place, the place of the nominee that gets a device of its victim is recorded instead. The place of a nominee that
    is not preemptible is recorded if this cycle reclaims work of its queue: the nominee counts in its queue at once, so
    it may be why that work is reclaimed.
    """
    preemptors = evictions.preemptors() & allocations.nominated.keys()
    preemptors |= _find_heirs(index, allocations, evictions)
    preemptors |= _find_fixed_nominees(index, allocations, evictions)
    reservations.nominated |= preemptors | (evictions.migrations.keys() & reservations.recorded)
    reservations.recorded |= preemptors


def _find_heirs(index: ClusterIndex, allocations: Allocations, evictions: Evictions) -> set[str]:
    """Return the ids of the pending nominees that get devices of victims whose preemptors got no place."""
    if not evictions.evicted and not evictions.replicas:
        return set()
    served = served_workloads(index, allocations)
    gone = [each.workload for each in evictions.evicted.values() if each.by is not None and each.by not in served]
    victims = [index.workloads[name] for name in gone]
    victims += [each.replica for each in evictions.replicas.values() if each.by is not None and each.by not in served]
    if not victims:
        return set()
    nominees = _nominees_by_device(allocations)
    heirs = {heir.id for victim in victims if (heir := _senior_nominee(nominees, victim)) is not None}
    return heirs & allocations.pending.keys()


def _find_fixed_nominees(index: ClusterIndex, allocations: Allocations, evictions: Evictions) -> set[str]:
    """Return the ids of pending nominees that are not preemptible, in the queues from which work is reclaimed."""
    reclaimed = EvictReason.RECLAIMED
    whole = [each for each in evictions.evicted.values() if isinstance(each, Evict) and each.reason is reclaimed]
    queues = {index.workloads[each.workload].queue for each in whole}
    queues |= {each.replica.queue for each in evictions.replicas.values() if each.reason is reclaimed}
    nominees = (allocations.pending[name] for name in allocations.nominated.keys() & allocations.pending.keys())
    return {each.id for each in nominees if each.queue in queues and not each.preemptible}


def served_workloads(index: ClusterIndex, allocations: Allocations) -> set[str]:
    """Return the ids of the workloads that this cycle has placed or nominated, and of all suspended notebooks."""
    placed = [*map(allocations.nominee, allocations.nominated), *allocations.admitted.values()]
    # A suspended notebook that is used again keeps the place that it has, so it is not among the nominees.
    return {whole_workload(each).id for each in placed} | index.holders.lenders.by_id.keys()


def _nominees_by_device(allocations: Allocations) -> dict[str, Workload]:
    """Return, for each device, the workload or replica with the highest seniority that is nominated for it."""
    found: dict[str, Workload] = {}
    for nominee in by_seniority(map(allocations.nominee, allocations.nominated)):
        for task in allocations.nominated[nominee.id]:
            for device in task.devices:
                found.setdefault(device, nominee)
    return found


def _senior_nominee(nominees: Mapping[str, Workload], victim: Workload) -> Workload | None:
    """Return the nominee with the highest seniority that gets a device of the victim; None if there is none."""
    found = [nominees[device] for task in victim.placement for device in task.devices if device in nominees]
    return next(by_seniority(found), None)


def _change_preemptor(
    allocations: Allocations, evictions: Evictions, eviction: ReplicaEviction, nominee: Workload | None
) -> None:
    """Make the nominee the preemptor of an evicted replica, with a new sentence.

    Nothing changes if the nominee is None, the replica moves, or the reason would not be true of the nominee.
    """
    if nominee is None or eviction.reason is EvictReason.CONSOLIDATED:
        return
    writer = _writer(allocations, eviction.reason, eviction.replica, nominee)
    if writer is not None:
        by = whole_workload(nominee).id
        changed = replace(eviction, by=by, sentence=lambda replica: writer(replica, nominee))
        evictions.replicas[eviction.replica.id] = changed


def _sentence(
    allocations: Allocations, evictions: Evictions, reason: EvictReason, victim: Workload, nominee: Workload
) -> str | None:
    """Return the sentence that names `nominee` as the preemptor; None if the reason is not true of it."""
    if reason is EvictReason.CONSOLIDATED:
        return notices.describe_move(victim, nominee, sorted({task.node for task in evictions.migrations[victim.id]}))
    writer = _writer(allocations, reason, victim, nominee)
    return None if writer is None else writer(victim, nominee)


def _writer(
    allocations: Allocations, reason: EvictReason, victim: Workload, nominee: Workload
) -> Callable[[Workload, Workload], str] | None:
    """Return the function that words an eviction for this reason; None if the reason is not true of the nominee."""
    if reason is EvictReason.RECLAIMED and nominee.queue != victim.queue:
        return describe_reclaim_now(allocations, nominee)
    if reason is EvictReason.PREEMPTED and nominee.queue == victim.queue and nominee.priority > victim.priority:
        return notices.describe_preemption
    return None
