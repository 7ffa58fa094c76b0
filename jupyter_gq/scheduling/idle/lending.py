"""Idle notebooks lend the bytes of their share, without loss, and get them back when they are used again.

Rules
-----
1. An idle, suspendable notebook is suspended for preemptible work that is within its deserved quota and does not fit,
   before anybody is disturbed: idle for `IdleRule.after`, not kept by its owner. It keeps its quota.
2. Only preemptible training starts on the share of a suspended notebook, and only where nothing else is free.
3. A suspended notebook gets its bytes back, on the devices that it had, as soon as it is used again (`wants_back`):
   before anybody else is served. Who borrowed them gives way: first those whose queue is above its quota, then who
   loses least. A fixed quota is a place, so this holds against everybody.
4. While they stop, its room is kept for it in each cycle.
"""

from collections.abc import Sequence

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.admit.held_devices import lend, passing
from jupyter_gq.scheduling.admit.turns import take_turns
from jupyter_gq.scheduling.decision import Resume
from jupyter_gq.scheduling.evict import notices
from jupyter_gq.scheduling.evict.eviction import evict, suspend
from jupyter_gq.scheduling.evict.victim_search import make_room
from jupyter_gq.scheduling.quota.accounts import entitled
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.disruption import disruption
from jupyter_gq.scheduling.workloads.seniority import seniority

from .idle_rule import expiry, idle_since, may_be_warned


def wants_back(workload: Workload) -> bool:
    """It is used again: a kernel executes something, or waits for the device in order to."""
    return workload.state is State.SUSPENDED and workload.activity is not None and workload.activity.busy is True


def resume(books: Books) -> None:
    """Rules 3 and 4; what the others have lent is held against all who could not give it back (rule 2)."""
    suspended = sorted(books.index.holders.suspended.values(), key=seniority)
    for notebook in suspended:
        if wants_back(notebook) and books.index.is_observed(notebook):
            _give_back(books, notebook)
        elif books.ledger.exists(notebook.placement):
            lend(books, notebook)


def use_idle_shares(books: Books) -> None:
    """Rule 1."""
    idle = [notebook for notebook in books.notebooks() if _may_be_suspended(books, notebook)]
    if not idle:
        return
    idle.sort(key=lambda notebook: (idle_since(notebook, books.policy.idle, books.now) or 0.0, notebook.id))
    turn = take_turns(books)
    while (workload := turn.next()) is not None:
        if _suspend_for(books, workload, [notebook for notebook in idle if notebook.id not in books.evicted]):
            turn.done()
        else:
            turn.pass_over()


def _may_be_suspended(books: Books, notebook: Workload) -> bool:
    rule, now = books.policy.idle, books.now
    if not notebook.suspendable or not may_be_warned(notebook, rule, now):
        return False
    since = idle_since(notebook, rule, now)
    return since is not None and (now >= since + rule.after or expiry(notebook, rule, now) <= now)


def _suspend_for(books: Books, workload: Workload, idle: Sequence[Workload]) -> bool:
    account = books.account(workload)
    if not account.known or not workload.preemptible or workload.kind is not Kind.TRAINING or not idle:
        return False
    if not entitled(account, gang.smallest(workload)):
        return False
    fitting = [notebook for notebook in idle if account.queue.pool in books.pools_of(notebook)]
    with passing(books, workload):
        taken = make_room(books, workload, lambda: fitting) if fitting else None
    for notebook in taken or ():
        since = idle_since(notebook, books.policy.idle, books.now)
        idle_for = books.now - (books.now if since is None else since)
        suspend(books, notebook, workload.id, notices.suspended(notebook, workload, idle_for))
    return taken is not None


def _give_back(books: Books, notebook: Workload) -> None:
    if books.ledger.take_at(notebook, notebook.placement):
        books.resumed.append(Resume(workload=notebook.id, placement=notebook.placement))
        return
    mark = books.ledger.mark()
    gone: list[Workload] = []
    for borrower in _borrowers(books, notebook):
        if books.ledger.keep_at(notebook, notebook.placement):
            break
        books.release(borrower)
        gone.append(borrower)
    else:
        if not books.ledger.keep_at(notebook, notebook.placement):
            books.ledger.rollback(mark)  # a device is lost, or held by what cannot give way
            for borrower in gone:
                books.recharge(borrower)
            return
    for borrower in gone:
        if not books.unrelease(borrower):
            evict(books, borrower, EvictReason.RECLAIMED, notebook.id, notices.reclaimed(borrower, notebook))


def _borrowers(books: Books, notebook: Workload) -> list[Workload]:
    devices = {device for task in notebook.placement for device in task.devices}
    there = [
        workload
        for workload in books.staying()
        if workload.preemptible
        and workload.kind is Kind.TRAINING
        and any(device in devices for task in workload.placement for device in task.devices)
    ]
    return sorted(there, key=lambda workload: (books.account(workload).over_quota == 0, disruption(workload)))
