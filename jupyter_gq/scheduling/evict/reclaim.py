"""Reclaim: take back from other queues what they use above their fair share, for a queue that stays within its own.

Rules
-----
1. Siblings: two queues are compared at the level where their paths to the root part. There the queue that takes and the
   queue that gives are siblings.
2. Guarantee and fairness: to reclaim for the *guarantee*, the taker stays within its deserved quota and the giver is
   above its own. To reclaim for *fairness*, the taker stays within its fair share and the giver is above its own. A
   taker that is not itself the leaf queue of the preemptor may also be above its fair share, as long as the giver is
   still further above its own afterwards, in proportion (`Policy.reclaim_margin` times as far). Otherwise a team would
   have to wait for the other teams of its department while another department holds more.
3. Below that level: the taker stays within its fair share in each of its queues, and the giver is above its deserved
   quota in each of its own. So a queue within its quota never loses anything to another one.
   CPU and memory are a third reason, each by itself, if queues have quotas of them: the taker needs some and stays
   within its quota of it, and the giver is above its own, in each of their queues that has such a quota.
4. One victim at a time: the rules are checked again before each victim, so the giver ends no lower than its fair share
   less one workload.
5. Victims: work that is preemptible and not protected by its min runtime (see `quota.min_runtime`), the one that loses
   least first (see `workloads.disruption`). What this cycle admitted or nominated does not start after all, which
   disturbs nobody.
6. Queues above both: none of them ends above its fair share by it, except in an exchange of like for like.
7. No ping-pong: what was taken is not taken back (see `order.queue_order`). Afterwards the giver is nearer to its
   fair share than the taker was before, or the taker is within its own.
8. Room left over: room that a victim leaves over is not given here to queues above their fair share. Admission decides
   in its own order which workload gets it.
"""

from collections.abc import Callable, Iterable
from fractions import Fraction

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.admit.start import may_fit_soon, try_place
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.quota.reclaim_rights import may_reclaim, may_reclaim_host
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.workloads import gang

from . import notices
from .rounds import Strategy, evict_in_rounds
from .victim_search import Allowed, make_room
from .victims import VictimIndex
from .within_share import make_room_within_share


def reclaim(inputs: CycleInputs, allocations: Allocations, evictions: Evictions) -> bool:
    """Let pending work take devices back from other queues; return what `evict_in_rounds` returns."""

    def promising(workload: Workload) -> bool:
        account = allocations.account(workload)
        return account.lasting + gang.smallest(workload) <= account.fair_share

    def find(workload: Workload, victims: VictimIndex) -> list[Workload] | None:
        return _reclaim_for(inputs.policy, allocations, workload, victims)

    strategy = Strategy(
        promising=promising, find_victims=find, reason=EvictReason.RECLAIMED, sentence=notices.describe_reclaim
    )
    return evict_in_rounds(inputs, allocations, evictions, strategy)


def _reclaim_for(
    policy: Policy, allocations: Allocations, workload: Workload, victims: VictimIndex
) -> list[Workload] | None:
    """Return victims of other queues; [] = no victim is needed; None = it does not help."""
    account = allocations.account(workload)
    if not account.known or account.lasting + gang.smallest(workload) > account.fair_share:
        return None
    if may_fit_soon(allocations, workload) and try_place(allocations, workload):
        return []
    pool, queue = account.queue.pool, workload.queue
    return search(policy, allocations, workload, lambda allowed: victims.of_others(pool, queue, allowed))


def search(
    policy: Policy,
    allocations: Allocations,
    workload: Workload,
    candidates: Callable[[Allowed], Iterable[Workload]],
) -> list[Workload] | None:
    """Make room with the candidates that the rules allow, in their order; None if that does not help."""
    account, milli = allocations.account(workload), gang.smallest(workload)
    if not account.known or account.lasting + milli > account.fair_share:
        return None

    margin = Fraction(policy.reclaim_margin)

    def allowed(victim: Workload) -> bool:
        started, gives = victim.state is not State.PENDING, gang.held(victim)
        giver = allocations.account(victim)
        if may_reclaim(account, giver, milli, gives=gives, started=started, margin=margin):
            return True
        return allocations.accounts.counts_host and may_reclaim_host(account, giver, gang.smallest_host(workload))

    return make_room_within_share(
        allocations, workload, lambda: make_room(allocations, workload, lambda: candidates(allowed), allowed)
    )
