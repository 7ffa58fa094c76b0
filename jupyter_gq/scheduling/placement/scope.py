"""A scope: the places that a kind of task may use at all, and what is free there in both views."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.workload import Request

from .buckets import Buckets
from .host_resources import UNCOUNTED, WHOLE, Room, View, need_of, tasks_in
from .layout import Layout


class Domain(NamedTuple):
    """The nodes that have the same values of the first levels of a topology; the more values, the narrower."""

    #: Its name.
    topology: str
    #: Label keys of those levels.
    levels: tuple[str, ...]
    #: The value of each.
    values: tuple[str, ...]


class Filter(NamedTuple):
    """What a scope selects by, all of which stays as it is during a cycle."""

    pool: str
    #: For tasks without devices: nodes instead of devices.
    bare: bool = False
    models: tuple[str, ...] = ()
    #: Least memory of a device.
    memory: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    domains: tuple[Domain, ...] = ()

    def takes_device(self, device: Device) -> bool:
        """Of its pool, one of its models, large enough."""
        return (
            device.pool == self.pool
            and (not self.models or device.model in self.models)
            and device.memory >= self.memory
        )

    def takes_node(self, labels: Mapping[str, str]) -> bool:
        """It has the labels, and is in the domains."""
        if not all(labels.get(key) == value for key, value in self.labels):
            return False
        return all(
            labels.get(level) == value
            for domain in self.domains
            for level, value in zip(domain.levels, domain.values, strict=True)
        )


def filter_of(pool: str, request: Request, domains: tuple[Domain, ...] = ()) -> Filter:
    """What its tasks may use."""
    if not request.devices:
        return Filter(pool, bare=True, labels=request.node_labels, domains=domains)
    return Filter(pool, False, request.models, request.device_memory or 0, request.node_labels, domains)


class Index:
    """One view of a scope."""

    __slots__ = ("devices", "nodes", "total")

    def __init__(self) -> None:
        #: Partly free devices, by what is free on them.
        self.devices = Buckets()
        #: Groups, by how many of their devices are wholly free.
        self.nodes = Buckets()
        #: What is free, in sum.
        self.total = 0

    def enter(self, group: int, room: Room, ranks: Sequence[int], amount: Sequence[int], base: int) -> None:
        """Its first state; `base` counts as wholly free."""
        whole = base
        for rank in ranks:
            free = amount[rank]
            self.total += free
            if free == WHOLE:
                whole += 1
            elif free:
                self.devices.put(rank, free, room)
        self.nodes.put(group, whole, room)

    def update(self, group: int, room: Room, ranks: Sequence[int], changes: Iterable[tuple[int, int, int]]) -> None:
        """The room is this now, and each of `changes` (device, from, to) has happened."""
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
        """The most that is free on one device."""
        if self.nodes.amounts and self.nodes.amounts[-1] > 0:
            return WHOLE
        return self.devices.amounts[-1] if self.devices.amounts else 0

    def slots(self, request: Request, enough: int = UNCOUNTED) -> int:
        """At most so many tasks of this request fit; exact for whole devices, and for one fraction in ample room.

        Counting ends when there are `enough`.
        """
        devices, milli, need = request.devices, request.milli_per_device, need_of(request)
        if not devices:
            return _sum((n * tasks_in(room, need) for _, room, n in self.nodes.counts()), enough)
        if milli == WHOLE:
            counts = self.nodes.counts()
            return _sum((n * min(count // devices, tasks_in(room, need)) for count, room, n in counts), enough)
        each = WHOLE // milli
        enough = min(UNCOUNTED, enough * devices)
        on_devices = _sum(
            (n * min(count * each, tasks_in(room, need) * devices) for count, room, n in self._whole()), enough
        )
        if on_devices < enough:
            on_devices += _sum(
                (
                    n * min(amount // milli, tasks_in(room, need))
                    for amount, room, n in self.devices.counts()
                    if amount >= milli
                ),
                enough - on_devices,
            )
        return on_devices // devices

    def _whole(self) -> Iterable[tuple[int, Room, int]]:
        return (entry for entry in self.nodes.counts() if entry[0])


class Scope:
    """The groups and devices that a filter lets through, in their order."""

    __slots__ = ("filter", "groups", "ranks", "views")

    def __init__(self, layout: Layout, selected: Filter, nodes: Sequence[int]) -> None:
        """`nodes`: those that may pass, at least."""
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
        """What is free in that view."""
        return self.views[view is not View.NOW]

    def base(self, layout: Layout, group: int) -> int:
        """Tasks that need no device go first where there is none."""
        return int(self.filter.bare and bool(layout.nodes[layout.group_node[group]].devices))

    def _take_devices(self, layout: Layout, nodes: Sequence[int]) -> None:
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
        """Nodes of the pool and nodes without devices; all if the cluster has none of either."""
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
    """Their sum, or of the first of them that make `enough`; never more than a number of what is not counted."""
    total = 0
    for number in numbers:
        total += number
        if total >= enough:
            break
    return min(total, UNCOUNTED)
