"""Find the workloads that wait only because their victims have not run long enough (rules: `quota.min_runtime`).

Used at the end of a cycle, for explanations; nothing is changed. Victims are sought among the candidates whose
protection ends first, so the time that an explanation names is the shortest possible.

When that time has passed, other work may still be protected, and what stays counts as use of its queue (see
`evict.within_share`). So a time is named only if the victims may go while all other protected work stays; otherwise a
later one is, when more of it may go as well.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.evict import preempt, reclaim
from jupyter_gq.scheduling.evict.reclaim import Sources
from jupyter_gq.scheduling.evict.victims import Precedence, staying_holders
from jupyter_gq.scheduling.quota.min_runtime import ProtectedVictims
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.state.findings import Findings
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.disruption import disruption, loss
from jupyter_gq.scheduling.workloads.request_class import request_class
from jupyter_gq.scheduling.workloads.seniority import seniority

#: Times that are tried before the one at which no protection is left.
_MOST_MOMENTS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class _Candidates:
    """Work that could go for work of one queue if it had run long enough, in the order in which protection ends."""

    #: By leaf queue.
    others: dict[str, list[Workload]]
    same_queue: list[Workload]
    #: Some of the candidates are still protected.
    any_protected: bool

    def all(self) -> Iterator[Workload]:
        """Yield all candidates."""
        return chain(self.same_queue, *self.others.values())

    def within(self, seconds: float, protected_for: Callable[[Workload], float]) -> "_Candidates":
        """Return the candidates whose protection has ended in so many seconds."""

        def ready(victims: list[Workload]) -> list[Workload]:
            return [victim for victim in victims if protected_for(victim) <= seconds]

        others = {queue: ready(victims) for queue, victims in self.others.items()}
        return replace(self, others=others, same_queue=ready(self.same_queue))


def find_protected_victims(
    inputs: CycleInputs, allocations: Allocations, evictions: Evictions, findings: Findings
) -> None:
    """Add to the findings each pending workload that would be placed if no min runtime protected its victims.

    Allocations and evictions change on trial only.
    """
    if not inputs.index.min_runtimes.in_use:
        return
    by_queue: dict[str, _Candidates] = {}
    found: dict[object, ProtectedVictims | None] = {}
    for workload in sorted(filter(allocations.is_unplaced, allocations.pending.values()), key=seniority):
        if workload.queue not in by_queue:
            by_queue[workload.queue] = _candidates(inputs, allocations, evictions, workload)
        candidates = by_queue[workload.queue]
        key = (workload.queue, request_class(workload))
        if key not in found:
            found[key] = _search(inputs, allocations, workload, candidates) if candidates.any_protected else None
        protected = found[key]
        if protected is not None:
            findings.protected_victims[workload.id] = protected


def _candidates(
    inputs: CycleInputs, allocations: Allocations, evictions: Evictions, preemptor: Workload
) -> _Candidates:
    """Return the preemptible work in the pool of the preemptor, the least protected first, by queue."""
    pool = allocations.account(preemptor).queue.pool
    there = [
        (inputs.protected_for(victim, preemptor), disruption(victim), victim)
        for victim in [*staying_holders(inputs.index, allocations, evictions), *allocations.placed()]
        if victim.preemptible and pool in inputs.index.pools_of(victim)
    ]
    there.sort(key=lambda entry: entry[:2])
    others: dict[str, list[Workload]] = {}
    for *_, victim in there:
        if victim.queue != preemptor.queue:
            others.setdefault(victim.queue, []).append(victim)
    return _Candidates(
        others=others,
        same_queue=[victim for *_, victim in there if victim.queue == preemptor.queue],
        any_protected=bool(there) and there[-1][0] > 0,
    )


def _search(
    inputs: CycleInputs, allocations: Allocations, workload: Workload, candidates: _Candidates
) -> ProtectedVictims | None:
    """Return the victims that would make room for the workload if no min runtime protected work.

    Returns None if there are none, or if none of them is protected.
    """
    with allocations.lifting_reservations(workload):
        left = _shortest_wait(inputs, allocations, workload, candidates)
        if not left:
            return None
        for moment in _moments(inputs, workload, candidates, left):
            ready = candidates.within(moment, lambda victim: inputs.protected_for(victim, workload))
            found = _try_victims(inputs, allocations, workload, ready)
            if found:
                return ProtectedVictims(victims=tuple(found), left=Seconds(moment))
    return None


def _shortest_wait(
    inputs: CycleInputs, allocations: Allocations, workload: Workload, candidates: _Candidates
) -> float | None:
    """Return in how many seconds the workload could get room at the soonest; None if no victims would make room.

    Other queues are also tried alone, since they give as long as all lower priorities of the own queue are protected.
    """
    found = [_try_victims(inputs, allocations, workload, candidates)]
    if any(victim.priority < workload.priority for victim in candidates.same_queue):
        found.append(_try_victims(inputs, allocations, workload, replace(candidates, same_queue=[])))
    waits = [max(inputs.protected_for(victim, workload) for victim in victims) for victims in found if victims]
    return min(waits, default=None)


def _moments(inputs: CycleInputs, workload: Workload, candidates: _Candidates, first: float) -> Iterator[float]:
    """Yield the times from `first` on, in seconds, at which a protection ends: a few, and then the last one."""
    ends = sorted({inputs.protected_for(victim, workload) for victim in candidates.all()})
    later = [end for end in ends if end >= first]
    yield from later[:_MOST_MOMENTS]
    yield from later[_MOST_MOMENTS:][-1:]


def _try_victims(
    inputs: CycleInputs, allocations: Allocations, workload: Workload, candidates: _Candidates
) -> list[Workload] | None:
    """Return the victims that `_find_victims` finds; nothing has changed afterwards."""
    mark = allocations.ledger.mark()
    victims = _find_victims(inputs, allocations, workload, candidates)
    if victims is not None:
        allocations.undo_search(workload, victims, mark)
    return victims


def _find_victims(
    inputs: CycleInputs, allocations: Allocations, workload: Workload, candidates: _Candidates
) -> list[Workload] | None:
    """Nominate the workload by releasing victims, as reclaim does and then as preemption does, whatever protects them.

    Returns the released victims; None if that does not help.
    """
    policy = inputs.policy

    def others() -> Iterator[Iterator[Workload]]:
        return map(iter, candidates.others.values())

    def order(victim: Workload) -> Precedence:
        return (inputs.protected_for(victim, workload), loss(victim))

    lower = [victim for victim in candidates.same_queue if victim.priority < workload.priority]
    sources = Sources(queues=others, order=order, left_out=lambda: lower)
    victims = None
    if allocations.account(workload).lasting + gang.smallest(workload) <= allocations.account(workload).fair_share:
        victims = reclaim.search(policy, allocations, workload, sources)
    if victims is not None:
        return victims
    return preempt.search(policy, allocations, workload, lower, sources)
