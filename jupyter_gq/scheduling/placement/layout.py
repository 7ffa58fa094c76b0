"""The layout of a cluster: its devices in order, grouped by node and pool. A layout is fixed during a cycle."""

from collections.abc import Iterable

from jupyter_gq.domain.cluster import Device, Node

from .host_resources import UNLIMITED, HostResources, host_resources_of

#: Number of groups of a node whose devices are all of one pool: the group of the pool, and the one without devices.
POOL_AND_BARE = 2


class Layout:
    """Nodes by name and devices by index and id, each with its number. A *group* is the devices of a pool on one node.

    Each node has one more group, without devices, for tasks that need none: `bare[node]`.
    """

    __slots__ = (
        "alone",
        "bare",
        "counts_host_resources",
        "devices",
        "group_devices",
        "group_node",
        "group_of",
        "group_pool",
        "groups_of_node",
        "node_of",
        "nodes",
        "pools",
        "rank_of",
        "room",
    )

    def __init__(self, nodes: Iterable[Node], pools: Iterable[str]) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.name)
        self.node_of = {node.name: number for number, node in enumerate(self.nodes)}
        #: Host resources that tasks may use, by node.
        self.room: list[HostResources] = [host_resources_of(node) for node in self.nodes]
        self.counts_host_resources = any(room is not UNLIMITED for room in self.room)
        self.devices: list[Device] = []
        self.group_of: list[int] = []
        self.group_node: list[int] = []
        self.group_pool: list[str] = []
        self.group_devices: list[list[int]] = []
        self.groups_of_node: list[list[int]] = []
        for number, node in enumerate(self.nodes):
            self.groups_of_node.append(self._add(number, node))
        self.bare: list[int] = []
        for number in range(len(self.nodes)):
            group = self._group(number, "")
            self.bare.append(group)
            self.groups_of_node[number].append(group)
        #: True for a group that is the only one of its node with devices.
        self.alone = [len(self.groups_of_node[node]) <= POOL_AND_BARE for node in self.group_node]
        self.rank_of = {device.id: rank for rank, device in enumerate(self.devices)}
        self.pools = sorted({*self.group_pool, *pools} - {""})

    def _add(self, number: int, node: Node) -> list[int]:
        """Add the devices of a node, and return the numbers of its groups."""
        groups: dict[str, int] = {}
        for device in sorted(node.devices, key=lambda device: (device.index, device.id)):
            if device.pool not in groups:
                groups[device.pool] = self._group(number, device.pool)
            group = groups[device.pool]
            self.group_devices[group].append(len(self.devices))
            self.group_of.append(group)
            self.devices.append(device)
        return list(groups.values())

    def _group(self, node: int, pool: str) -> int:
        self.group_node.append(node)
        self.group_pool.append(pool)
        self.group_devices.append([])
        return len(self.group_node) - 1
