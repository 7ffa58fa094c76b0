"""Deserved work: pending work with a claim that lasts, which moves and evictions serve before all other work.

A move for other work could bring a mover to a device of which deserved work has the right to evict what runs there.
If the mover is within the quota of its queue, nobody has the right to evict the mover, so the deserved work would wait
for as long as the mover runs.

See docs/decisions/0309-serve-deserved-work-before-moving-for-other-work.md.
"""

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.quota.reclaim_rights import is_guaranteed
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.workloads import gang


def is_deserved(index: ClusterIndex, allocations: Allocations, evictions: Evictions, workload: Workload) -> bool:
    """Tell whether the leaf queue stays within its deserved quota with the workload, as things stand.

    Work of lower priority that could go for the workload does not count. Work that needs no GPU is deserved if quotas
    of CPU and memory guarantee what it needs.
    """
    account, milli = allocations.account(workload), gang.smallest(workload)
    if not milli:
        return is_guaranteed(account, workload)
    lacks = account.lasting + milli - account.deserved
    if lacks <= 0:
        return True
    if milli > account.deserved or not index.priorities.any_lower(workload):
        return False
    running = index.holders.by_leaf[True].get(account.queue.pool, {}).get(workload.queue, ())
    staying = (each for each in running if each.id not in evictions.stopping)
    placed = (each for each in allocations.placed() if each.preemptible and each.queue == workload.queue)
    return sum(gang.held(each) for each in (*staying, *placed) if each.priority < workload.priority) >= lacks
