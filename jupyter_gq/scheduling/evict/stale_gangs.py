"""Stale gangs: a gang that stays below its smallest size for too long after losing tasks goes back to its queue.

Rules
-----
Stale: a workload that had its smallest gang and has lost some of it. The backend says since when
(`Workload.stale_since`).

Time to recover: for `Policy.stale_after` the workload keeps what it has. Elastic work may meanwhile be given what it
lacks, all or nothing, in its turn among pending work. If it is nominated for that much, it is left alone.

Then requeued: after that the whole workload goes, preemptible or not, since it holds devices with which it cannot go
on. The workload keeps its seniority.
"""

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.workloads.replicas import Replica, is_short

from . import notices
from .eviction import evict_whole


def requeue_stale(inputs: CycleInputs, allocations: Allocations, evictions: Evictions) -> bool:
    """Evict every gang that has been stale for `Policy.stale_after` or longer; return True if there was one.

    A gang that is nominated for what it lacks is left alone.
    """
    stale = sorted(inputs.index.holders.stale.values(), key=lambda workload: workload.id)
    found = [each for each in stale if _is_overdue(inputs, allocations, evictions, each)]
    for workload in found:
        sentence = notices.describe_stale_gang(workload, inputs.now)
        evict_whole(allocations, evictions, workload, EvictReason.STALE_GANG, sentence)
    return bool(found)


def _is_overdue(inputs: CycleInputs, allocations: Allocations, evictions: Evictions, workload: Workload) -> bool:
    since = workload.stale_since
    if since is None or inputs.now < since + inputs.policy.stale_after or workload.id in evictions.evicted:
        return False
    units = allocations.replicas.split(workload)
    return is_short(workload) and not any(isinstance(unit, Replica) and unit.vital for unit in units)
