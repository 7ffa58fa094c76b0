"""Ask clusters that can grow for the new nodes that a decision leaves wanted."""

from jupyter_gq.controller.context import Context
from jupyter_gq.scheduling.decision import WantedNodes


def request_nodes(context: Context, wanted: WantedNodes) -> None:
    """Tell each backend how many new nodes of each of its pools would serve pending workloads.

    A backend that could not be observed is not told: its jobs took no part in the decision, so its last request stays.
    """
    for backend in context.backends:
        supply = backend.capabilities.node_supply
        pools = {new.pool for new in supply.new_nodes()}
        if not backend.kinds & context.unobserved:
            supply.request_nodes({pool: count for pool, count in wanted.count.items() if pool in pools})
