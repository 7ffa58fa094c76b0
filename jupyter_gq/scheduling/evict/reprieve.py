"""Reprieve victims whose devices turned out not to be needed, since their preemptor got other devices or none.

Rules
-----
Order: the victim that was evicted last is asked first.

Free devices: no victim stays if its devices are taken or if it would be above a limit.

Lent shares: a borrower that leaves for a suspended notebook does not stay, also if other work there stops meanwhile.
Such work may need long for it, and the notebook was promised its share sooner.

Moves: a victim that goes on elsewhere stays if its old place is free, for instance beside its preemptor, because what
goes for its new place made room there (see `resettle`).

Rights: a preemptor may owe its place to a victim whose own devices it does not need, since less use above both of them
gives it the right to other devices (see `rights`). So a victim of a preemptor with a place does not stay if it would
lift a queue above both of them above its fair share.

Lost preemptors: if the preemptor of a victim got no place, the victim does not go for work that has itself no right to
its place, such as later work of its own queue or work that only fitted into the room of several victims. The victim
could take the place back as soon as it has stopped, again and again. Work of the preemptor's queue that comes before
the preemptor in the job order inherits its right. Victims of lost preemptors are asked one after the other, and those
that are asked later count as work that stays. So nominees keep as many places as they may take from the queues of these
victims. A replica is such a victim as well.

Start at once: a preemptor that fits now without its reprieved victims is admitted.

See docs/decisions/0299-leave-the-room-of-a-lost-preemptor-to-its-victims.md and
docs/decisions/0300-leave-the-room-of-a-lost-preemptor-to-replicas-too.md.
"""

from collections.abc import Sequence
from dataclasses import replace

from jupyter_gq.domain.queue_tree import common_end
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.admit.start import admit_nominee
from jupyter_gq.scheduling.decision import Evict, Suspend
from jupyter_gq.scheduling.quota.limits import exceeded_limits_above
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions, ReplicaEviction
from jupyter_gq.scheduling.state.reservations import Reservations
from jupyter_gq.scheduling.workloads.seniority import seniority

from .preemptors import served_workloads
from .rights import Rights

#: Victims that go whether or not other work needs their devices.
_UNCONDITIONAL = frozenset({EvictReason.STALE_GANG, EvictReason.NODE_EMPTIED})


def reprieve_victims(
    inputs: CycleInputs, allocations: Allocations, reservations: Reservations, evictions: Evictions
) -> None:
    """Take back the evictions and migrations of this cycle that no workload needs, those decided last first.

    Decided suspensions, stale gangs, drains, migrations of single replicas and borrowers that leave for a suspended
    notebook are never taken back. An elastic workload that stays may want replicas again. Preemptors that fit at once
    without their reprieved victims are admitted.
    """
    lost = _victims_of_lost(inputs.index, allocations, evictions)
    reprieved = [
        *_reprieve_workloads(inputs, allocations, reservations, evictions, lost),
        *_reprieve_replicas(inputs, allocations, evictions, lost),
    ]
    for preemptor in dict.fromkeys(each.by for each in reprieved):
        if preemptor in allocations.nominated and preemptor in allocations.pending:
            admit_nominee(allocations, reservations, allocations.pending[preemptor])


def _reprieve_workloads(
    inputs: CycleInputs,
    allocations: Allocations,
    reservations: Reservations,
    evictions: Evictions,
    lost: dict[str, Workload],
) -> list[Evict | Suspend]:
    """Take back evictions and migrations of whole workloads, and return what was taken back.

    Each workload that is asked is removed from `lost`.
    """
    found, index = [], inputs.index
    for instruction in reversed(list(evictions.evicted.values())):
        victim = evictions.stopping[instruction.workload]
        is_lost = lost.pop(victim.id, None) is not None
        stays = False
        if isinstance(instruction, Evict) and victim.id in evictions.migrations:
            stays = _cancel_migration(index, allocations, reservations, evictions, instruction)
        elif _may_stay(index, instruction):
            stays = _take_back(index, allocations, victim, instruction.by)
            if is_lost and not stays:
                stays = _take_back_from_nominees(inputs, allocations, victim, instruction.by, list(lost.values()))
        if stays:
            found.append(instruction)
            evictions.reprieve(victim)
            if victim.elastic:
                allocations.replicas.want(allocations.replicas.current(index.workloads[victim.id]))
    return found


def _victims_of_lost(index: ClusterIndex, allocations: Allocations, evictions: Evictions) -> dict[str, Workload]:
    """Return the victims of this cycle whose preemptors got no place and that do not go on elsewhere, by id.

    Workloads that were to move are among them in any case: the work for which they were to move has their places,
    and has no right to these by that. Replicas are among them, unless their whole workload goes.
    """
    if not evictions.evicted and not evictions.replicas:
        return {}
    served = served_workloads(index, allocations)
    found = {
        name: evictions.stopping[name]
        for name, each in evictions.evicted.items()
        if _may_stay(index, each)
        and each.by is not None
        and (each.by not in served or evictions.lost_its_move(name))
        and name not in evictions.migrations
    }
    replicas = (each for each in evictions.replicas.values() if _may_replica_stay(index, each, evictions))
    return found | {each.replica.id: each.replica for each in replicas if each.by is not None and each.by not in served}


def _reprieve_replicas(
    inputs: CycleInputs, allocations: Allocations, evictions: Evictions, lost: dict[str, Workload]
) -> list[ReplicaEviction]:
    """Take back evictions of replicas whose workloads stay, and return what was taken back.

    Each replica that is asked is removed from `lost`.
    """
    found = []
    for eviction in reversed(list(evictions.replicas.values())):
        replica = eviction.replica
        if not _may_replica_stay(inputs.index, eviction, evictions):
            continue
        is_lost = lost.pop(replica.id, None) is not None
        stays = _take_back(inputs.index, allocations, replica, eviction.by)
        if is_lost and not stays:
            stays = _take_back_from_nominees(inputs, allocations, replica, eviction.by, list(lost.values()))
        if stays:
            found.append(eviction)
            evictions.reprieve_replica(replica)
    return found


def _may_replica_stay(index: ClusterIndex, eviction: ReplicaEviction, evictions: Evictions) -> bool:
    """Tell whether the eviction of a replica may be taken back: it neither moves nor has to go, and the rest stays."""
    needed = eviction.reason is EvictReason.CONSOLIDATED or eviction.reason in _UNCONDITIONAL
    needed = needed or eviction.by in index.holders.lenders.by_id
    return not needed and eviction.replica.whole.id not in evictions.evicted


def _may_stay(index: ClusterIndex, instruction: Evict | Suspend) -> bool:
    """Tell whether the decision may be taken back.

    False for a suspension, a stale gang, a drained node, and a borrower that leaves for a suspended notebook.
    """
    is_needed = instruction.by in index.holders.lenders.by_id
    return isinstance(instruction, Evict) and instruction.reason not in _UNCONDITIONAL and not is_needed


def _take_back_from_nominees(
    inputs: CycleInputs, allocations: Allocations, victim: Workload, preemptor: str | None, others: Sequence[Workload]
) -> bool:
    """Do what `_take_back` does after nominees without a right to the victim have lost their nominations at its nodes.

    Nominees that still fit beside the victim keep their nominations, and all do if that does not help. `others` are the
    victims of lost preemptors that are asked later.
    """
    nominees = _nominees_without_right(inputs, allocations, victim, preemptor, others)
    places = {nominee.id: allocations.withdraw(nominee) for nominee in nominees}
    stays = _take_back(inputs.index, allocations, victim, preemptor)
    for nominee in nominees:
        if stays:
            with allocations.lifting_reservations(nominee):
                allocations.nominate_at(nominee, places[nominee.id])
        else:
            allocations.nominate_again(nominee, places[nominee.id])
    return stays


def _nominees_without_right(
    inputs: CycleInputs, allocations: Allocations, victim: Workload, preemptor: str | None, others: Sequence[Workload]
) -> list[Workload]:
    """Return the work that is nominated for a node of the victim, without the right that the victim goes for it.

    Work whose place earlier cycles recorded is left out, and so is work that inherits the right of the `preemptor`.
    """
    nodes = {task.node for task in victim.placement}
    there = [name for name, place in allocations.nominated.items() if any(task.node in nodes for task in place)]
    nominees = [allocations.nominee(name) for name in there]
    lost = inputs.index.workloads.get(preemptor or "")
    strangers = [each for each in nominees if not (each.reserved or _inherits(each, lost))]
    return [each for each in strangers if not _may_evict(inputs, allocations, each, victim, others)]


def _inherits(nominee: Workload, lost: Workload | None) -> bool:
    """Tell whether a nominee may have the room of a lost preemptor, since it comes before it in their queue."""
    return lost is not None and nominee.queue == lost.queue and seniority(nominee) < seniority(lost)


def _may_evict(
    inputs: CycleInputs, allocations: Allocations, nominee: Workload, victim: Workload, others: Sequence[Workload]
) -> bool:
    """Tell whether a nominee had the right to evict the victim if neither had been decided; changes nothing.

    The `others` count as work that stays, since each of them stays unless a nominee has the right to its place.
    """
    if inputs.protected_for(victim, nominee) > 0:
        return False
    at_place = allocations.nominee_at_place(nominee.id)
    allocations.drop_usage(at_place)
    for each in (victim, *others):
        allocations.restore_usage(each)
    allowed = Rights(inputs.policy, allocations, nominee).allows(victim)
    for each in (victim, *others):
        allocations.drop_usage(each)
    allocations.restore_usage(at_place)
    return allowed


def _take_back(index: ClusterIndex, allocations: Allocations, victim: Workload, preemptor: str | None) -> bool:
    """Undo the release of a victim, if its place is free, it exceeds no limit and the preemptor keeps its rights.

    Returns False, without change, otherwise. `preemptor` is the id of the workload for which the victim goes, if any.
    """
    if not allocations.undo_release(victim):
        return False
    exceeds_limit = any(exceeded_limits_above(allocations.account(victim), victim))
    if exceeds_limit or (preemptor is not None and _takes_right(allocations, victim, index.workloads[preemptor])):
        allocations.release(victim)
        return False
    return True


def _takes_right(allocations: Allocations, victim: Workload, preemptor: Workload) -> bool:
    """Tell whether a victim that stays leaves a placed preemptor without the right to its place."""
    if not allocations.has_place(preemptor.id):
        return False
    above_both = common_end(allocations.account(victim).chain, allocations.account(preemptor).chain)
    return any(each.lasting > each.fair_share for each in above_both)


def _cancel_migration(
    index: ClusterIndex, allocations: Allocations, reservations: Reservations, evictions: Evictions, instruction: Evict
) -> bool:
    """Let a workload stay where it is instead of moving, as far as `_take_back` allows; tell whether it stays.

    At its new place the workload may be smaller than it is. If it does not stay, nothing changes.
    """
    # While its place may be taken back, the workload is no mover: its new place may be the one where it is.
    workload, new_place = evictions.stopping[instruction.workload], evictions.migrations.pop(instruction.workload)
    moved = replace(workload, placement=new_place)
    allocations.ledger.withdraw(workload, new_place)
    allocations.drop_usage(moved)
    preemptor = None if instruction.reason is EvictReason.CONSOLIDATED else instruction.by
    if not _take_back(index, allocations, workload, preemptor):
        allocations.restore_usage(moved)
        allocations.ledger.nominate(workload, new_place)
        evictions.migrations[workload.id] = new_place
        return False
    reservations.recorded.discard(workload.id)
    return True
