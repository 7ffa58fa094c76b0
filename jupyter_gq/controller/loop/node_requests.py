"""Ask clusters that can grow for the new nodes that a decision leaves wanted."""

from collections.abc import Iterable

from jupyter_gq.backends.protocol import Backend
from jupyter_gq.domain.workload import Kind
from jupyter_gq.scheduling.decision import WantedNodes


def request_nodes(backends: Iterable[Backend], unobserved: frozenset[Kind], wanted: WantedNodes) -> None:
    """Tell each backend how many new nodes of each of its pools would serve pending workloads.

    A backend of a kind in `unobserved` could not be observed and is not told: its jobs took no part in the decision,
    so its last request stays.
    """
    for backend in backends:
        supply = backend.capabilities.node_supply
        pools = {new.pool for new in supply.new_nodes()}
        if not backend.kinds & unobserved:
            supply.request_nodes({pool: count for pool, count in wanted.count.items() if pool in pools})
