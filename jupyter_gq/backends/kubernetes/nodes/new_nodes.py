"""New nodes that the cluster may still add to pools that grow."""

from dataclasses import replace

from jupyter_gq.backends.kubernetes.api.views import NodeView
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.domain.cluster import Device, NewNodes, Node
from jupyter_gq.domain.pod_pool import PodPool, ScaleUp

from .models import device_by_labels, offered_labels
from .nodes import Nodes
from .placeholders import Placeholders


def new_nodes(nodes: Nodes, placeholders: Placeholders) -> tuple[NewNodes, ...]:
    """Return one entry for each pool that grows, also if the pool is as large as it may be."""
    return tuple(
        NewNodes(
            pool=pool.name,
            like=_like(pool, pool.scale_up, nodes),
            count=_left(pool.name, pool.scale_up, nodes, placeholders),
        )
        for pool in nodes.pools()
        if pool.scale_up is not None
    )


def _left(pool: str, most: ScaleUp, nodes: Nodes, placeholders: Placeholders) -> int:
    """Return how many more nodes the pool may get: its maximum less its present nodes, and at least 0.

    Present nodes on which work cannot be placed yet do not count, at most as many as placeholders stand.
    """
    there, arriving = nodes.of_pool(pool), placeholders.arriving()
    coming = sum(node in arriving or not nodes.slots(node) for node in there)
    return max(0, most.nodes - len(there) + min(coming, placeholders.standing(pool)))


def _like(pool: PodPool, has: ScaleUp, nodes: Nodes) -> Node:
    """Return a template of the pool's new nodes, with devices like the present ones, or as the pool's labels say."""
    name, there = f"new-{pool.name}", nodes.of_pool(pool.name)
    known = (nodes.model(node) for node in there if nodes.slots(node))
    model = next((device for device in known if device is not None), None)
    device = model or device_by_labels(NodeView(name=name, labels=pool.selector), 0, pool, healthy=True)
    return Node(
        name=name,
        devices=tuple(_device(device, name, index, pool.name) for index in range(has.gpus)),
        cpu_milli=has.cpu_milli,
        memory=has.memory,
        labels=offered_labels(pool.selector, pool, shares=not any(map(nodes.sliced, there))),
    )


def _device(model: Device, node: str, index: int, pool: str) -> Device:
    return replace(model, id=names.slot_of(node, index), index=index, pool=pool, healthy=True)
