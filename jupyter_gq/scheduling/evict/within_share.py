"""Make room for somebody only where that can last: what reclaim and preemption ask of every search (see `clearing`).

Rules
-----
1. What a queue takes above its fair share others would take back, and what gave way would start again in its place,
   for ever. So above its fair share a queue may only exchange: not use more than before, nor put one larger workload in
   place of small ones.
2. That is asked of the leaf, and of those that are above all victims, too; for the others the rules of reclaim have it.
"""

from collections.abc import Callable

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads import gang


def make_room_within_share(
    books: Books, workload: Workload, search: Callable[[], list[Workload] | None]
) -> list[Workload] | None:
    """The victims that the search found; None when it found none, or when the rules forbid it, and nothing changed."""
    chain = books.account(workload).chain
    before = [each.lasting for each in chain]
    mark = books.ledger.mark()
    released = search()
    if released is None:
        return None
    larger = gang.smallest(workload) > max((gang.held(victim) for victim in released), default=0)
    above = [set(books.account(victim).chain) for victim in released]
    for each, most in zip(chain, before, strict=True):
        if each is not chain[0] and not all(each in accounts for accounts in above):
            continue
        if each.lasting > each.fair_share and (larger or each.lasting > most):
            books.undo_room(workload, released, mark)
            return None
    return released
