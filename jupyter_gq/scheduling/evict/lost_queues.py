"""Sentences for the owners of victims whose queue was removed from the configuration, so that they do not come back."""

from dataclasses import replace

from jupyter_gq.scheduling.decision import Evict
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.evictions import Evictions

from . import notices


def tell_lost_queues(allocations: Allocations, evictions: Evictions) -> None:
    """Say in the eviction of each victim of a queue that was removed what its owner has to do."""
    for name, evict in evictions.evicted.items():
        victim = evictions.stopping[name]
        if isinstance(evict, Evict) and not allocations.account(victim).known:
            evictions.evicted[name] = replace(evict, sentence=notices.describe_lost_queue(victim, evict.sentence))
