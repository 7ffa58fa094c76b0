"""Sentences for the owners of victims whose queue was removed from the configuration, so that they do not come back."""

from dataclasses import replace

from jupyter_gq.scheduling.decision import Evict
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.evictions import Evictions, ReplicaEviction
from jupyter_gq.scheduling.workloads.replicas import Replica

from . import notices


def tell_lost_queues(allocations: Allocations, evictions: Evictions) -> None:
    """Say in the eviction of each victim of a queue that was removed what its owner has to do."""
    for name, evict in evictions.evicted.items():
        victim = evictions.stopping[name]
        if isinstance(evict, Evict) and not allocations.account(victim).known:
            evictions.evicted[name] = replace(evict, sentence=notices.describe_lost_queue(victim, evict.sentence))
    for name, eviction in evictions.replicas.items():
        if not allocations.account(eviction.replica).known:
            evictions.replicas[name] = _tell_lost_queue(eviction)


def _tell_lost_queue(eviction: ReplicaEviction) -> ReplicaEviction:
    """Return the eviction of a replica with a sentence that does not promise that its workload grows again."""

    def describe(replica: Replica) -> str:
        return notices.describe_lost_queue(replica, eviction.sentence(replica))

    return replace(eviction, sentence=describe)
