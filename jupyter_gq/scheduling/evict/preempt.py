"""Preempt: inside one queue, work of strictly lower priority gives way.

Rules
-----
Victims: work of the same leaf queue that is preemptible, has strictly lower priority and is not protected by its min
runtime (see `quota.min_runtime`).

Fair shares: no queue ends above its fair share by it, except in an exchange of like for like and for a guarantee (see
`within_share`).

Order: what this cycle admitted or nominated goes first, then the lowest priority, then the work that loses least.

Kept room: a workload that needs no GPU does not take the place of nominated work for which other work stops. No quota
of GPUs gives it a claim to such room (see `rights`).

Together with reclaim: if work of the same queue is not enough, other queues give as well, by the rules of reclaim.
What the lower priorities give leaves more of its shares to the queue.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.admit.start import may_fit_soon, try_place
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.disruption import disruption
from jupyter_gq.scheduling.workloads.request_class import WorkloadTest, any_workload

from . import reclaim
from .reclaim import Sources
from .rounds import Strategy, evict_in_rounds
from .victim_search import make_room
from .victims import VictimIndex
from .within_share import make_room_within_share


def preempt(
    inputs: CycleInputs, allocations: Allocations, evictions: Evictions, whom: WorkloadTest = any_workload
) -> bool:
    """Admit or nominate pending work by evicting work of lower priority in its queue, until no workload can be helped.

    If that is not enough for a workload, work of other queues goes as well, by the rules of reclaim. Only work of which
    `whom` is true is served. Returns True if something was undone that this cycle had admitted or nominated, so that
    other work may fit now.
    """
    priorities = inputs.index.priorities
    if not priorities.differ():
        return False

    def promising(workload: Workload) -> bool:
        return priorities.any_lower(workload) and whom(workload)

    def find(workload: Workload, victims: VictimIndex) -> list[Workload] | None:
        return _preempt_for(inputs.policy, allocations, workload, victims) if whom(workload) else None

    return evict_in_rounds(inputs, allocations, evictions, Strategy(promising=promising, find_victims=find))


def _preempt_for(
    policy: Policy, allocations: Allocations, workload: Workload, victims: VictimIndex
) -> list[Workload] | None:
    if not allocations.account(workload).known:
        return None
    if may_fit_soon(allocations, workload) and try_place(allocations, workload):
        return []
    return take_from_queue(policy, allocations, workload, victims)


def take_from_queue(
    policy: Policy, allocations: Allocations, workload: Workload, victims: VictimIndex
) -> list[Workload] | None:
    """Nominate the workload by releasing lower priorities of its queue and, if needed, work of other queues as well.

    Returns the released victims. None means that nothing helps, and then nothing has changed.
    """
    account = allocations.account(workload)
    pool, queue = account.queue.pool, workload.queue
    kept = set[str]() if gang.smallest(workload) else victims.awaiting_room()
    there = [victim for victim in victims.of_lower_priority(pool, workload) if victim.id not in kept]
    lower = sorted(there, key=lambda v: (disruption(v)[0], v.priority, disruption(v)))
    others = Sources(queues=lambda: victims.of_others(pool, queue))
    return search(policy, allocations, workload, lower, others)


def search(
    policy: Policy,
    allocations: Allocations,
    workload: Workload,
    lower: Sequence[Workload],
    others: Sources,
) -> list[Workload] | None:
    """Nominate the workload by releasing work of its own queue with lower priority, and return the released victims.

    If `lower` is not enough, work of `others` is released as well. Returns None if there is no work of lower priority,
    or if nothing helps; then nothing has changed.
    """
    if not lower:
        return None
    found = make_room_within_share(
        allocations, workload, lambda: make_room(allocations, workload, lambda: lower), lower
    )
    if found is not None:
        return found

    def queues() -> Iterator[Iterator[Workload]]:
        yield iter(lower)
        yield from others.queues()

    return reclaim.search(policy, allocations, workload, replace(others, queues=queues), lower)
