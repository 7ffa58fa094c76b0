"""Lend the devices of idle notebooks without loss, and give them back when the notebooks are used again.

Rules
-----
1. Lending: an idle, suspendable notebook is suspended for preemptible work that is within its deserved quota and does
   not fit, before any running work is disturbed. The notebook must have been idle for `IdleRule.after`, its owner does
   not keep it, and a time that was named to the owner is over, also by the last report (see `idle_rule`). The longest
   idle goes first, and of equals the largest. A suspended notebook keeps its quota.
2. Borrowers: only preemptible training work starts on the share of a suspended notebook, and only if nothing else is
   free.
3. Return: a suspended notebook gets its devices back as soon as it is used again (`is_wanted_back`), before any other
   work is served. Nominees for its devices give way first, then running jobs that use what is lent there
   (`borrowers_on`), then other preemptible jobs. Within each group of running jobs, jobs of queues above their quotas
   go first, then those that lose least. A fixed quota is a place, so this holds against all borrowers, and also
   while the devices are drained or in no pool: a suspended notebook stays there until its end, as a running one.
4. Meanwhile: the place of a notebook is kept for it in each cycle, while it is suspended and while the borrowers stop.
   If work that cannot give way is in its way, borrowers may use the rest of the place until that work has ended.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
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
from jupyter_gq.scheduling.workloads.borrowers import borrowers_on, may_borrow
from jupyter_gq.scheduling.workloads.disruption import by_disruption
from jupyter_gq.scheduling.workloads.seniority import by_seniority

from .idle_rule import idle_since, idle_time, may_be_lent


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
    rule, now = inputs.policy.idle, inputs.now
    staying = staying_notebooks(inputs.index, evictions)
    idle = [notebook for notebook in staying if notebook.suspendable and may_be_lent(notebook, rule, now)]
    if not idle:
        return
    idle.sort(key=lambda notebook: (idle_since(notebook, rule, now) or 0.0, -gang.held(notebook), notebook.id))
    order = job_order(inputs.index, allocations, evictions)
    while (workload := order.next()) is not None:
        left = [notebook for notebook in idle if notebook.id not in evictions.evicted]
        if _suspend_for(inputs, allocations, evictions, workload, left):
            order.done()
        else:
            order.skip_class()


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
    stopping = _stopping_for_others(index, evictions, notebook)
    staying = staying_on_nodes(index, allocations, evictions, index.nodes_of(notebook.placement))
    there = on_devices_of(notebook, staying)
    borrowing = find_borrowing(index, allocations, notebook, [*stopping, *there])
    borrowers = _in_order(allocations, there, borrowing)
    ledger, beside = allocations.ledger, [each for each in stopping if may_borrow(each) and each.id not in borrowing]
    # Work that stops beside the notebook may need long for it, so its place is no room for the notebook. Only work that
    # may not be evicted is left out: if it needs room of the notebook, the notebook waits for it in any case.
    for each in beside:
        ledger.reserve_devices(each, each.placement)
    done = _release_borrowers(allocations, evictions, notebook, borrowers)
    for each in beside:
        ledger.unreserve_devices(each, each.placement)
    return done or (bool(beside) and _release_borrowers(allocations, evictions, notebook, borrowers))


def _release_borrowers(
    allocations: Allocations, evictions: Evictions, notebook: Workload, borrowers: Sequence[Workload]
) -> bool:
    """Resume the notebook, or keep its devices for it, and evict those of the borrowers that are in the way, in order.

    False changes nothing.
    """
    ledger = allocations.ledger
    mark = ledger.mark()
    gone: list[Workload] = []
    for borrower in borrowers:
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
    if not ledger.nominate_at(notebook, place, returns=True):
        return False
    allocations.returning.add(notebook.id)
    return True


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


def _in_order(allocations: Allocations, there: Iterable[Workload], borrowing: Container[str]) -> list[Workload]:
    """Return the preemptible training work among the users of a notebook's devices, in the order in which it gives way.

    `borrowing` are the ids of those that use what is lent there.
    """

    def precedence(borrower: Workload) -> tuple[bool, bool]:
        return borrower.id not in borrowing, allocations.account(borrower).over_quota == 0

    return sorted(by_disruption(each for each in there if may_borrow(each)), key=precedence)


def _stopping_for_others(index: ClusterIndex, evictions: Evictions, notebook: Workload) -> list[Workload]:
    """Return the work on the devices of the notebook that stops, but not for a suspended notebook."""
    lenders = index.holders.lenders.by_id
    others = (each for each in evictions.stopping.values() if evictions.preemptor_of(each) not in lenders)
    return on_devices_of(notebook, others)


def on_devices_of(notebook: Workload, workloads: Iterable[Workload]) -> list[Workload]:
    """Return those of the workloads that have a device of the notebook."""
    devices = devices_of(notebook.placement)
    return [each for each in workloads if not devices.isdisjoint(devices_of(each.placement))]


def find_borrowing(
    index: ClusterIndex, allocations: Allocations, notebook: Workload, users: Sequence[Workload]
) -> set[str]:
    """Return the ids of those of the users of its devices that use what the notebook and others have lent there."""
    accounts = (allocations.account(each) for each in users)
    above = {each.queue.name for each in accounts if each.used > each.queue.quota}
    lenders = index.holders.lenders.on_device
    found = [borrowers_on(each, lenders[each].values(), users, above) for each in devices_of(notebook.placement)]
    return {each.id for on_device in found for each in on_device}
