"""Drain nodes: tell training work to leave before the node goes away.

Rules
-----
Told at once: whoever drains a node ends whatever is left there in the end. So training work that can be paused is told
first. Such work has its grace period, saves its state and waits with its seniority, whether or not it fits elsewhere.

Left alone: notebooks stay until they end, and so does training work that is not preemptible, since neither could go on
by itself.

Gangs: of elastic work, surplus replicas on the node go. If a task of the smallest gang is there, all of it goes.

Unconditional: no min runtime protects this work, and none of it is reprieved if its room turns out not to be needed.

See docs/decisions/0034-move-jobs-off-cordoned-nodes.md.
"""

from functools import partial

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.evictions import Evictions, ReplicaEviction
from jupyter_gq.scheduling.workloads.replicas import Replica, whole_workload

from . import notices
from .eviction import evict_whole


def drain_nodes(index: ClusterIndex, allocations: Allocations, evictions: Evictions) -> None:
    """Evict all training work that can be paused from the nodes that are being drained."""
    for node in index.config.draining:
        for _, holder in sorted(index.holders.on_node.get(node, {}).items(), reverse=True):
            if _can_leave(holder, evictions):
                _evict_from(node, holder, allocations, evictions)


def _can_leave(holder: Workload, evictions: Evictions) -> bool:
    if holder.kind is not Kind.TRAINING or not holder.preemptible:
        return False
    return whole_workload(holder).id not in evictions.evicted and holder.id not in evictions.replicas


def _evict_from(node: str, holder: Workload, allocations: Allocations, evictions: Evictions) -> None:
    if isinstance(holder, Replica):
        allocations.release(holder)
        sentence = partial(notices.describe_drain, node=node)
        evictions.evict_replica(
            ReplicaEviction(replica=holder, reason=EvictReason.NODE_EMPTIED, by=None, sentence=sentence)
        )
    else:
        evict_whole(allocations, evictions, holder, EvictReason.NODE_EMPTIED, notices.describe_drain(holder, node))
