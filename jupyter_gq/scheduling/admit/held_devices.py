"""Devices are held for somebody: they bind all others, but for those who may pass.

Rules
-----
1. Devices are held for who has waited long (see `reservations`), and against all who could not give back what an idle
   notebook has lent (see `lending`).
2. Nobody else starts on what is held, nor is promised room there, except those who `may_pass`: a higher priority of
   the same queue; work of another queue, where the one who waits would borrow himself, or where that work stays within
   its deserved quota and has no other place; who is expected to end before all devices of the place can be free; who
   can be taken back at once, for the one who waits is entitled to it.
3. So a reservation keeps seniority inside a queue, and what a queue is guaranteed against borrowers; it gives nobody a
   claim that he does not have without it.
4. Who has got a place of his own needs nothing held any more.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, TaskPlacement, Workload
from jupyter_gq.scheduling.quota.accounts import charge, entitled
from jupyter_gq.scheduling.quota.reclaim_rights import may_take
from jupyter_gq.scheduling.state.cycle_state import Books, Hold
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.replicas import is_surplus


def hold_for(books: Books, workload: Workload, place: tuple[TaskPlacement, ...], *, not_before: Instant) -> None:
    """Hold these devices from now on; the place is written down."""
    books.holds[workload.id] = Hold(workload=workload, place=place, not_before=not_before)
    books.kept.add(workload.id)
    books.ledger.hold_back(workload, place)


def lend(books: Books, suspended: Workload) -> None:
    """Only who can give it back starts on the share of a suspended notebook."""
    books.holds[suspended.id] = Hold(workload=suspended, place=suspended.placement, not_before=books.now)
    books.ledger.hold_back(suspended, suspended.placement)


def let_go(books: Books, name: str) -> None:
    """Hold nothing for it any more."""
    gone = books.holds.pop(name)
    books.kept.discard(name)
    books.ledger.let_go(gone.workload, gone.place)


@contextmanager
def passing(books: Books, workload: Workload | None) -> Iterator[bool]:
    """Meanwhile what is held does not bind those for whom it is held, nor who may pass (None: nobody at all).

    Says whether anything is different.
    """
    passed = _passed(books, workload)
    for each in passed:
        books.lifted.add(each.workload.id)
        books.ledger.let_go(each.workload, each.place)
    try:
        yield bool(passed)
    finally:
        for each in passed:
            name = each.workload.id
            books.lifted.discard(name)
            if name in books.promised or name in books.admitted:
                del books.holds[name]
            else:
                books.ledger.hold_back(each.workload, each.place)


def lifted_for(books: Books, workload: Workload) -> frozenset[str]:
    """Those whose held devices do not bind just now, or would not in `passing` with that workload."""
    return frozenset(books.lifted).union(each.workload.id for each in _passed(books, workload))


def _passed(books: Books, workload: Workload | None) -> list[Hold]:
    return [
        each
        for name, each in books.holds.items()
        if name not in books.lifted and (workload is None or may_pass(books, workload, each))
    ]


def may_pass(books: Books, workload: Workload, held: Hold) -> bool:
    """Rule 2."""
    holder = held.workload
    if workload.id == holder.id:
        return True
    if holder.state is State.SUSPENDED:  # what it has lent
        return workload.preemptible and workload.kind is Kind.TRAINING
    if is_surplus(workload):
        return False
    if workload.queue == holder.queue:
        if workload.priority > holder.priority:
            return True
    elif entitled(books.account(workload), gang.smallest(workload)) or not _has_a_claim(books, holder):
        return True
    if workload.estimate is not None and books.now + workload.estimate <= held.not_before:
        return True
    return _can_be_taken_back(books, workload, holder)


def _has_a_claim(books: Books, holder: Workload) -> bool:
    """Its queue is entitled to it; otherwise it would borrow, like others."""
    return entitled(books.account(holder), gang.smallest(holder))


def _can_be_taken_back(books: Books, workload: Workload, holder: Workload) -> bool:
    """`holder` may reclaim it from the moment on in which it starts."""
    giver, taker = books.account(workload), books.account(holder)
    if not workload.preemptible or workload.kind is not Kind.TRAINING or giver is taker:
        return False
    milli = gang.smallest(workload)
    if books.index.min_runtimes.of(giver, taker) or not _has_a_claim(books, holder):
        return False
    charge(giver, milli, fixed=False)
    allowed = may_take(taker, giver, gang.smallest(holder), gives=milli)
    charge(giver, -milli, fixed=False)
    return allowed
