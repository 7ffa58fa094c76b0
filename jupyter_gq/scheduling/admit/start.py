"""Start what waits, or promise it room that is being freed: the smallest gang of a unit, or nothing.

Rules
-----
1. What is held for others (see `holding`) is used only where nothing else is free, by those who may pass.
2. For more than its workload needs no queue is lifted above its fair share; only elastic work may take a free
   device for that, for it can give it back.
3. A unit that gets nothing has changed nothing.
"""

from collections.abc import Callable
from dataclasses import replace

from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.placement import View
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.quota.accounts import Account
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.replicas import is_surplus

from .held_devices import passing


def try_start(books: Books, unit: Workload) -> bool:
    """Start it now, or keep room for it that is being freed."""
    return try_admit(books, unit) or try_promise(books, unit)


def try_admit(books: Books, unit: Workload) -> bool:
    """Start it now, if it fits now."""
    return _also_on_held(_admit, books, unit)


def try_promise(books: Books, unit: Workload) -> bool:
    """Keep room for it that is being freed, if there is enough."""
    return _also_on_held(_promise, books, unit)


def start_kept(books: Books, unit: Workload) -> bool:
    """Start it where room is kept for it, or wherever else it fits now; otherwise that room stays kept."""
    place = books.withdraw(unit)
    if _admit_at(books, unit, place) or try_admit(books, unit):
        books.kept.discard(unit.id)
        return True
    books.promise_at(unit, place)
    return False


def may_fit_now(books: Books, unit: Workload) -> bool:
    """A cheap bound: False is certain."""
    return _may_fit(books, unit, View.NOW)


def may_fit_soon(books: Books, unit: Workload) -> bool:
    """A cheap bound, with what is being freed: False is certain."""
    return _may_fit(books, unit, View.FUTURE)


def _also_on_held(attempt: Callable[[Books, Workload], bool], books: Books, unit: Workload) -> bool:
    """Rule 1."""
    if attempt(books, unit):
        return True
    if not books.holds:
        return False
    with passing(books, unit) as some:
        return some and attempt(books, unit)


def _admit(books: Books, unit: Workload) -> bool:
    account = books.account(unit)
    if not account.known or books.obstacle(unit, now=True):
        return False
    if not unit.elastic and _is_above_share(unit, account):
        return False
    place = assemble.place(books.ledger, account.queue.pool, unit, View.NOW)
    if place is None:
        return False
    books.start(unit, place)
    return True


def _admit_at(books: Books, unit: Workload, place: tuple[TaskPlacement, ...]) -> bool:
    if books.obstacle(replace(unit, placement=place), now=True) or not books.ledger.take_at(unit, place):
        return False
    books.start(unit, place)
    return True


def _promise(books: Books, unit: Workload) -> bool:
    account = books.account(unit)
    if not account.known or books.obstacle(unit, now=False) or _is_above_share(unit, account):
        return False
    place = assemble.place(books.ledger, account.queue.pool, unit, View.FUTURE)
    if place is None:
        return False
    books.promise(unit, place)
    return True


def _is_above_share(unit: Workload, account: Account) -> bool:
    """It is more than its workload needs, and would lift a queue above its fair share."""
    if not is_surplus(unit):
        return False
    milli = gang.smallest(unit)
    return any(each.lasting + milli > each.fair_share for each in account.chain)


def _may_fit(books: Books, unit: Workload, view: View) -> bool:
    pool = books.account(unit).queue.pool
    if not books.holds:
        return assemble.may_fit(books.ledger, pool, unit, view)
    with passing(books, None):  # whether it may pass is asked when it is its turn
        return assemble.may_fit(books.ledger, pool, unit, view)
