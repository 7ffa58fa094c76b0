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
    #: Ids of the only allowed devices; empty = any.
    devices: tuple[str, ...] = ()

    def takes_device(self, device: Device) -> bool:
        """Tell whether the device is in the pool, allowed by its id and model, and has enough memory."""
        return (
            device.pool == self.pool
            and (not self.models or device.model in self.models)
            and device.memory >= self.memory
            and (not self.devices or device.id in self.devices)
        )

    def takes_node(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a node with these labels has all required labels and lies in all domains."""
        if not all(labels.get(key) == value for key, value in self.labels):
            return False
        return all(
            labels.get(level) == value
            for domain in self.domains
            for level, value in zip(domain.levels, domain.values, strict=True)
        )


def filter_of(pool: str, request: Request, domains: tuple[Domain, ...] = ()) -> Filter:
    """Return the filter for the places that tasks of this request may use, in the pool and in all these domains."""
    if not request.devices:
        return Filter(pool, bare=True, labels=request.node_labels, domains=domains)
    memory, labels = request.device_memory or 0, request.node_labels
    return Filter(pool, False, request.models, memory, labels, domains, request.only_devices)


class Index:
    """The free amounts of a scope, now or once stopping work has stopped (`View`)."""

    __slots__ = ("devices", "nodes", "total")

    def __init__(self) -> None:
        #: Partly free devices, by what is free on them.
        self.devices = Buckets()
        #: Groups, by how many of their devices are wholly free.
        self.nodes = Buckets()
        #: What is free, in sum.
        self.total = 0

    def enter(
        self, device_set: int, room: HostResources, ranks: Sequence[int], amount: Sequence[int], base: int
    ) -> None:
        """Add a device set with the free amounts of its devices `ranks`.

        `base` further devices count as wholly free.
        """
        whole = base
        for rank in ranks:
            free = amount[rank]
            self.total += free
            if free == WHOLE:
                whole += 1
            elif free:
                self.devices.put(rank, free, room)
        self.nodes.put(device_set, whole, room)

    def update(
        self, device_set: int, room: HostResources, ranks: Sequence[int], changes: Iterable[tuple[int, int, int]]
    ) -> None:
        """Set the host resources of the node of a device set, and apply changes: (device, amount before, after)."""
        count, before = self.nodes.state[device_set]
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
        self.nodes.put(device_set, whole, room)

    def largest(self) -> int:
        """Return the most milli-GPU that is free on one device; 0 if nothing is free."""
        if self.nodes.amounts and self.nodes.amounts[-1] > 0:
            return WHOLE
        return self.devices.amounts[-1] if self.devices.amounts else 0

    def slots(self, request: Request, enough: int = UNCOUNTED) -> int:
        """Return an upper bound of the number of tasks of this request that fit; counting ends at `enough`.

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
    """The device sets and devices that pass a filter, in their order."""

    __slots__ = ("device_sets", "filter", "ranks", "views")

    def __init__(self, layout: Layout, selected: Filter, nodes: Sequence[int]) -> None:
        """Select the places that pass the filter from `nodes`, which must include every node that passes."""
        self.filter = selected
        #: The devices of each device set that may be used.
        self.ranks: dict[int, Sequence[int]] = {}
        #: What is free now, and in future.
        self.views = (Index(), Index())
        if selected.bare:
            self._take_nodes(layout, nodes)
        else:
            self._take_devices(layout, nodes)
        #: The same device sets, ascending.
        self.device_sets = sorted(self.ranks)

    def index(self, view: View) -> Index:
        """Return the free amounts of the scope in that view."""
        return self.views[view is not View.NOW]

    def base(self, layout: Layout, device_set: int) -> int:
        """Return 1 for a bare device set on a node with devices, and 0 otherwise.

        The 1 counts as a free device, so tasks without devices go to such nodes last.
        """
        return int(self.filter.bare and bool(layout.nodes[layout.node_of_set[device_set]].devices))

    def _take_devices(self, layout: Layout, nodes: Sequence[int]) -> None:
        """Select the suitable devices of these nodes, by device set; device sets without any are left out."""
        selected = self.filter
        for node in nodes:
            if not selected.takes_node(layout.nodes[node].labels):
                continue
            for device_set in layout.sets_of_node[node]:
                if layout.pool_of_set[device_set] != selected.pool:
                    continue
                there = layout.devices_of_set[device_set]
                allowed = [rank for rank in there if selected.takes_device(layout.devices[rank])]
                if allowed:
                    self.ranks[device_set] = there if len(allowed) == len(there) else allowed

    def _take_nodes(self, layout: Layout, nodes: Sequence[int]) -> None:
        """Select the bare device sets of these nodes, if they have devices of the pool or none at all.

        If no node of the cluster is of that kind, all are selected. Labels and domains must fit as well.
        """
        pool, everywhere = self.filter.pool, range(len(layout.nodes))
        any_node = not any(_is_of_pool_or_bare(layout, number, pool) for number in everywhere)
        for number in nodes:
            if (any_node or _is_of_pool_or_bare(layout, number, pool)) and self.filter.takes_node(
                layout.nodes[number].labels
            ):
                self.ranks[layout.bare[number]] = ()


def _is_of_pool_or_bare(layout: Layout, node: int, pool: str) -> bool:
    if not layout.nodes[node].devices:
        return True
    return any(layout.pool_of_set[device_set] == pool for device_set in layout.sets_of_node[node])


def _sum(numbers: Iterable[int], enough: int) -> int:
    """Return the sum of the numbers, or of as many as reach `enough`; at most `UNCOUNTED`."""
    total = 0
    for number in numbers:
        total += number
        if total >= enough:
            break
    return min(total, UNCOUNTED)


def tasks_on_different(parts: Sequence[int], devices: int) -> int:
    """Return how many tasks fit if each needs one part of each of `devices` different devices.

    Device number i has `parts[i]` parts.
    """
    if devices == 1:
        return sum(parts)
    fewest, most = 0, sum(parts) // devices
    while fewest < most:
        middle = (fewest + most + 1) // 2
        if sum(min(part, middle) for part in parts) >= middle * devices:
            fewest = middle
        else:
            most = middle - 1
    return fewest
