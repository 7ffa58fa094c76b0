"""Who waits only because those who would give way have not run long enough yet (rules: `min_runtime`).

Asked at the end of a cycle, for the explanation: nothing is changed. Of those who would have to go, the ones are
found who may go soonest, so the time that is named is the shortest.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.admit.held_devices import passing
from jupyter_gq.scheduling.evict import preempt, reclaim
from jupyter_gq.scheduling.evict.victim_search import Allowed
from jupyter_gq.scheduling.evict.victims import placed_in_this_cycle, staying_units
from jupyter_gq.scheduling.quota.min_runtime import Shield
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads.disruption import disruption
from jupyter_gq.scheduling.workloads.request_class import request_class
from jupyter_gq.scheduling.workloads.seniority import seniority


@dataclass(frozen=True, kw_only=True, slots=True)
class _Candidates:
    """Those who could go for work of one queue, in the order in which they may."""

    others: list[Workload]
    same_queue: list[Workload]
    #: Some of them may still run.
    any_shielded: bool


def note_shielded(books: Books) -> None:
    """Write into the books who would have been helped if others had run long enough."""
    if not books.index.min_runtimes.in_use:
        return
    by_queue: dict[str, _Candidates] = {}
    found: dict[object, Shield | None] = {}
    for workload in sorted(filter(books.is_unsettled, books.waiting.values()), key=seniority):
        if workload.queue not in by_queue:
            by_queue[workload.queue] = _candidates(books, workload)
        candidates = by_queue[workload.queue]
        key = (workload.queue, request_class(workload))
        if key not in found:
            found[key] = _search(books, workload, candidates) if candidates.any_shielded else None
        shield = found[key]
        if shield is not None:
            books.shielded[workload.id] = shield


def _candidates(books: Books, taker: Workload) -> _Candidates:
    pool = books.account(taker).queue.pool
    there = [
        (books.may_still_run(victim, taker), disruption(victim), victim)
        for victim in [*staying_units(books), *placed_in_this_cycle(books)]
        if victim.preemptible and pool in books.pools_of(victim)
    ]
    there.sort(key=lambda entry: entry[:2])
    return _Candidates(
        others=[victim for *_, victim in there if victim.queue != taker.queue],
        same_queue=[victim for *_, victim in there if victim.queue == taker.queue],
        any_shielded=bool(there) and there[-1][0] > 0,
    )


def _search(books: Books, workload: Workload, candidates: _Candidates) -> Shield | None:
    def others(_: Allowed) -> Iterable[Workload]:
        return candidates.others

    with passing(books, workload):
        mark = books.ledger.mark()
        victims = reclaim.search(books, workload, others)
        if victims is None:
            victims = preempt.search(books, workload, candidates.same_queue)
        if victims is None:
            return None
        books.undo_room(workload, victims, mark)
    time = max((books.may_still_run(victim, workload) for victim in victims), default=0.0)
    return Shield(victims=tuple(victims), left=Seconds(time)) if time else None
