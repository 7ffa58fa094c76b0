"""The order in which pending work is considered in this cycle (rules: `order.queue_order`)."""

from contextlib import nullcontext

from jupyter_gq.scheduling.order.queue_order import JobOrder
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.request_class import WorkloadTest, any_workload


def job_order(
    index: ClusterIndex,
    allocations: Allocations,
    evictions: Evictions,
    promising: WorkloadTest = any_workload,
    *,
    replicas: bool = False,
    by_pool: bool = False,
) -> JobOrder:
    """Return an iteration over the pending workloads without a nomination, in the order in which to consider them.

    Request classes for which `promising` is false now are left out. `replicas`: include the replicas that elastic work
    could still get, after new ones were put into the pending queues. `by_pool`: ask `promising` once for each class and
    pool, instead of each class and queue.
    """
    if replicas:
        allocations.replicas.take_newly_wanted()
    takes_part = allocations.is_seeking if replicas else allocations.is_unplaced
    # Reservations are lifted once for all workloads that are asked whether they may fit.
    with allocations.lifting_reservations(None) if allocations.any_reservations else nullcontext():
        usage = user_usage(index, allocations, evictions)
        return JobOrder(allocations.accounts, index.pending.by_queue, takes_part, promising, usage, by_pool=by_pool)


def rounds(index: ClusterIndex) -> range:
    """Return a range with more elements than there are workloads to serve: a bound on rounds that each serve one."""
    return range(len(index.pending.by_id) + len(index.replicas.wanted) + 1)


def user_usage(index: ClusterIndex, allocations: Allocations, evictions: Evictions) -> dict[str, dict[str, int]] | None:
    """Return the milli-GPU of each user in each leaf queue, as decided so far in this cycle, by queue and user.

    None means that the policy does not order work by user.
    """
    if not index.config.policy.per_user:
        return None
    found = {queue: dict(of_queue) for queue, of_queue in index.holders.user_usage.items()}
    gone = [index.workloads[name] for name in evictions.evicted if index.workloads[name].queue in found]
    shrinks = [each.replica for each in evictions.replicas.values() if each.replica.whole.id not in evictions.evicted]
    changes = [(each, -gang.held(each)) for each in (*gone, *shrinks)]
    changes += [(workload, gang.held(workload)) for workload in allocations.admitted.values()]
    changes += [(nominee, gang.smallest(nominee)) for nominee in map(allocations.nominee, allocations.nominated)]
    for workload, milli in changes:
        of_queue = found.setdefault(workload.queue, {})
        of_queue[workload.owner] = of_queue.get(workload.owner, 0) + milli
    return found
