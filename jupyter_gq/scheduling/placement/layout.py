"""The layout of a cluster: its devices in order, grouped by node and pool. A layout is fixed during a cycle."""

from collections.abc import Iterable

from jupyter_gq.domain.cluster import Device, Node

from .host_resources import UNLIMITED, HostResources, host_resources_of

#: Number of device sets of a node whose devices are all of one pool: that of the pool, and the one without devices.
POOL_AND_BARE = 2


class Layout:
    """Nodes by name, and devices by index and id, each with its number.

    A *device set* is the devices of one pool on one node. Each node has one more device set, without devices, for tasks
    that need none: `bare[node]`.
    """

    __slots__ = (
        "alone",
        "bare",
        "counts_host_resources",
        "devices",
        "devices_of_set",
        "node_of",
        "node_of_set",
        "nodes",
        "pool_of_set",
        "pools",
        "rank_of",
        "room",
        "set_of_device",
        "sets_of_node",
    )

    def __init__(self, nodes: Iterable[Node], pools: Iterable[str]) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.name)
        self.node_of = {node.name: number for number, node in enumerate(self.nodes)}
        #: Host resources that tasks may use, by node.
        self.room: list[HostResources] = [host_resources_of(node) for node in self.nodes]
        self.counts_host_resources = any(room is not UNLIMITED for room in self.room)
        self.devices: list[Device] = []
        self.set_of_device: list[int] = []
        self.node_of_set: list[int] = []
        self.pool_of_set: list[str] = []
        self.devices_of_set: list[list[int]] = []
        self.sets_of_node: list[list[int]] = []
        for number, node in enumerate(self.nodes):
            self.sets_of_node.append(self._add(number, node))
        self.bare: list[int] = []
        for number in range(len(self.nodes)):
            device_set = self._device_set(number, "")
            self.bare.append(device_set)
            self.sets_of_node[number].append(device_set)
        #: True for a device set that is the only one of its node with devices.
        self.alone = [len(self.sets_of_node[node]) <= POOL_AND_BARE for node in self.node_of_set]
        self.rank_of = {device.id: rank for rank, device in enumerate(self.devices)}
        self.pools = sorted({*self.pool_of_set, *pools} - {""})

    def devices_on(self, node: str, pool: str) -> set[str]:
        """Return the ids of the devices of the pool on the node, out of service or not; none for an unknown node."""
        sets = self.sets_of_node[self.node_of[node]] if node in self.node_of else []
        ranks = [rank for number in sets if self.pool_of_set[number] == pool for rank in self.devices_of_set[number]]
        return {self.devices[rank].id for rank in ranks}

    def _add(self, number: int, node: Node) -> list[int]:
        """Add the devices of a node to the layout, and return the numbers of its device sets, without the bare one."""
        device_sets: dict[str, int] = {}
        for device in sorted(node.devices, key=lambda device: (device.index, device.id)):
            if device.pool not in device_sets:
                device_sets[device.pool] = self._device_set(number, device.pool)
            device_set = device_sets[device.pool]
            self.devices_of_set[device_set].append(len(self.devices))
            self.set_of_device.append(device_set)
            self.devices.append(device)
        return list(device_sets.values())

    def _device_set(self, node: int, pool: str) -> int:
        self.node_of_set.append(node)
        self.pool_of_set.append(pool)
        self.devices_of_set.append([])
        return len(self.node_of_set) - 1
