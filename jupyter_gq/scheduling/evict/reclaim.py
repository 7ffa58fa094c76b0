"""Reclaim: take other queues' over-quota use back for a queue that stays within its share.

Rules
-----
1. Two queues are compared where their paths to the root part: the one that takes and the one that gives are siblings.
2. Taking for the *guarantee*: the taker stays within its deserved quota; the giver is above its own.
   Taking for *fairness*: the taker stays within its fair share; the giver is above its own. Where the taker is not the
   leaf that wants it, it may also be above its fair share, if the giver, after it, is further above its own, in
   proportion (`Policy.reclaim_margin` times as far): so a team does not wait for its department's other teams only,
   while another department holds more.
3. Below that level the taker stays within its fair share in each of its queues, and the giver is above its deserved
   quota in each of its own: a queue within its quota never loses anything to another.
   Processors and memory of nodes, where queues have quotas of them, are a third reason, each by itself: the taker needs
   some and stays within its quota of it, the giver is above its own, in each of their queues that says something.
4. The giver is asked again before each victim, so it ends no lower than its share less one workload.
5. Victims are preemptible and past their least run time (see `min_runtime`); those that lose least go first (see
   `disruption`). What this cycle admitted or promised is not started after all, which disturbs nobody.
6. No queue above the two is left above its fair share by it, but for an exchange of like for like.
7. What was taken is not taken back (see `ordering`, rule 3): who gave is nearer to its share after it than who took
   was before it, or the one who took is within its own.
8. Room that somebody's going leaves over is not given here to those who are above their share: who comes next is a
   matter of the order of admission.
"""

from collections.abc import Callable, Iterable
from fractions import Fraction

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.admit.start import may_fit_soon, try_start
from jupyter_gq.scheduling.quota.reclaim_rights import may_take, may_take_rest
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads import gang

from . import notices
from .rounds import serve_in_rounds
from .victim_search import Allowed, make_room
from .victims import Stock
from .within_share import make_room_within_share


def reclaim(books: Books) -> bool:
    """Serve all who may take something back from other queues; the result is that of `serve_in_rounds`."""

    def promising(workload: Workload) -> bool:
        account = books.account(workload)
        return account.lasting + gang.smallest(workload) <= account.fair_share

    return serve_in_rounds(books, _reclaim_for, promising, EvictReason.RECLAIMED, notices.reclaimed)


def _reclaim_for(books: Books, workload: Workload, stock: Stock) -> list[Workload] | None:
    account = books.account(workload)
    if not account.known or account.lasting + gang.smallest(workload) > account.fair_share:
        return None
    if may_fit_soon(books, workload) and try_start(books, workload):
        return []
    return search(books, workload, lambda allowed: stock.of_others(account.queue.pool, workload.queue, allowed))


def search(
    books: Books, workload: Workload, candidates: Callable[[Allowed], Iterable[Workload]]
) -> list[Workload] | None:
    """Take from the candidates, in their order, as far as rules 1 to 4 and 6 allow; None when that does not help."""
    account, milli = books.account(workload), gang.smallest(workload)
    if not account.known or account.lasting + milli > account.fair_share:
        return None

    margin = Fraction(books.policy.reclaim_margin)

    def allowed(victim: Workload) -> bool:
        started, gives = victim.state is not State.PENDING, gang.held(victim)
        giver = books.account(victim)
        if may_take(account, giver, milli, gives=gives, started=started, margin=margin):
            return True
        return books.accounts.counts_rest and may_take_rest(account, giver, gang.smallest_rest(workload))

    return make_room_within_share(
        books, workload, lambda: make_room(books, workload, lambda: candidates(allowed), allowed)
    )
