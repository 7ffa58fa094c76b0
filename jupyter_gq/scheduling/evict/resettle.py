"""Resettle victims: give evicted work that may take devices from others its new place in the same decision.

A large job may need a whole node. If no node runs only work of queues above their fair shares, some of its victims are
of queues within theirs. Such a victim would take devices from a queue above its share in the next cycle, so one
eviction would lead to another one. The same holds for a victim whose queue runs work of lower priority elsewhere. So
the large job takes from the queue above its share at once, and the first victim only moves there.

Rules
-----
Same rights: an evicted workload gets what it could take in the next cycle, by the rules of reclaim and preemption. That
may be the place of work that this cycle placed, which then does not start, or the new place of work that it moved.

Room by itself: evicted work that fits without victims starts again by itself in a later cycle. No other evicted work
counts on the same room, unless it has the right to that place.

True names: the work at the new place stops for the large job. If a min runtime or its priority protects some of it from
the large job, nothing stops there in this cycle.

Taking back: work that may take from the very job for which it goes stays where it is, and that job does not start.
Other work that stopped in this cycle may have given it that right.

One stop: the workload stops once and goes on at its new place. The place is recorded and kept, as in a move.

Elastic work: an evicted elastic workload goes on with its smallest gang. Nothing is resettled for the growth of elastic
work, whose next replicas are counted by what stops for it.

See docs/decisions/0098-resettle-victims-in-the-same-decision.md and docs/decisions/0106-resettle-all-victims.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.admit.start import may_fit_soon, try_nominate
from jupyter_gq.scheduling.decision import Evict
from jupyter_gq.scheduling.order.pending_queue import PendingQueue
from jupyter_gq.scheduling.order.queue_order import JobOrder
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.state.reservations import Reservations
from jupyter_gq.scheduling.workloads.request_class import any_workload

from . import notices, preempt, reclaim
from .eviction import drop_victims
from .victims import VictimIndex

_TAKEN = frozenset({EvictReason.RECLAIMED, EvictReason.PREEMPTED})


def resettle_victims(
    inputs: CycleInputs, allocations: Allocations, reservations: Reservations, evictions: Evictions
) -> bool:
    """Give new places to victims of this cycle that may take them from others, in the job order, until none can.

    The victims that this adds are considered as well. Returns True if something was undone that this cycle had admitted
    or nominated, so that it may fit elsewhere.
    """
    undone = False
    asked: set[str] = set()
    restarting: list[Workload] = []
    victims = VictimIndex(inputs, allocations, evictions)
    while waiting := [each for each in _evicted(inputs, allocations, evictions) if each.id not in asked]:
        asked |= {each.id for each in waiting}
        queues: dict[str, PendingQueue] = {}
        for each in waiting:
            queues.setdefault(each.queue, PendingQueue()).add(each)
        order = JobOrder(allocations.accounts, queues, any_workload)
        while (workload := order.next()) is not None:
            if _fits_by_itself(allocations, workload):
                restarting.append(workload)
                victims.add_restarting(replace(workload, placement=allocations.nominated[workload.id]))
                order.done()
                continue
            preemptor = _preemptor(inputs, evictions, workload)
            found = _find_place(inputs, allocations, workload, preemptor, victims)
            if found is None:
                order.skip_class()
                continue
            undone |= drop_victims(allocations, evictions, found, preemptor)[0]
            _go_on_there(inputs, allocations, reservations, evictions, workload)
            order.done()
            for victim in found:
                order.touch(allocations.account(victim))
    for workload in restarting:
        if workload.id in allocations.nominated:
            allocations.withdraw(workload)
    return undone


def _fits_by_itself(allocations: Allocations, workload: Workload) -> bool:
    """Nominate evicted work if it fits without victims; tell whether it was nominated.

    Other evicted work gets that room only with a right to it. The nominated work starts again by itself in a later
    cycle, so the caller withdraws a nomination that is left in the end.
    """
    with allocations.lifting_reservations(workload):
        return may_fit_soon(allocations, workload) and try_nominate(allocations, workload)


def _evicted(inputs: CycleInputs, allocations: Allocations, evictions: Evictions) -> Iterator[Workload]:
    """Yield the training work that this cycle evicted for pending work, as it will wait for its devices again.

    Work that certainly has no right to take from others, as things stand, is left out.
    """
    for instruction in evictions.evicted.values():
        workload = inputs.index.workloads[instruction.workload]
        taken = isinstance(instruction, Evict) and instruction.reason in _TAKEN
        if (
            taken
            and workload.kind is Kind.TRAINING
            and workload.id not in evictions.migrations
            and _preemptor(inputs, evictions, workload).state is State.PENDING
            and _is_promising(inputs, allocations, workload)
        ):
            yield replace(workload, state=State.PENDING, placement=())


def _is_promising(inputs: CycleInputs, allocations: Allocations, workload: Workload) -> bool:
    """Tell whether reclaim or preemption might help evicted work to devices of others."""
    return inputs.index.priorities.any_lower(workload) or reclaim.is_promising(allocations, workload)


def _find_place(
    inputs: CycleInputs, allocations: Allocations, workload: Workload, preemptor: Workload, victims: VictimIndex
) -> Sequence[Workload] | None:
    """Nominate evicted work by releasing work that runs, and return the released victims.

    None means that nothing helps that may go for the preemptor; then nothing has changed.
    """

    def find() -> Sequence[Workload] | None:
        found = None
        if reclaim.is_promising(allocations, workload):
            found = reclaim.take_from_others(inputs.policy, allocations, workload, victims)
        return found or preempt.take_from_queue(inputs.policy, allocations, workload, victims)

    mark = allocations.ledger.mark()
    with allocations.lifting_reservations(workload):
        found = victims.search(find)
        if found and any(_is_protected(inputs, each, preemptor) for each in found if each.id != preemptor.id):
            allocations.undo_search(workload, found, mark)
            return None
        return found


def _preemptor(inputs: CycleInputs, evictions: Evictions, workload: Workload) -> Workload:
    """Return the workload for which the evicted `workload` goes."""
    return inputs.index.workloads[evictions.evicted[workload.id].by or workload.id]


def _is_protected(inputs: CycleInputs, victim: Workload, preemptor: Workload) -> bool:
    """Tell whether the victim's priority or min runtime protects it from the preemptor."""
    if victim.queue == preemptor.queue and victim.priority >= preemptor.priority:
        return True
    return inputs.protected_for(victim, preemptor) > 0


def _go_on_there(
    inputs: CycleInputs, allocations: Allocations, reservations: Reservations, evictions: Evictions, workload: Workload
) -> None:
    """Turn the nomination of evicted work into its new place, and tell its owner where it goes on."""
    place = allocations.turn_into_migration(workload)
    nodes = sorted({task.node for task in place})
    victim, preemptor = inputs.index.workloads[workload.id], _preemptor(inputs, evictions, workload)
    borrows = allocations.account(preemptor).over_quota > 0
    evictions.resettle(workload.id, place, notices.describe_resettled(victim, preemptor, nodes, borrows=borrows))
    reservations.recorded.add(workload.id)
