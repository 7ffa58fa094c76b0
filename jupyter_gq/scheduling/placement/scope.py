"""Scopes: the places that tasks of a request may use, and what is free there in both views."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.workload import Request

from .buckets import Buckets
from .host_resources import UNCOUNTED, WHOLE, HostResources, View, host_request_of, tasks_that_fit
from .layout import Layout


class Domain(NamedTuple):
    """The nodes that have the same values of the first levels of a topology; more values make a narrower domain."""

    #: Name of the topology.
    topology: str
    #: Label keys of the levels.
    levels: tuple[str, ...]
    #: The value of each level.
    values: tuple[str, ...]


class Filter(NamedTuple):
    """The criteria of a scope, none of which changes during a cycle."""

    pool: str
    #: For tasks without devices: nodes instead of devices.
    bare: bool = False
    models: tuple[str, ...] = ()
    #: Least memory of a device.
    memory: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    domains: tuple[Domain, ...] = ()

    def takes_device(self, device: Device) -> bool:
        """Return True if the device is in the pool, of an allowed model, and large enough."""
        return (
            device.pool == self.pool
            and (not self.models or device.model in self.models)
            and device.memory >= self.memory
        )

    def takes_node(self, labels: Mapping[str, str]) -> bool:
        """Return True if a node with these labels has all required labels and lies in all domains."""
        if not all(labels.get(key) == value for key, value in self.labels):
            return False
        return all(
            labels.get(level) == value
            for domain in self.domains
            for level, value in zip(domain.levels, domain.values, strict=True)
        )


def filter_of(pool: str, request: Request, domains: tuple[Domain, ...] = ()) -> Filter:
    """Return the filter for the places that tasks of this request may use."""
    if not request.devices:
        return Filter(pool, bare=True, labels=request.node_labels, domains=domains)
    return Filter(pool, False, request.models, request.device_memory or 0, request.node_labels, domains)


class Index:
    """The free amounts of a scope in one view."""

    __slots__ = ("devices", "nodes", "total")

    def __init__(self) -> None:
        #: Partly free devices, by what is free on them.
        self.devices = Buckets()
        #: Groups, by how many of their devices are wholly free.
        self.nodes = Buckets()
        #: What is free, in sum.
        self.total = 0

    def enter(self, group: int, room: HostResources, ranks: Sequence[int], amount: Sequence[int], base: int) -> None:
        """Add a group with its first state; `base` devices count as wholly free."""
        whole = base
        for rank in ranks:
            free = amount[rank]
            self.total += free
            if free == WHOLE:
                whole += 1
            elif free:
                self.devices.put(rank, free, room)
        self.nodes.put(group, whole, room)

    def update(
        self, group: int, room: HostResources, ranks: Sequence[int], changes: Iterable[tuple[int, int, int]]
    ) -> None:
        """Set the host resources of a group's node, and apply changes (device, amount before, amount after)."""
        count, before = self.nodes.state[group]
        whole = count
        for rank, old, new in changes:
            self.total += new - old
            whole += (new == WHOLE) - (old == WHOLE)
            if 0 < new < WHOLE:
                self.devices.put(rank, new, room)
            elif 0 < old < WHOLE:
                self.devices.drop(rank)
        if room != before:
            state = self.devices.state
            for rank in ranks:
                if rank in state and state[rank][1] != room:
                    self.devices.put(rank, state[rank][0], room)
        elif whole == count:
            return
        self.nodes.put(group, whole, room)

    def largest(self) -> int:
        """Return the most milli-GPU that is free on one device."""
        if self.nodes.amounts and self.nodes.amounts[-1] > 0:
            return WHOLE
        return self.devices.amounts[-1] if self.devices.amounts else 0

    def slots(self, request: Request, enough: int = UNCOUNTED) -> int:
        """Return an upper bound of the tasks of this request that fit; counting ends at `enough`.

        The bound is exact for whole devices, and for one fraction if host resources are ample.
        """
        devices, milli, need = request.devices, request.milli_per_device, host_request_of(request)
        if not devices:
            return _sum((n * tasks_that_fit(room, need) for _, room, n in self.nodes.counts()), enough)
        if milli == WHOLE:
            counts = self.nodes.counts()
            return _sum((n * min(count // devices, tasks_that_fit(room, need)) for count, room, n in counts), enough)
        each = WHOLE // milli
        enough = min(UNCOUNTED, enough * devices)
        on_devices = _sum(
            (n * min(count * each, tasks_that_fit(room, need) * devices) for count, room, n in self._whole()), enough
        )
        if on_devices < enough:
            on_devices += _sum(
                (
                    n * min(amount // milli, tasks_that_fit(room, need))
                    for amount, room, n in self.devices.counts()
                    if amount >= milli
                ),
                enough - on_devices,
            )
        return on_devices // devices

    def _whole(self) -> Iterable[tuple[int, HostResources, int]]:
        return (entry for entry in self.nodes.counts() if entry[0])


class Scope:
    """The groups and devices that pass a filter, in their order."""

    __slots__ = ("filter", "groups", "ranks", "views")

    def __init__(self, layout: Layout, selected: Filter, nodes: Sequence[int]) -> None:
        """Select from `nodes`, which must include every node that passes."""
        self.filter = selected
        #: The devices of each group that may be used.
        self.ranks: dict[int, Sequence[int]] = {}
        #: What is free now, and in future.
        self.views = (Index(), Index())
        if selected.bare:
            self._take_nodes(layout, nodes)
        else:
            self._take_devices(layout, nodes)
        #: The same groups, ascending.
        self.groups = sorted(self.ranks)

    def index(self, view: View) -> Index:
        """Return what is free in that view."""
        return self.views[view is not View.NOW]

    def base(self, layout: Layout, group: int) -> int:
        """Return 1 for a bare group on a node with devices, so that tasks without devices go there last."""
        return int(self.filter.bare and bool(layout.nodes[layout.group_node[group]].devices))

    def _take_devices(self, layout: Layout, nodes: Sequence[int]) -> None:
        """Select the suitable devices of these nodes, by group."""
        selected = self.filter
        for node in nodes:
            if not selected.takes_node(layout.nodes[node].labels):
                continue
            for group in layout.groups_of_node[node]:
                if layout.group_pool[group] != selected.pool:
                    continue
                there = layout.group_devices[group]
                allowed = [rank for rank in there if selected.takes_device(layout.devices[rank])]
                if allowed:
                    self.ranks[group] = there if len(allowed) == len(there) else allowed

    def _take_nodes(self, layout: Layout, nodes: Sequence[int]) -> None:
        """Select the nodes of the pool and the nodes without devices; all nodes if the cluster has neither."""
        pool, everywhere = self.filter.pool, range(len(layout.nodes))
        any_node = not any(_is_near(layout, number, pool) for number in everywhere)
        for number in nodes:
            if (any_node or _is_near(layout, number, pool)) and self.filter.takes_node(layout.nodes[number].labels):
                self.ranks[layout.bare[number]] = ()


def _is_near(layout: Layout, node: int, pool: str) -> bool:
    if not layout.nodes[node].devices:
        return True
    return any(layout.group_pool[group] == pool for group in layout.groups_of_node[node])


def _sum(numbers: Iterable[int], enough: int) -> int:
    """Return the sum of the numbers, or of the first ones that reach `enough`; at most `UNCOUNTED`."""
    total = 0
    for number in numbers:
        total += number
        if total >= enough:
            break
    return min(total, UNCOUNTED)
