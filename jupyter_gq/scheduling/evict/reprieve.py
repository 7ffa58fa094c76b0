"""Let stay whose room turned out not to be needed, when the one it was for got another or none.

Who was told to go last is asked first. Nobody stays for whom there is no room any more, nor above a limit.
"""

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.decision import Evict, Instruction
from jupyter_gq.scheduling.quota.limits import broken_above
from jupyter_gq.scheduling.state.cycle_state import Books

#: It goes whether or not anybody needs its room.
_FOR_ITS_OWN_SAKE = frozenset({EvictReason.STALE_GANG, EvictReason.NODE_EMPTIED})


def spare_needless(books: Books) -> None:
    """Take back the evictions and moves of this cycle that nobody needs."""
    for instruction in reversed(books.instructions):
        victim = books.leaving.get(instruction.workload)
        if victim is not None and victim.id in books.moving:
            _stay_here(books, victim)
        elif victim is not None and _may_be_spared(instruction) and _takes_back(books, victim):
            _let_stay(books, victim)
    books.instructions = [each for each in books.instructions if each.workload in books.evicted]
    for given_up in reversed(list(books.units.given_up.values())):
        part = given_up.part
        needed = given_up.reason is EvictReason.CONSOLIDATED or given_up.reason in _FOR_ITS_OWN_SAKE
        if not needed and part.whole.id not in books.evicted and _takes_back(books, part):
            del books.leaving[part.id]
            books.units.keep(part)


def _may_be_spared(instruction: Instruction) -> bool:
    """It only makes room for another, or for a limit."""
    return isinstance(instruction, Evict) and instruction.reason not in _FOR_ITS_OWN_SAKE


def _takes_back(books: Books, victim: Workload) -> bool:
    """It can stay, and no limit is broken by that; False changes nothing."""
    if not books.unrelease(victim):
        return False
    if any(broken_above(books.account(victim), victim)):
        books.release(victim)
        return False
    return True


def _stay_here(books: Books, workload: Workload) -> None:
    """Do not move it after all, if nobody has been promised its old place."""
    books.ledger.withdraw(workload, books.moving[workload.id])
    if not books.ledger.take_again(workload, promised=False):
        books.ledger.promise(workload, books.moving[workload.id])
        return
    del books.moving[workload.id]
    books.kept.discard(workload.id)
    _let_stay(books, workload)


def _let_stay(books: Books, workload: Workload) -> None:
    del books.evicted[workload.id], books.leaving[workload.id]
    if workload.elastic:
        books.units.want(books.units.now(books.workloads[workload.id]))
