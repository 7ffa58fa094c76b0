"""Whose turn it is in this cycle: the order of `ordering`, with what the books say of those who wait."""

from contextlib import nullcontext

from jupyter_gq.scheduling.order.queue_order import Turn
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.request_class import Test, always

from .held_devices import passing


def take_turns(books: Books, promising: Test = always, *, growth: bool = False, by_pool: bool = False) -> Turn:
    """Those who wait without a promise, each in his turn, without the classes that are not promising now.

    `growth`: also what elastic work could still have. `by_pool`: see `Turn`.
    """
    if growth:
        books.units.fresh_lines()
    takes_part = books.is_seeking if growth else books.is_unsettled
    with passing(books, None) if books.holds else nullcontext():  # once for all that are asked whether they may fit
        lines, shares = books.index.pending.lines, user_shares(books)
        return Turn(books.accounts, lines, takes_part, promising, shares, by_pool=by_pool)


def rounds(books: Books) -> range:
    """More often than that nobody new can be served."""
    return range(len(books.waiting) + len(books.index.replicas.wanted) + 1)


def user_shares(books: Books) -> dict[str, dict[str, int]] | None:
    """What each user has of each leaf queue, with what this cycle decided; None if that does not matter."""
    if not books.policy.per_user:
        return None
    found = {queue: dict(shares) for queue, shares in books.index.holders.user_usage.items()}
    gone = [books.workloads[name] for name in books.evicted if books.workloads[name].queue in found]
    changes = [(workload, -gang.held(workload)) for workload in gone]
    changes += [(workload, gang.held(workload)) for workload in books.admitted.values()]
    changes += [(unit, gang.smallest(unit)) for unit in map(books.unit, books.promised)]
    for workload, milli in changes:
        of_queue = found.setdefault(workload.queue, {})
        of_queue[workload.owner] = of_queue.get(workload.owner, 0) + milli
    return found
