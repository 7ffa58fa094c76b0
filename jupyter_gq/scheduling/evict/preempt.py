"""Preempt: inside one queue, work of strictly lower priority gives way.

Rules
-----
Victims: work of the same leaf queue that is preemptible, has strictly lower priority and is not protected by its min
runtime (see `quota.min_runtime`).

Fair shares: no queue ends above its fair share by it, except in an exchange of like for like (see `within_share`).

Order: what this cycle admitted or nominated goes first, then the lowest priority, then the work that loses least.
"""

from collections.abc import Iterable

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.admit.start import may_fit_soon, try_place
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.workloads.disruption import disruption

from . import notices
from .rounds import Strategy, evict_in_rounds
from .victim_search import make_room
from .victims import VictimIndex
from .within_share import make_room_within_share


def preempt(inputs: CycleInputs, allocations: Allocations, evictions: Evictions) -> bool:
    """Let pending work take the place of lower priorities in its queue; return what `evict_in_rounds` returns."""
    priorities = inputs.index.priorities
    if not priorities.differ():
        return False
    lowest: dict[str, int] = {}

    def promising(workload: Workload) -> bool:
        queue = workload.queue
        if queue not in lowest:
            lowest[queue] = min(priorities.in_queue(queue), default=0)
        return lowest[queue] < workload.priority

    def find(workload: Workload, victims: VictimIndex) -> list[Workload] | None:
        return _preempt_for(allocations, workload, victims)

    strategy = Strategy(
        promising=promising, find_victims=find, reason=EvictReason.PREEMPTED, sentence=notices.describe_preemption
    )
    return evict_in_rounds(inputs, allocations, evictions, strategy)


def _preempt_for(allocations: Allocations, workload: Workload, victims: VictimIndex) -> list[Workload] | None:
    account = allocations.account(workload)
    if not account.known:
        return None
    if may_fit_soon(allocations, workload) and try_place(allocations, workload):
        return []
    members = victims.of_queue(account.queue.pool, workload.queue)
    lower = [victim for victim in members if victim.priority < workload.priority]
    lower.sort(key=lambda victim: (disruption(victim)[0], victim.priority, disruption(victim)))
    return search(allocations, workload, lower)


def search(allocations: Allocations, workload: Workload, candidates: Iterable[Workload]) -> list[Workload] | None:
    """Make room with candidates of lower priority, in their order, as `make_room` does; None if that does not help."""
    lower = [victim for victim in candidates if victim.priority < workload.priority]
    if not lower:
        return None
    return make_room_within_share(allocations, workload, lambda: make_room(allocations, workload, lambda: lower))
