"""Name the preemptor of each victim anew at the end of a cycle, since other work may have got the devices by then.

Rules
-----
True names: the owner of the victim is told who gets the devices, and that workload is served first once they are free.
So the name must be true.

Kept places: a place for which work was told to stop belongs to its preemptor until that workload starts, gives up or is
not allowed to start any more. So the place is recorded, and later cycles nominate the preemptor for it before they
consider any other work. A workload of the same queue that is older but not entitled does not get the place, nor does
the growth of elastic work.

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
from jupyter_gq.scheduling.workloads.seniority import seniority

from . import notices


def name_preemptors(index: ClusterIndex, allocations: Allocations, evictions: Evictions) -> None:
    """Name a workload that is nominated for the devices of a victim if the victim's preemptor got no place."""
    heirs = _heirs(allocations)
    placed = [*map(allocations.nominee, allocations.nominated), *allocations.admitted.values()]
    served = {whole_workload(each).id for each in placed}
    for instruction in list(evictions.evicted.values()):
        if not isinstance(instruction, Evict) or instruction.by is None or instruction.by in served:
            continue
        victim = index.workloads[instruction.workload]
        heir = _heir_of(heirs, victim)
        sentence = None if heir is None else _sentence(evictions, instruction.reason, victim, heir)
        if heir is not None and sentence is not None:
            evictions.evicted[victim.id] = replace(instruction, by=heir.id, sentence=sentence)
    for eviction in list(evictions.replicas.values()):
        if eviction.by is not None and eviction.by not in served:
            _name_heir(evictions, eviction, _heir_of(heirs, eviction.replica))


def record_nominations(allocations: Allocations, reservations: Reservations, evictions: Evictions) -> None:
    """Record the place of each workload for which other work stops, and of each workload that moves.

    Later cycles keep these places, also once the victims have stopped: see `state.cycle_state`.
    """
    earlier = (each.stop for each in evictions.stopping.values() if each.stop is not None)
    stops = (*evictions.evicted.values(), *evictions.replicas.values(), *earlier)
    preemptors = {each.by for each in stops if each.by is not None} & allocations.nominated.keys()
    reservations.nominated |= preemptors | (evictions.migrations.keys() & reservations.recorded)
    reservations.recorded |= preemptors


def _heirs(allocations: Allocations) -> dict[str, Workload]:
    """Return the pending workload with the highest seniority that is nominated for each device."""
    found: dict[str, Workload] = {}
    nominees = (allocations.pending[name] for name in allocations.nominated if name in allocations.pending)
    for nominee in sorted(nominees, key=seniority):
        for task in allocations.nominated[nominee.id]:
            for device in task.devices:
                found.setdefault(device, nominee)
    return found


def _heir_of(heirs: Mapping[str, Workload], victim: Workload) -> Workload | None:
    """Return the workload with the highest seniority that gets a device of the victim; None if there is none."""
    found = [heirs[device] for task in victim.placement for device in task.devices if device in heirs]
    return min(found, key=seniority, default=None)


def _name_heir(evictions: Evictions, eviction: ReplicaEviction, heir: Workload | None) -> None:
    """Name the workload that gets the devices of an evicted replica as the preemptor, with its sentence."""
    if heir is None or eviction.reason is EvictReason.CONSOLIDATED:
        return
    writer = _writer(eviction.reason, eviction.replica, heir)
    if writer is not None:
        changed = replace(eviction, by=heir.id, sentence=lambda replica: writer(replica, heir))
        evictions.replicas[eviction.replica.id] = changed


def _sentence(evictions: Evictions, reason: EvictReason, victim: Workload, heir: Workload) -> str | None:
    """Return the sentence for the same reason with another preemptor; None if it would not be true of that one."""
    if reason is EvictReason.CONSOLIDATED:
        return notices.describe_move(victim, heir, sorted({task.node for task in evictions.migrations[victim.id]}))
    writer = _writer(reason, victim, heir)
    return None if writer is None else writer(victim, heir)


def _writer(reason: EvictReason, victim: Workload, heir: Workload) -> Callable[[Workload, Workload], str] | None:
    """Return the notice for an eviction of this reason; None if the reason is not true of the heir."""
    if reason is EvictReason.RECLAIMED and heir.queue != victim.queue:
        return notices.describe_reclaim
    if reason is EvictReason.PREEMPTED and heir.queue == victim.queue and heir.priority > victim.priority:
        return notices.describe_preemption
    return None
