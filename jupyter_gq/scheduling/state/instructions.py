"""The instructions of a cycle, made from its state when everything is decided, in the order of carrying them out."""

from dataclasses import replace

from jupyter_gq.domain.amount import MilliGpu
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.decision import Admit, Grow, Instruction, Reserve, Shrink
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.replicas import whole_workload

from .allocations import Allocations
from .cluster_index import ClusterIndex
from .evictions import Evictions
from .reservations import Reservations


def instructions_of(
    index: ClusterIndex, allocations: Allocations, reservations: Reservations, evictions: Evictions
) -> tuple[Instruction, ...]:
    """Return all instructions: resumes, starts in order of admission, evictions, warnings, shrinks, changed places."""
    return (
        *allocations.resumed,
        *_starts(allocations),
        *evictions.evicted.values(),
        *evictions.warnings,
        *_shrinks(allocations, evictions),
        *_reservations(index, allocations, reservations, evictions),
    )


def _starts(allocations: Allocations) -> list[Admit | Grow]:
    """Return one instruction for each workload that starts or grows, in the order of admission.

    Usage of a queue above its quota is ascribed to its workloads admitted last.
    """
    over = {account.queue.name: account.over_quota - account.nominated_usage for account in allocations.accounts}
    admitted: dict[str, list[Workload]] = {}
    for each in allocations.admitted.values():
        admitted.setdefault(whole_workload(each).id, []).append(each)
    starts: list[Admit | Grow] = []
    for name, units in reversed(admitted.items()):
        queue = units[0].queue
        milli = sum(gang.held(unit) for unit in units)
        over_quota = max(0, min(milli, over[queue])) if units[0].preemptible else 0
        over[queue] -= over_quota
        placement = tuple(task for unit in units for task in unit.placement)
        if name in allocations.admitted:
            starts.append(Admit(workload=name, placement=placement, over_quota=MilliGpu(over_quota)))
        else:
            starts.append(Grow(workload=name, placement=placement))
    starts.reverse()
    return starts


def _shrinks(allocations: Allocations, evictions: Evictions) -> list[Shrink]:
    """Return one instruction for all replicas that a workload loses for the same reason and the same preemptor.

    Workloads that are evicted as a whole are left out. The sentence says what is left of the workload in the end.
    """
    found: dict[tuple[str, EvictReason, str | None], Shrink] = {}
    for each in evictions.replicas.values():
        left = allocations.replicas.current(each.replica.whole)
        if left.id in evictions.evicted:
            continue
        key = (left.id, each.reason, each.by)
        before = found[key].placement if key in found else ()
        found[key] = Shrink(
            workload=left.id,
            placement=(*before, *each.replica.placement),
            reason=each.reason,
            by=each.by,
            sentence=each.sentence(replace(each.replica, whole=left)),
        )
    return list(found.values())


def _reservations(
    index: ClusterIndex, allocations: Allocations, reservations: Reservations, evictions: Evictions
) -> list[Reserve]:
    """Return an instruction for each recorded place that changes, of workloads that do not start in this cycle.

    An empty place ends a record. Workloads of unobserved kinds keep their records.
    """
    found = []
    for name in sorted((index.reserved.keys() | reservations.recorded) - allocations.admitted.keys()):
        if not index.is_observed(index.workloads[name]):
            continue
        kept: tuple[TaskPlacement, ...] = ()
        place: tuple[TaskPlacement, ...] = ()
        if name in reservations.recorded:
            reserved = reservations.by_owner.get(name)
            kept = allocations.nominated.get(name) or evictions.migrations.get(name) or ()
            place = kept or (reserved.place if reserved else ())
        # A nominee that lost its place to another one may have a reservation for it instead.
        nominated = bool(kept) and name in reservations.nominated
        workload = index.workloads[name]
        if place != workload.reserved or (place and nominated is not workload.nominated):
            found.append(Reserve(workload=name, placement=place, nominated=nominated))
    return found
