"""Reclaim: take other queues' over-quota use back for a queue that stays within its share.

Rules
-----
1. Two queues are compared where their paths to the root part: the one that takes and the one that gives are siblings.
2. Taking for the *guarantee*: the taker stays within its deserved quota; the giver is above its own.
   Taking for *fairness*: the taker stays within its fair share; the giver is above its own.
3. Below that level the taker stays within its fair share in each of its queues, and the giver is above its deserved
   quota in each of its own: a queue within its quota never loses anything to another.
4. The giver is asked again before each victim, so it ends no lower than its share less one workload.
5. Victims are preemptible and past their least run time (see `min_runtime`); those that lose least go first (see
   `disruption`). What this cycle admitted or promised is not started after all, which disturbs nobody.
6. No queue above the two is left above its fair share by it, but for an exchange of like for like.
7. What was taken is not taken back (see `ordering`, rule 3).
"""

from collections.abc import Callable, Iterable

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload

from . import explain, gang
from .books import Books
from .clearing import Allowed, make_room
from .disruption import Stock
from .quota import Account
from .serving import serve_in_rounds


def reclaim(books: Books) -> bool:
    """Serve all who may take something back from other queues; the result is that of `serve_in_rounds`."""
    return serve_in_rounds(books, _reclaim_for, EvictReason.RECLAIMED, explain.reclaimed)


def _reclaim_for(books: Books, workload: Workload, stock: Stock) -> list[Workload] | None:
    account = books.account(workload)
    if not account.known:
        return None
    if books.try_start(workload):
        return []
    return search(books, workload, lambda allowed: stock.of_others(account.queue.pool, workload.queue, allowed))


def search(
    books: Books, workload: Workload, candidates: Callable[[Allowed], Iterable[Workload]]
) -> list[Workload] | None:
    """Take from the candidates, in their order, as far as rules 1 to 4 and 6 allow; None when that does not help."""
    account, milli = books.account(workload), gang.smallest(workload)
    if not account.known or account.lasting + milli > account.fair_share:
        return None

    def allowed(victim: Workload) -> bool:
        return may_take(account, books.account(victim), milli, started=victim.state is not State.PENDING)

    return books.make_room_within_share(
        workload, lambda: make_room(books, workload, lambda: candidates(allowed), allowed)
    )


def may_take(taker: Account, giver: Account, milli: int, *, started: bool = True) -> bool:
    """Rules 1 to 4 for one more victim of the leaf `giver`, for `milli` more in the leaf `taker`.

    What has started is not taken because of what its queue is only promised.
    """
    takers, givers = _parted(taker, giver)
    if not takers or not givers:
        return False
    if any(each.lasting + milli > each.fair_share for each in takers):
        return False
    if any(_using(each, started) <= each.queue.quota for each in givers):
        return False
    within_quota = takers[-1].lasting + milli <= takers[-1].queue.quota
    return within_quota or _using(givers[-1], started) > givers[-1].fair_share


def _using(giver: Account, started: bool) -> int:
    return giver.lasting - giver.pledged if started else giver.lasting


def _parted(taker: Account, giver: Account) -> tuple[tuple[Account, ...], tuple[Account, ...]]:
    """The two paths from the leaves up to where they part."""
    shared = 0
    for ours, theirs in zip(reversed(taker.chain), reversed(giver.chain), strict=False):
        if ours is not theirs:
            break
        shared += 1
    return taker.chain[: len(taker.chain) - shared], giver.chain[: len(giver.chain) - shared]
