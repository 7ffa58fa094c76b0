"""Take devices back for pending work in rounds: what reclaim and preemption share.

A round asks each pending workload in the job order. What is taken for one workload may help another that was skipped
before, so rounds go on until one of them helps no workload.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.admit.job_order import job_order, rounds
from jupyter_gq.scheduling.admit.start import grows_unfairly
from jupyter_gq.scheduling.order.queue_order import JobOrder
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.workloads.request_class import WorkloadTest

from .eviction import evict_victims
from .victims import VictimIndex

#: Nominates the workload and returns its released victims, none if it simply fits; None if it cannot be helped.
FindVictims = Callable[[Workload, VictimIndex], Sequence[Workload] | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Strategy:
    """How a step takes devices back."""

    #: False for workloads that the step certainly cannot help as things stand when a round begins.
    promising: WorkloadTest
    find_victims: FindVictims


def evict_in_rounds(inputs: CycleInputs, allocations: Allocations, evictions: Evictions, strategy: Strategy) -> bool:
    """Admit or nominate all workloads that the strategy can help, and evict its victims, until it helps none any more.

    Returns True if something was undone that this cycle had admitted or nominated, so that other work may fit now.
    """
    undone = False
    for _ in rounds(inputs.index):
        order = job_order(inputs.index, allocations, evictions, strategy.promising, replicas=True)
        workload = order.next()
        if workload is None:
            break
        helped = False
        victims = VictimIndex(inputs, allocations, evictions)
        while workload is not None:
            found = _find_victims(inputs, allocations, workload, strategy, victims)
            if found is None:
                _skip(allocations, order, workload)
            else:
                helped = True
                undone |= evict_victims(allocations, evictions, found, workload)
                victims.add(workload)
                order.done()
                for victim in found:
                    order.touch(allocations.account(victim))
            workload = order.next()
        if not helped:
            break
    return undone


def _find_victims(
    inputs: CycleInputs, allocations: Allocations, workload: Workload, strategy: Strategy, victims: VictimIndex
) -> Sequence[Workload] | None:
    if allocations.is_moot(workload) or grows_unfairly(allocations, workload):
        return None
    if not inputs.index.holders.lenders.leave_room_for(allocations.account(workload).queue.pool, workload):
        return None
    with allocations.lifting_reservations(workload):
        return victims.search(lambda: strategy.find_victims(workload, victims))


def _skip(allocations: Allocations, order: JobOrder, workload: Workload) -> None:
    """Skip the workload and its whole class. A replica that its workload cannot get any more is skipped alone."""
    if allocations.is_moot(workload):
        order.done()
    else:
        order.skip_class()
