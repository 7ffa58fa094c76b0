"""The nodes that backends offer: those of several backends as one list, and without devices that take nothing new."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from jupyter_gq.domain.cluster import Node


def merge_offers(offers: Iterable[tuple[Node, ...]]) -> list[Node]:
    """Return the nodes of all offers, sorted by name; a node that several backends offer is merged into one."""
    found: dict[str, Node] = {}
    for node in (node for offer in offers for node in offer):
        known = found.get(node.name)
        found[node.name] = node if known is None else _merge_node(known, node)
    return [found[name] for name in sorted(found)]


def without_devices(nodes: Iterable[Node], taken: Collection[str]) -> list[Node]:
    """Return the nodes, with the devices whose ids are in `taken` marked unhealthy, so that nothing new goes there."""
    return [
        replace(
            node,
            devices=tuple(
                replace(device, healthy=False, withheld=False) if device.id in taken else device
                for device in node.devices
            ),
        )
        if any(device.id in taken for device in node.devices)
        else node
        for node in nodes
    ]


def _merge_node(one: Node, other: Node) -> Node:
    """Return a node with the devices and labels that either backend knows, closed or draining if either says so.

    If both know a device or label, `other` decides. If both give a reason why the node is closed, that of `one` counts,
    and so do all its other fields.
    """
    devices = {device.id: device for device in (*one.devices, *other.devices)}
    return replace(
        one,
        devices=tuple(devices.values()),
        labels={**one.labels, **other.labels},
        closed=one.closed or other.closed,
        draining=one.draining or other.draining,
    )
