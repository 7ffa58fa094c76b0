"""Drain nodes and devices: tell training work to leave what goes out of service.

Rules
-----
Told at once: whoever drains a node or a device ends whatever is left there in the end. So training work that can be
paused is told first. Such work has its grace period, saves its state and waits with its seniority, whether or not it
fits elsewhere.

Left alone: notebooks stay until they end, and so does training work that is not preemptible, since neither could go on
by itself.

Lost pools: a device that the configuration has given to another pool, or to none, is drained for the work of all other
pools.

Gangs: of elastic work, surplus replicas on the node or device go. If a task of the smallest gang is there, all of it
goes.

Unconditional: no min runtime protects this work, and none of it is reprieved if its room turns out not to be needed.

See docs/decisions/0034-move-jobs-off-cordoned-nodes.md.
See docs/decisions/0078-let-the-service-keep-what-is-drained.md.
"""

from collections.abc import Iterator
from functools import partial

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.evictions import Evictions, ReplicaEviction
from jupyter_gq.scheduling.workloads.replicas import Replica, whole_workload

from . import notices
from .eviction import evict_whole


def drain(index: ClusterIndex, allocations: Allocations, evictions: Evictions) -> None:
    """Evict all training work that can be paused from nodes and devices that are drained or not in its pool.

    Work that was evicted earlier in this cycle is left alone.
    """
    for holder, cause in _holders_to_move(index):
        is_told = whole_workload(holder).id in evictions.evicted or holder.id in evictions.replicas
        if leaves_drained(holder) and not is_told:
            _evict(holder, cause, allocations, evictions)


def leaves_drained(workload: Workload) -> bool:
    """Tell whether a drain evicts this work: preemptible training work. All other work stays until it ends."""
    return workload.kind is Kind.TRAINING and workload.preemptible


def _holders_to_move(index: ClusterIndex) -> Iterator[tuple[Workload, str]]:
    """Yield each holder on a drained place, and each preemptible holder on a device of another pool, with the cause.

    The cause is a clause for people. A holder may come several times.
    """
    for node in index.config.draining:
        for holder in _holders_on(index, node):
            yield holder, f"the node {node} is being drained"
    for node, device in index.draining_devices():
        for holder in _holders_on(index, node):
            if any(device.id in task.devices for task in holder.placement):
                yield holder, f"GPU {device.index} of {node} is being drained"
    for pool, leaves in index.holders.by_leaf[True].items():
        for queue, holders in leaves.items():
            account = index.accounts.of(queue)
            if account.known and account.queue.pool != pool:
                for holder in holders:
                    yield holder, f"its GPU is no longer in the pool {account.queue.pool}"


def _holders_on(index: ClusterIndex, node: str) -> list[Workload]:
    """Return the workloads and replicas on the node that can be evicted, by descending id."""
    return [holder for _, holder in sorted(index.holders.on_node.get(node, {}).items(), reverse=True)]


def _evict(holder: Workload, cause: str, allocations: Allocations, evictions: Evictions) -> None:
    if isinstance(holder, Replica):
        allocations.release(holder)
        sentence = partial(notices.describe_drain, cause=cause)
        evictions.evict_replica(
            ReplicaEviction(replica=holder, reason=EvictReason.NODE_EMPTIED, by=None, sentence=sentence)
        )
    else:
        evict_whole(allocations, evictions, holder, EvictReason.NODE_EMPTIED, notices.describe_drain(holder, cause))
