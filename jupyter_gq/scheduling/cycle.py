"""The scheduling cycle, which decides what to do now, least disruptive first, and why the rest of the work waits.

Steps
-----
1. Drain nodes and devices, and enforce limits that were lowered.
2. Serve workloads for which earlier cycles made room.
3. Admit what fits, with or without devices, best queue first, and nominate work for devices that are being freed.
   Running elastic work takes part for one replica at a time, within fair shares.
4. Consolidate. 5. Reclaim across queues. 6. Preempt inside a queue.
   Steps 4 to 6 are first taken for work that its queue deserves, and then for all work.
   Gangs that lost tasks too long ago go back to their queues, and reservations end whose owners no limit allows to
   start any more. Steps 3 to 6 are repeated with these devices.
7. Give victims that could take devices from others their new places at once; reprieve victims that need not go, before
   and after that. Give surplus replicas to work that starts and cannot grow later.
8. Reclaim the shares of idle notebooks, and make reservations.
9. Defer admissions that cannot be launched soon.
10. Explain why each pending workload waits, and count the new nodes that would serve pending work.

A cycle is a pure function: the same input gives the same output. Only the `CycleState` of the cycle changes.
"""

from functools import partial

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.snapshot import Snapshot

from .admit.job_order import job_order, rounds
from .admit.reservations import cancel_obsolete, make_reservations, place_elsewhere, restore_reservations
from .admit.start import admit_nominee, may_fit_now, may_fit_soon, try_admit, try_nominate, try_place
from .decision import Decision
from .evict.consolidate import consolidate
from .evict.deserved import is_deserved
from .evict.drain import drain
from .evict.lost_queues import tell_lost_queues
from .evict.over_limit import enforce_limits
from .evict.preempt import preempt
from .evict.preemptors import name_preemptors, record_nominations
from .evict.reclaim import reclaim
from .evict.reprieve import reprieve_victims
from .evict.resettle import resettle_victims
from .evict.stale_gangs import requeue_stale
from .explain.explanations import explain_pending
from .explain.protected_victims import find_protected_victims
from .idle.lending import lend_idle_shares, resume_notebooks
from .idle.reclaim_idle import reclaim_idle_shares
from .idle.returns import plan_returns
from .order.pending_queue import PendingQueue
from .order.queue_order import JobOrder
from .policy import Policy
from .scale.wanted_nodes import with_wanted_nodes
from .state.allocations import Allocations
from .state.cluster_index import ClusterIndex
from .state.cycle_state import CycleInputs, CycleState, begin_cycle
from .state.evictions import Evictions
from .state.instructions import instructions_of
from .state.launch_capacity import split_by_capacity
from .state.reservations import Reservations
from .workloads import gang
from .workloads.request_class import WorkloadTest, any_workload
from .workloads.seniority import by_seniority


def run_cycle(snapshot: Snapshot, policy: Policy, now: Instant) -> Decision:
    """Return what one cycle decides about a snapshot. Raises `InvalidSnapshot` if its queues are not a tree."""
    return decide(begin_cycle(ClusterIndex(snapshot, policy), now))


def decide(state: CycleState, *, explain: bool = True) -> Decision:
    """Run all steps of a new cycle, which change `state`, and return the decision.

    If `explain` is false, the decision is without them: `pending`, `returning` and `wanted_nodes` are empty.
    """
    inputs, index = state.inputs, state.inputs.index
    allocations, reservations, evictions = state.allocations, state.reservations, state.evictions
    drain(index, allocations, evictions)
    enforce_limits(index, allocations, evictions)
    resume_notebooks(index, allocations, reservations, evictions)
    restore_reservations(inputs, allocations, reservations, evictions)
    serve_preemptors(allocations, reservations, evictions)
    place_elsewhere(inputs, allocations, reservations)
    allocate(inputs, allocations, reservations, evictions)
    if requeue_stale(inputs, allocations, evictions) | cancel_obsolete(allocations, reservations):
        allocate(inputs, allocations, reservations, evictions)
    for _ in rounds(index):
        reprieve_victims(inputs, allocations, reservations, evictions)
        name_preemptors(index, allocations, evictions)
        if not resettle_victims(inputs, allocations, reservations, evictions):
            break
        allocate(inputs, allocations, reservations, evictions)
    # What goes for the new place of a victim may leave it room to stay where it is.
    reprieve_victims(inputs, allocations, reservations, evictions)
    grow_admitted(allocations)
    reclaim_idle_shares(inputs, allocations, evictions, state.findings)
    tell_lost_queues(allocations, evictions)
    record_nominations(index, allocations, reservations, evictions)
    make_reservations(inputs, allocations, reservations, evictions)
    instructions, deferred = split_by_capacity(
        instructions_of(index, allocations, reservations, evictions),
        index.capacity.launches,
        lambda name: index.workloads[name].kind,
    )
    if not explain:
        return Decision(instructions=instructions, pending=(), deferred=deferred)
    returning = plan_returns(index, allocations, evictions)
    find_protected_victims(inputs, allocations, evictions, state.findings)
    names = {admission.workload for admission in deferred}
    pending = explain_pending(inputs, allocations, reservations, evictions, state.findings, deferred=names)
    decision = Decision(instructions=instructions, pending=pending, deferred=deferred, returning=returning)
    return with_wanted_nodes(decision, index, inputs.now)


def allocate(inputs: CycleInputs, allocations: Allocations, reservations: Reservations, evictions: Evictions) -> None:
    """Admit, consolidate, reclaim and preempt, in rounds, until a round undoes nothing that was placed before.

    Work that was admitted and then had to give way makes room for other work in the next round. So does room that
    victims leave over: it is given away in the order of admission, and at the end moves may bring it together.
    """

    def make_room(whom: WorkloadTest) -> bool:
        """Move and evict for the work of which `whom` is true; tell whether something was undone."""
        stopping = len(evictions.stopping)
        consolidate(inputs, allocations, reservations, evictions, whom)
        undone = reclaim(inputs, allocations, evictions, whom) | preempt(inputs, allocations, evictions, whom)
        if len(evictions.stopping) > stopping:
            admit(inputs.index, allocations, evictions)
        return undone

    deserved = partial(is_deserved, inputs.index, allocations, evictions)
    for _ in rounds(inputs.index):
        stopping = len(evictions.stopping)
        admit(inputs.index, allocations, evictions)
        lend_idle_shares(inputs, allocations, evictions)
        if not (make_room(deserved) | make_room(any_workload)):
            if len(evictions.stopping) > stopping:
                consolidate(inputs, allocations, reservations, evictions)
            break


def grow_admitted(allocations: Allocations) -> None:
    """Give surplus replicas, as far as they fit, to workloads that start in this cycle and cannot grow later.

    All other work has been considered before.
    """
    queues: dict[str, PendingQueue] = {}
    for name in allocations.admitted:
        for replica in allocations.replicas.wanted_at_start(name):
            queues.setdefault(replica.queue, PendingQueue()).add(replica)
    _place_all(allocations, JobOrder(allocations.accounts, queues, allocations.is_seeking))


def serve_preemptors(allocations: Allocations, reservations: Reservations, evictions: Evictions) -> None:
    """Admit or nominate the workloads for which other work is stopping, before all other pending work.

    So no other work takes the freed devices. First come nominees with a recorded place, then other pending preemptors,
    then wanted replicas of preemptors that run already.
    """
    stopping = [(w.stop.by, gang.held(w)) for w in evictions.stopping.values() if w.stop and w.stop.by is not None]
    pending, recorded = allocations.pending, reservations.recorded
    preemptors = {name for name, _ in stopping}
    for nominee in by_seniority(pending[name] for name in allocations.nominated.keys() & recorded):
        admit_nominee(allocations, reservations, nominee)
    waiting = [pending[name] for name in preemptors if name in pending and name not in recorded]
    for workload in by_seniority(waiting):
        try_place(allocations, workload)
    for name in sorted(preemptors):
        freed = sum(milli for by, milli in stopping if by == name)
        for replica in allocations.replicas.wanted_by(name, freed):
            try_place(allocations, replica)


def admit(index: ClusterIndex, allocations: Allocations, evictions: Evictions) -> None:
    """Admit each pending workload and wanted replica that fits now, in the job order.

    If some work is stopping, work that fits only once others have stopped is nominated.
    """
    soon = bool(evictions.stopping)
    promising = partial(may_fit_soon if soon else may_fit_now, allocations)
    order = job_order(index, allocations, evictions, promising, replicas=True, by_pool=True)
    _place_all(allocations, order, also_nominate=soon)
    while queues := allocations.replicas.take_newly_wanted():
        _place_all(allocations, JobOrder(allocations.accounts, queues, allocations.is_seeking), also_nominate=soon)


def _place_all(allocations: Allocations, order: JobOrder, *, also_nominate: bool = False) -> None:
    """Admit each workload of `order` that fits now.

    If `also_nominate`, nominate those that fit once others have stopped. If a workload gets no place, its whole request
    class is skipped, but for members that are expected to end sooner and so may pass a reservation.
    """
    while (workload := order.next()) is not None:
        if try_admit(allocations, workload) or (also_nominate and try_nominate(allocations, workload)):
            order.done()
        elif allocations.any_reservations:
            order.skip_longer()
        else:
            order.skip_class()
