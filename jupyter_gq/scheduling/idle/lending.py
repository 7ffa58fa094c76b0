"""Lend the devices of idle notebooks without loss, and give them back when the notebooks are used again.

Rules
-----
1. Lending: an idle, suspendable notebook is suspended for preemptible work that is within its deserved quota and does
   not fit, before any running work is disturbed. The notebook must have been idle for `IdleRule.after`, and its owner
   does not keep it. The longest idle goes first, and of equals the largest. A suspended notebook keeps its quota.
2. Borrowers: only preemptible training work starts on the share of a suspended notebook, and only if nothing else is
   free.
3. Return: a suspended notebook gets its devices back as soon as it is used again (`is_wanted_back`), before any other
   work is served. The borrowers give way: first those that are nominated for its devices, then those of queues above
   their quota, then those that lose least. A fixed quota is a place, so this holds against all borrowers, and
   also while the devices are drained or in no pool: a suspended notebook stays there until its end, as a running one.
4. Meanwhile: the place of a notebook is kept for it in each cycle, while it is suspended and while the borrowers stop.
   If work that cannot give way is in its way, borrowers may use the rest of the place until that work has ended.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload, devices_of
from jupyter_gq.scheduling.admit.job_order import job_order
from jupyter_gq.scheduling.decision import Resume
from jupyter_gq.scheduling.evict import notices
from jupyter_gq.scheduling.evict.eviction import evict_released, suspend
from jupyter_gq.scheduling.evict.victim_search import make_room
from jupyter_gq.scheduling.evict.victims import staying_notebooks, staying_on_nodes
from jupyter_gq.scheduling.quota.reclaim_rights import is_guaranteed
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.state.reservations import Reservations
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.borrowers import may_borrow
from jupyter_gq.scheduling.workloads.disruption import by_disruption
from jupyter_gq.scheduling.workloads.seniority import by_seniority

from .idle_rule import expiry, idle_since, idle_time, may_be_warned


def is_wanted_back(workload: Workload) -> bool:
    """Tell whether a suspended notebook is used again: a kernel executes something or waits for the device to do so.

    False for all other workloads, and for a notebook that was told to end.
    """
    if workload.state is not State.SUSPENDED or workload.stop is not None:
        return False
    return workload.activity is not None and workload.activity.busy is True


def resume_notebooks(
    index: ClusterIndex, allocations: Allocations, reservations: Reservations, evictions: Evictions
) -> None:
    """Resume suspended notebooks that are used again, if their devices are free.

    If borrowers are there, evict them and keep the devices for the notebook. For every suspended notebook that cannot
    come back now, reserve its devices, also while some of them do not work. A notebook that cannot be observed is not
    resumed.
    """
    lenders = list(by_seniority(index.holders.lenders.by_id.values()))
    wanted = [notebook for notebook in lenders if is_wanted_back(notebook) and index.is_observed(notebook)]
    nominees_on = _borrowing_nominees(allocations) if wanted else {}
    # What others keep must not stand in the way of a notebook that comes back beside them.
    served = set[str]()
    for notebook in wanted:
        nominees = _nominees(allocations, nominees_on, notebook)
        if _give_back(index, allocations, reservations, evictions, notebook, nominees):
            served.add(notebook.id)
    reservations.reserve_lent([notebook for notebook in lenders if notebook.id not in served])


def lend_idle_shares(inputs: CycleInputs, allocations: Allocations, evictions: Evictions) -> None:
    """Suspend idle notebooks so that pending work gets their devices, in the job order (see the rule on lending)."""
    idle = [each for each in staying_notebooks(inputs.index, evictions) if _may_be_suspended(inputs, each)]
    if not idle:
        return
    rule, now = inputs.policy.idle, inputs.now
    idle.sort(key=lambda notebook: (idle_since(notebook, rule, now) or 0.0, -gang.held(notebook), notebook.id))
    order = job_order(inputs.index, allocations, evictions)
    while (workload := order.next()) is not None:
        left = [notebook for notebook in idle if notebook.id not in evictions.evicted]
        if _suspend_for(inputs, allocations, evictions, workload, left):
            order.done()
        else:
            order.skip_class()


def _may_be_suspended(inputs: CycleInputs, notebook: Workload) -> bool:
    """Tell whether a notebook is suspendable, not kept by its owner, and idle for `after` or past its warned time."""
    rule, now = inputs.policy.idle, inputs.now
    if not notebook.suspendable or not may_be_warned(notebook, rule, now):
        return False
    since = idle_since(notebook, rule, now)
    return since is not None and (now >= since + rule.after or expiry(notebook, rule, now) <= now)


def _suspend_for(
    inputs: CycleInputs, allocations: Allocations, evictions: Evictions, workload: Workload, idle: Sequence[Workload]
) -> bool:
    """Nominate the workload for the devices of idle notebooks and suspend those; tell whether that was possible.

    False changes nothing. Only preemptible training work within its guarantees is helped.
    """
    account = allocations.account(workload)
    if not account.known or not may_borrow(workload) or not idle:
        return False
    if not is_guaranteed(account, workload):
        return False
    fitting = [notebook for notebook in idle if account.queue.pool in inputs.index.pools_of(notebook)]
    with allocations.lifting_reservations(workload):
        taken = make_room(allocations, workload, lambda: fitting) if fitting else None
    for notebook in taken or ():
        idle_for = idle_time(notebook, inputs.policy.idle, inputs.now)
        sentence = notices.describe_suspension(notebook, workload, idle_for)
        suspend(allocations, evictions, notebook, workload.id, sentence)
    return taken is not None


def _give_back(
    index: ClusterIndex,
    allocations: Allocations,
    reservations: Reservations,
    evictions: Evictions,
    notebook: Workload,
    nominees: Sequence[Workload],
) -> bool:
    """Resume the notebook if its devices are free; otherwise keep them for it and evict the borrowers in the way.

    The `nominees` are the borrowers that are nominated for its devices; those that no longer fit beside the notebook
    lose their places. False changes nothing: a device is lost, or its user cannot give way.
    """
    ledger = allocations.ledger
    withdrawn = [(each, allocations.withdraw(each)) for each in nominees]
    if not _evict_borrowers(index, allocations, evictions, notebook):
        for nominee, nominated in withdrawn:
            allocations.nominate_again(nominee, nominated)
        return False
    for nominee, nominated in withdrawn:
        if ledger.nominate_at(nominee, nominated):
            allocations.nominate(nominee, nominated)
        else:
            reservations.forget_place(nominee.id)
    return True


def _evict_borrowers(index: ClusterIndex, allocations: Allocations, evictions: Evictions, notebook: Workload) -> bool:
    """Resume the notebook, or keep its devices for it, and evict the running borrowers in the way.

    False changes nothing.
    """
    ledger = allocations.ledger
    mark = ledger.mark()
    gone: list[Workload] = []
    for borrower in _borrowers(index, allocations, evictions, notebook):
        if _take_place(allocations, notebook):
            break
        allocations.release(borrower)
        gone.append(borrower)
    else:
        if not _take_place(allocations, notebook):
            ledger.rollback(mark)
            for borrower in gone:
                allocations.restore_usage(borrower)
            return False
    for borrower in gone:
        if not allocations.undo_release(borrower):
            sentence = partial(notices.describe_reclaim, by=notebook)
            evict_released(allocations, evictions, borrower, EvictReason.RECLAIMED, notebook.id, sentence)
    return True


def _take_place(allocations: Allocations, notebook: Workload) -> bool:
    """Resume the notebook if its devices are free now, or keep them for it if they will be; tell whether they are.

    Borrowers that must go for another notebook first may leave room for this one now.
    """
    ledger, place = allocations.ledger, notebook.placement
    if ledger.allocate_at(notebook, place, returns=True):
        allocations.resumed.append(Resume(workload=notebook.id, placement=place))
        return True
    return ledger.nominate_at(notebook, place, returns=True)


def _borrowing_nominees(allocations: Allocations) -> dict[str, list[str]]:
    """Return the ids of the nominated workloads and replicas that may borrow, by each device of their places."""
    found: dict[str, list[str]] = {}
    for name, place in allocations.nominated.items():
        if may_borrow(allocations.nominee(name)):
            for device in devices_of(place):
                found.setdefault(device, []).append(name)
    return found


def _nominees(allocations: Allocations, nominees_on: Mapping[str, Sequence[str]], notebook: Workload) -> list[Workload]:
    """Return the borrowers that are nominated for devices of the notebook, in the order of their nominations.

    `nominees_on` has the ids of borrowers by device, also of those that have lost their nominations since.
    """
    names = {name for device in devices_of(notebook.placement) for name in nominees_on.get(device, ())}
    return [allocations.nominee(name) for name in allocations.nominated if name in names] if names else []


def _borrowers(
    index: ClusterIndex, allocations: Allocations, evictions: Evictions, notebook: Workload
) -> list[Workload]:
    """Return the preemptible training work on the devices of the notebook, in the order in which it gives way."""
    lent = devices_of(notebook.placement)
    there = staying_on_nodes(index, allocations, evictions, index.nodes_of(notebook.placement))
    borrowers = [each for each in there if may_borrow(each) and not lent.isdisjoint(devices_of(each.placement))]
    return sorted(by_disruption(borrowers), key=lambda each: allocations.account(each).over_quota == 0)
