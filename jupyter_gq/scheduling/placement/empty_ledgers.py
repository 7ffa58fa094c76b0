"""Ledgers on which nothing is held, of nodes as they are or as they might be."""

from collections.abc import Iterable
from dataclasses import replace

from jupyter_gq.domain.amount import NO_MEMORY, MiB
from jupyter_gq.domain.cluster import Node, Topology

from .ledger import DeviceLedger


def empty_ledger(nodes: Iterable[Node], topologies: Iterable[Topology] = (), *, healthy: bool = True) -> DeviceLedger:
    """Return a ledger of these nodes on which nothing is held.

    If `healthy` is true, only devices that work now count, without what foreign pods take of the nodes; otherwise
    everything that there may ever be.
    """
    if not healthy:
        nodes = map(at_its_best, nodes)
    return DeviceLedger(nodes, (), topologies=topologies)


def at_its_best(node: Node) -> Node:
    """Return the node as if it took new work, all its devices worked, and nobody else used it."""
    return replace(
        node,
        devices=tuple(replace(device, healthy=True, draining=False) for device in node.devices),
        cpu_milli=None if node.cpu_milli is None else node.cpu_milli + node.cpu_by_others,
        memory=None if node.memory is None else MiB(node.memory + node.memory_by_others),
        cpu_by_others=0,
        memory_by_others=NO_MEMORY,
        closed="",
        draining=False,
    )
