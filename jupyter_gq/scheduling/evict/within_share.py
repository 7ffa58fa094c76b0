"""Make room only where it lasts: the limit that reclaim and preemption set to every victim search.

Rules
-----
Exchange only: what a queue takes above its fair share, other queues would take back, and the victims would start again
in its place, for ever. So a queue above its fair share may only exchange: the queue uses no more than before, and no
larger workload takes the place of smaller ones.

Guarantee: nobody takes back what a leaf queue uses within its deserved quota, nor work that is not preemptible. Such
room lasts, so the first rule does not hold for it, whatever the size of the workload. Work of lower priority does not
count as use here: it would go first.

Where it is asked: of the leaf queue of the preemptor, and of the queues that are above all victims. For the other
queues the rules of reclaim provide.
"""

from collections.abc import Callable, Sequence

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.workloads import gang


def make_room_within_share(
    allocations: Allocations,
    workload: Workload,
    search: Callable[[], list[Workload] | None],
    lower: Sequence[Workload] = (),
) -> list[Workload] | None:
    """Run a victim search and return its victims; None if it found none or if the rules forbid what it found.

    `lower` is the work of lower priority in the queue of the workload. A forbidden result is undone, so None changes
    nothing.
    """
    chain = allocations.account(workload).chain
    before = [each.lasting for each in chain]
    mark = allocations.ledger.mark()
    released = search()
    if released is None or is_kept(allocations, workload, lower, released):
        return released
    larger = gang.smallest(workload) > max((gang.held(victim) for victim in released), default=0)
    above = [set(allocations.account(victim).chain) for victim in released]
    for each, most in zip(chain, before, strict=True):
        if each is not chain[0] and not all(each in accounts for accounts in above):
            continue
        if each.lasting > each.fair_share and (larger or each.lasting > most):
            allocations.undo_search(workload, released, mark)
            return None
    return released


def is_kept(
    allocations: Allocations, workload: Workload, lower: Sequence[Workload], released: Sequence[Workload]
) -> bool:
    """Tell whether no other queue can take back what the nominated workload got (see the rule on guarantees).

    True if the work is not preemptible, or if its leaf queue stays within its deserved quota without the work of
    `lower` that stays. False for work that needs no GPU, since a quota of GPUs does not guarantee it.
    """
    if not gang.smallest(workload):
        return False
    if not workload.preemptible:
        return True
    gone = {victim.id for victim in released}
    account = allocations.account(workload)
    return account.lasting - sum(gang.held(each) for each in lower if each.id not in gone) <= account.deserved
