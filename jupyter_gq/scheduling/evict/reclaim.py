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
   The rights to GPUs count only if the taker exceeds no such quota, since others could take that back.
4. One victim at a time: the rules are checked again before each victim, so the giver ends no lower than its fair share
   less one workload. A queue that was refused is asked again after each victim under the same root as the taker, since
   such a victim leaves more to the taker (see `rights`).
5. Victims: work that is preemptible and not protected by its min runtime (see `quota.min_runtime`), the one that loses
   least first (see `workloads.disruption`). What this cycle admitted or nominated does not start after all, which
   disturbs nobody. So it goes first: running work is taken only from a queue that is above its quota without it.
6. Above before within: a queue within its fair share gives only if queues above theirs cannot give enough, together
   with the lower priorities of the taker's own queue. So it gives nothing here as long as the own queue has work of a
   lower priority that may go: preemption, which takes from all of them together, comes next.
7. Queues above both: none of them ends above its fair share by it, except in an exchange of like for like and for a
   guarantee (see `within_share`).
8. No ping-pong: what was taken is not taken back (see `order.queue_order`). Afterwards the giver is nearer to its
   fair share than the taker was before, or the taker is within its own.
9. Room left over: room that a victim leaves over is not given here to queues above their fair share. Admission decides
   in its own order which workload gets it.

Bounded search: see `victim_search`.

See docs/decisions/0071-search-small-sets-of-victims-exactly.md and
docs/decisions/0172-take-from-lower-priorities-before-queues-within-their-shares.md. For what has not started, see
docs/decisions/0298-let-work-that-has-not-started-go-first.md and
docs/decisions/0325-count-what-starts-as-the-first-to-go-in-every-resource.md.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice, takewhile

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.admit.start import may_fit_soon, try_place
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.quota.accounts import Account
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.request_class import WorkloadTest, any_workload

from .rights import ABOVE, WITHIN, Rights
from .rounds import Strategy, evict_in_rounds
from .victim_search import MOST_CANDIDATES, Limits, make_room
from .victims import Precedence, VictimIndex, by_loss, merge_candidates
from .within_share import make_room_within_share

#: Returns the candidates of each leaf queue, each in their order; called for each search.
Queues = Callable[[], Iterable[Iterator[Workload]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """The leaf queues whose work may have to go, and the order between candidates of different queues."""

    queues: Queues
    order: Callable[[Workload], Precedence] = by_loss
    #: Returns the work of the workload's own queue with a lower priority that may go but is not among the candidates.
    left_out: Callable[[], Iterable[Workload]] = tuple


def reclaim(
    inputs: CycleInputs, allocations: Allocations, evictions: Evictions, whom: WorkloadTest = any_workload
) -> bool:
    """Admit or nominate pending work within its queue's fair share by evicting work of other queues.

    Only work of which `whom` is true is served.

    Goes on until no workload can be helped. Returns True if something was undone that this cycle had admitted or
    nominated, so that other work may fit now.
    """

    def promising(workload: Workload) -> bool:
        return is_promising(allocations, workload) and whom(workload)

    def find(workload: Workload, victims: VictimIndex) -> list[Workload] | None:
        return _reclaim_for(inputs.policy, allocations, workload, victims) if promising(workload) else None

    return evict_in_rounds(inputs, allocations, evictions, Strategy(promising=promising, find_victims=find))


def _reclaim_for(
    policy: Policy, allocations: Allocations, workload: Workload, victims: VictimIndex
) -> list[Workload] | None:
    """Place a promising workload, by releasing work of other queues if needed, and return the released victims.

    None means that the workload got no place. An empty list means that no victim was needed.
    """
    if may_fit_soon(allocations, workload) and try_place(allocations, workload):
        return []
    return take_from_others(policy, allocations, workload, victims)


def is_promising(allocations: Allocations, workload: Workload) -> bool:
    """Tell whether the leaf queue is known and stays within its fair share with the workload.

    Work without a GPU may claim what quotas of CPU and memory guarantee, however many GPUs its queue uses.
    """
    account, milli = allocations.account(workload), gang.smallest(workload)
    claims_host = not milli and allocations.accounts.counts_host and any(gang.smallest_host(workload))
    return account.known and (claims_host or account.lasting + milli <= account.fair_share)


def take_from_others(
    policy: Policy, allocations: Allocations, workload: Workload, victims: VictimIndex
) -> list[Workload] | None:
    """Nominate the workload by releasing work of other queues, and return the released victims.

    None means that nothing helps, and then nothing has changed. The workload must be promising (`is_promising`).
    """
    pool, queue = allocations.account(workload).queue.pool, workload.queue
    sources = Sources(
        queues=lambda: victims.of_others(pool, queue),
        left_out=lambda: victims.of_lower_priority(pool, workload),
    )
    return search(policy, allocations, workload, sources)


def search(
    policy: Policy,
    allocations: Allocations,
    workload: Workload,
    sources: Sources,
    lower: Sequence[Workload] = (),
) -> list[Workload] | None:
    """Nominate the workload by releasing candidates that the rules allow, in their order, and return these victims.

    Queues above their fair share are tried alone first; then the queues within theirs may give too, unless the sources
    leave out work that should give before them. None means that nothing helps, and then nothing has changed. `lower` is
    the work of the workload's own queue with a lower priority that is among the candidates.
    """
    if not allocations.account(workload).known:
        return None
    rights = Rights(policy, allocations, workload)
    queues, order = sources.queues, sources.order

    def candidates() -> Iterator[Workload]:
        return merge_candidates(queues(), rights.rank, rights.may_grow_by, order)

    def everything() -> list[Workload]:
        found: list[list[Workload]] = []
        left = MOST_CANDIDATES + 1
        for queue in queues():
            found.append(list(islice(takewhile(rights.could_allow, queue), left)))
            left -= len(found[-1])
        return list(merge(*found, key=order))

    def attempt(opening: Sequence[Workload]) -> list[Workload] | None:
        limits = Limits(rights=rights, opening=opening, everything=None if opening else everything)
        return make_room_within_share(
            allocations, workload, lambda: make_room(allocations, workload, candidates, limits), lower
        )

    for most in (ABOVE, WITHIN):
        rights.most, rights.refused_by_rank = most, False
        for opening in ((), *_openings(allocations, workload, queues)):
            found = attempt(opening)
            if found is not None:
                return found
        if not rights.refused_by_rank or any(sources.left_out()):
            break
    return None


def _openings(allocations: Allocations, workload: Workload, queues: Queues) -> Iterator[list[Workload]]:
    """Yield, for each queue on the path that the workload would lift above its fair share, all candidates below it.

    Their going would let the workload take from queues elsewhere, at a place of its choice. Queues without siblings are
    left out.
    """
    account, milli = allocations.account(workload), gang.smallest(workload)
    for each in account.chain:
        if each.lasting + milli > each.fair_share and _has_siblings(allocations, each):
            yield [victim for queue in queues() for victim in queue if each in allocations.account(victim).chain]


def _has_siblings(allocations: Allocations, account: Account) -> bool:
    """Tell whether the queue has siblings; root queues of one pool are siblings."""
    if account.parent is not None:
        return len(account.parent.children) > 1
    return len(allocations.accounts.roots(account.queue.pool)) > 1
