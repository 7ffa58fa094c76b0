"""The device ledger: what is held, will be free and is nominated, on devices and nodes, with rollback."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jupyter_gq.domain.cluster import Node, Topology
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Request, TaskPlacement, Workload
from jupyter_gq.scheduling.workloads.borrowers import may_borrow

from .choice import FreeResources, FullnessPolicy, PlacementPolicy, Spot
from .host_resources import (
    NO_RESOURCES,
    UNCOUNTED,
    UNLIMITED,
    WHOLE,
    HostResources,
    View,
    host_request_of,
    tasks_that_fit,
    with_tasks,
)
from .layout import Layout
from .scope import Domain, Filter, Index, Scope, filter_of, tasks_on_different
from .sums import Entry, Sums
from .topology import Domains

#: Devices of suspended workloads that are reserved together: a node, devices of it, and the same amount of each.
Bundle = tuple[tuple[int, Sequence[int], int], ...]

#: A device, what was free on it before, and what is free now.
_Change = tuple[int, int, int]
#: Positions in the pairs that hold something for both views: an index is quicker than the hash of an enumeration.
NOW, FUTURE = 0, 1
#: Most scopes that are kept from cycle to cycle.
MOST_SCOPES = 5000


class DeviceLedger:
    """Free amounts of every device and node. Nothing fits on a device that is not healthy."""

    def __init__(
        self,
        nodes: Iterable[Node],
        pools: Iterable[str],
        *,
        choice: PlacementPolicy | None = None,
        fractions: PlacementPolicy | None = None,
        topologies: Iterable[Topology] = (),
    ) -> None:
        """Begin with nodes on which nothing is held. `pools` are pools that may have no devices.

        `choice` places whole devices and tasks without devices, `fractions` the rest. The default of each is to pack.
        """
        self.layout = layout = Layout(nodes, pools)
        self.resources = FreeResources(layout)
        self.domains = Domains(layout, topologies)
        self._choice = choice or FullnessPolicy()
        self._fractions = fractions or choice or FullnessPolicy()
        #: True if the emptiest domain is taken as well.
        self.spreads = isinstance(self._choice, FullnessPolicy) and self._choice.spread
        choices = [self._choice] if self._choice is self._fractions else [self._choice, self._fractions]
        #: The policies that are told of changed nodes; `FullnessPolicy` reads the scopes instead.
        self._notified = [each for each in choices if not isinstance(each, FullnessPolicy)]
        self._sums = Sums(layout)
        self._amounts = (self.resources.amount(View.NOW), self.resources.amount(View.FUTURE))
        self._rooms = (self.resources.room(View.NOW), self.resources.room(View.FUTURE))
        for amount in self._amounts:
            amount[:] = self._sums.free
        #: How often what is free, as `slots` and `place` see it, has changed.
        self.changes = 0
        self._journal: list[Entry] = []
        self._scopes: dict[Filter, Scope] = {}
        self._scopes_of: list[list[Scope]] = [[] for _ in layout.node_of_set]
        for each in choices:
            each.begin(self.resources)

    # --- changes

    def hold(self, workload: Workload, *, stopping: bool, sign: int = 1) -> None:
        """Subtract what a workload holds from what is free (`sign` -1: add it again).

        The future of a `stopping` workload is left as it is, since its place will be free.
        """
        self._shift_all(workload, workload.placement, free=-sign, future=0 if stopping else -sign)

    def adjust_host_resources(self, workload: Workload, *, free: int = 0, future: int = 0) -> None:
        """Add `free` and `future` times the CPU and memory of a workload to the two views, but not its devices.

        Used for suspended workloads, which keep CPU and memory. Does nothing if no node counts host resources.
        """
        if self.layout.counts_host_resources:
            for task in workload.placement:
                self._shift_task(workload, replace(task, devices=()), free=free, future=future)

    def release(self, workload: Workload) -> None:
        """Count what a workload holds as free in the future, since it is told to stop.

        What is free now does not change. A running workload that may be suspended keeps its CPU and memory. A suspended
        workload gives back its CPU and memory, and holds no devices.
        """
        self._shift_all(workload, _held_places(workload), future=1)
        if workload.suspendable and workload.state is State.RUNNING:
            self.adjust_host_resources(workload, future=-1)

    def undo_release(self, workload: Workload, *, nominated: bool) -> bool:
        """Undo `release`; return False, without any change, if another workload is nominated for the place.

        `nominated`: the workload was only nominated for its place; otherwise it holds the place.
        """
        mark = self.mark()
        if workload.suspendable and workload.state is State.RUNNING:
            self.adjust_host_resources(workload, future=1)
        for task in _held_places(workload):
            if self._is_taken(workload, task):
                self.rollback(mark)
                return False
            self._shift_task(workload, task, future=-1, nominated=int(nominated))
        return True

    def retract(self, workload: Workload) -> None:
        """Count the place of a released workload as free now as well, since the workload was never started."""
        self._shift_all(workload, workload.placement, free=1)

    def nominate(self, workload: Workload, placement: Iterable[TaskPlacement]) -> None:
        """Take these places out of the future for a workload, which gets them once other work has stopped."""
        self._shift_all(workload, placement, future=-1, nominated=1)

    def withdraw(self, workload: Workload, placement: Iterable[TaskPlacement]) -> None:
        """Give these places, which `nominate` took for the workload, back to the future."""
        self._shift_all(workload, placement, future=1, nominated=-1)

    def place(
        self,
        pool: str,
        request: Request,
        view: View,
        *,
        group: str = "",
        within: tuple[Domain, ...] = (),
        borrows: bool = True,
    ) -> TaskPlacement | None:
        """Take a place for one task, as the placement policy chooses, and return it.

        Returns None if none fits, and nothing changes. In the view FUTURE the task is nominated for the place. `group`
        is the name of the task group; `within` allows only nodes that lie in all these domains; `borrows` tells whether
        the task may use what is lent (see `may_borrow`). A cluster without nodes takes tasks that need no device.
        """
        if not request.devices and not self.layout.nodes:
            return TaskPlacement(node="", group=group)
        spot = self._find(pool, request, view, within)
        if spot is None:
            return None
        node = self.layout.node_of_set[spot.device_set]
        milli, need = request.milli_per_device, host_request_of(request)
        firm = 0 if borrows else -1
        if view is View.NOW:
            self._shift((node, spot.ranks, milli, need, -1, -1, 0, firm))
        else:
            self._shift((node, spot.ranks, milli, need, 0, -1, 1, firm))
        devices = self.layout.devices
        ids = tuple(devices[rank].id for rank in spot.ranks)
        return TaskPlacement(node=self.layout.nodes[node].name, devices=ids, group=group)

    def allocate_at(self, workload: Workload, placement: Iterable[TaskPlacement], *, returns: bool = False) -> bool:
        """Take exactly these places for a workload now; tell whether they are free. False changes nothing.

        A suspended workload that `returns` to its place has kept its CPU and memory, and may have devices that take
        nothing new although they work.
        """
        return self._at(workload, placement, View.NOW, returns)

    def nominate_at(self, workload: Workload, placement: Iterable[TaskPlacement], *, returns: bool = False) -> bool:
        """Nominate a workload for exactly these places; tell whether that is possible. False changes nothing.

        False means that a place does not exist, will not be free, or is kept for another workload. For `returns` see
        `allocate_at`.
        """
        return self._at(workload, placement, View.FUTURE, returns)

    def reserve_devices(self, workload: Workload, placement: Iterable[TaskPlacement]) -> None:
        """Take what the workload needs at these places out of the future, so that no other work is placed there.

        The places need not be free. A suspended workload has kept its CPU and memory, and needs only the devices. What
        borrowers use of them is not taken a second time.
        """
        self._reserve(workload, placement, -1)

    def unreserve_devices(self, workload: Workload, placement: Iterable[TaskPlacement]) -> None:
        """Give what `reserve_devices` took at these places back to the future."""
        self._reserve(workload, placement, 1)

    def _reserve(self, workload: Workload, placement: Iterable[TaskPlacement], future: int) -> None:
        if workload.state is State.SUSPENDED:
            there = replace(workload, placement=tuple(placement))
            self.shift_bundle(self.bundle([there]), future=0, firm=future)
        else:
            self._shift_all(workload, placement, future=future)

    def bundle(self, workloads: Iterable[Workload]) -> Bundle:
        """Return the devices of suspended workloads as a bundle. Devices that do not exist any more are left out."""
        layout, found = self.layout, dict[tuple[int, int], list[int]]()
        for workload in workloads:
            for task in workload.placement:
                _, ranks = self._where(task)
                for rank in ranks:
                    there = layout.node_of_set[layout.set_of_device[rank]]
                    found.setdefault((there, workload.request_of(task.group).milli_per_device), []).append(rank)
        return tuple((node, ranks, milli) for (node, milli), ranks in found.items())

    def shift_bundle(self, bundle: Bundle, *, future: int, firm: int) -> None:
        """Add `future` and `firm` times the devices of a bundle to the two futures (see `sums`).

        -1 for both reserves them against all work, and -1 for `firm` alone as `reserve_devices` does.
        """
        for node, ranks, milli in bundle:
            self._shift((node, ranks, milli, NO_RESOURCES, 0, future, 0, firm))

    def exists(self, placement: Iterable[TaskPlacement], pool: str | None = None) -> bool:
        """Tell whether all nodes and devices of these places exist and take new work, in the pool if one is named.

        A device may have moved to another pool since a place was recorded, and a node may be closed.
        """
        layout = self.layout
        nodes = [layout.node_of.get(task.node) for task in placement]
        if any(number is None or layout.nodes[number].closed for number in nodes):
            return False
        ranks = [layout.rank_of.get(device) for task in placement for device in task.devices]
        found = [None if rank is None else layout.devices[rank] for rank in ranks]
        return all(each is not None and each.healthy and pool in (None, each.pool) for each in found)

    def mark(self) -> int:
        """Return the present position in the journal of changes, to be given to `rollback`."""
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo every change that was made since `mark` returned this position."""
        touched: dict[int, set[int]] = {}
        while len(self._journal) > mark:
            entry = self._journal.pop()
            self._sums.add(entry, -1)
            touched.setdefault(entry[0], set()).update(entry[1])
        for node, devices in touched.items():
            self._refresh(node, devices)

    def commit(self) -> None:
        """Make all changes so far final: `rollback` cannot undo them any more, and positions count from here."""
        self._journal.clear()
        if len(self._scopes) > MOST_SCOPES:  # a scope that is still needed is made again
            self._scopes.clear()
            for scopes in self._scopes_of:
                scopes.clear()

    # --- questions

    def amount(self, device: str, view: View) -> int:
        """Return the free milli-GPU of a device; 0 for a device that does not exist."""
        rank = self.layout.rank_of.get(device)
        return 0 if rank is None else self.resources.amount(view)[rank]

    def slots(
        self,
        pool: str,
        request: Request,
        view: View,
        *,
        within: tuple[Domain, ...] = (),
        enough: int = UNCOUNTED,
    ) -> int:
        """Return an upper bound of the number of tasks of a request that fit; counting ends at `enough`."""
        if not request.devices and not self.layout.nodes:
            return UNCOUNTED
        return self.index(pool, request, view, within).slots(request, enough)

    def slots_exactly(self, pool: str, request: Request) -> int:
        """Return exactly how many tasks of a request fit now; may take a step for each node.

        In a cluster without nodes, the result is `UNCOUNTED` for a request without devices.
        """
        if request.devices <= 1 and self.layout.nodes and not self.layout.counts_host_resources:
            return self.slots(pool, request, View.NOW)
        if not self.layout.nodes:
            return 0 if request.devices else UNCOUNTED
        return sum(self.slots_on(node.name, pool, request, View.NOW) for node in self.layout.nodes)

    def slots_on(self, node: str, pool: str, request: Request, view: View) -> int:
        """Return exactly how many tasks of a request fit on the node of that name; 0 if the request may not use it."""
        scope = self.scope(filter_of(pool, request))
        number = self.layout.node_of.get(node)
        if number is None:
            return 0
        most = tasks_that_fit(self.resources.room(view)[number], host_request_of(request))
        if not request.devices:
            return most if self.layout.bare[number] in scope.ranks else 0
        amount = self.resources.amount(view)
        parts = [
            amount[rank] // request.milli_per_device
            for device_set in self.layout.sets_of_node[number]
            for rank in scope.ranks.get(device_set, ())
        ]
        return min(most, tasks_on_different(parts, request.devices))

    def total(self, pool: str, view: View = View.NOW) -> int:
        """Return the sum of the free milli-GPU on all devices of a pool."""
        return self.scope(Filter(pool)).index(view).total

    def largest(self, pool: str, view: View = View.NOW) -> int:
        """Return the most milli-GPU that is free on one device of a pool."""
        return self.scope(Filter(pool)).index(view).largest()

    def scope(self, selected: Filter) -> Scope:
        """Return the scope of a filter with what is free there; kept up to date from its first use on."""
        scope = self._scopes.get(selected)
        if scope is None:
            nodes = self.domains.nodes(selected.domains[-1]) if selected.domains else range(len(self.layout.nodes))
            scope = self._scopes[selected] = Scope(self.layout, selected, nodes)
            for device_set in scope.device_sets:
                self._scopes_of[device_set].append(scope)
                for view in View:
                    room = self.resources.room(view)[self.layout.node_of_set[device_set]]
                    base = scope.base(self.layout, device_set)
                    scope.index(view).enter(
                        device_set, room, scope.ranks[device_set], self.resources.amount(view), base
                    )
        return scope

    def index(self, pool: str, request: Request, view: View, within: tuple[Domain, ...] = ()) -> Index:
        """Return the free amounts, in one view, of all places that a request may use."""
        return self.scope(filter_of(pool, request, within)).index(view)

    # --- inside

    def _find(self, pool: str, request: Request, view: View, within: tuple[Domain, ...]) -> Spot | None:
        """Return the spot that the policy chooses for one task; None if none fits.

        Preferred models are tried first, in order.
        """
        whole = request.milli_per_device == WHOLE or not request.devices
        choice = self._choice if whole else self._fractions
        selected = filter_of(pool, request, within)
        for model in request.preferred_models if request.devices else ():
            if not request.models or model in request.models:
                found = choice.choose(self.scope(selected._replace(models=(model,))), request, view)
                if found is not None:
                    return found
        return choice.choose(self.scope(selected), request, view)

    def _at(self, workload: Workload, placement: Iterable[TaskPlacement], view: View, returns: bool) -> bool:
        """Take exactly these places for a workload in one view; tell whether they are free. False changes nothing."""
        mark = self.mark()
        for task in placement:
            node, ranks = self._where(task)
            request = workload.request_of(task.group)
            left = [self._left(rank, view, returns) for rank in ranks]
            there = len(ranks) == len(task.devices) and all(each >= request.milli_per_device for each in left)
            need = NO_RESOURCES if returns else host_request_of(request)
            if not there or (
                node is not None and not returns and not tasks_that_fit(self.resources.room(view)[node], need)
            ):
                self.rollback(mark)
                return False
            if view is View.NOW:
                self._shift_task(workload, task, free=-1, future=-1, need=need)
            else:
                self._shift_task(workload, task, future=-1, nominated=1, need=need)
        return True

    def _left(self, rank: int, view: View, returns: bool) -> int:
        """Return what a workload may take of a device in one view; see `allocate_at` for one that `returns`."""
        if not returns or not self.layout.devices[rank].withheld:
            return self.resources.amount(view)[rank]
        sums = self._sums
        left = sums.future[rank] if view is View.FUTURE else min(sums.free[rank], sums.future[rank])
        return WHOLE + left

    def _is_taken(self, workload: Workload, task: TaskPlacement) -> bool:
        """Tell whether other workloads are nominated for a place and leave too little of it for one task."""
        (node, ranks), request, sums = self._where(task), workload.request_of(task.group), self._sums
        futures = (sums.future,) if may_borrow(workload) else (sums.future, sums.firm)
        for rank in ranks:
            if sums.nominated[rank] > 0 and any(left[rank] < request.milli_per_device for left in futures):
                return True
        if node is None or not sums.nominated_tasks[node]:
            return False
        return min(with_tasks(sums.future_room[node], host_request_of(request), -1)) < 0

    def _where(self, task: TaskPlacement) -> tuple[int | None, list[int]]:
        rank_of = self.layout.rank_of
        return self.layout.node_of.get(task.node), [rank_of[device] for device in task.devices if device in rank_of]

    def _shift_all(
        self,
        workload: Workload,
        placement: Iterable[TaskPlacement],
        *,
        free: int = 0,
        future: int = 0,
        nominated: int = 0,
    ) -> None:
        for task in placement:
            self._shift_task(workload, task, free=free, future=future, nominated=nominated)

    def _shift_task(
        self,
        workload: Workload,
        task: TaskPlacement,
        *,
        free: int = 0,
        future: int = 0,
        nominated: int = 0,
        need: HostResources | None = None,
    ) -> None:
        """Add `free`, `future` and `nominated` times what one task takes to the sums at its place, and journal it.

        Devices that do not exist any more are left out. `need` is what the task takes of its node; None = its request.
        """
        request = workload.request_of(task.group) if workload.groups else workload.request
        node, ranks = self._where(task)
        if ranks:  # where a device really is counts, should the two disagree
            node = self.layout.node_of_set[self.layout.set_of_device[ranks[0]]]
        if node is not None:
            need = host_request_of(request) if need is None else need
            firm = 0 if may_borrow(workload) else future
            self._shift((node, ranks, request.milli_per_device, need, free, future, nominated, firm))

    def _shift(self, entry: Entry) -> None:
        self._journal.append(entry)
        self._sums.add(entry, 1)
        self._refresh(entry[0], entry[1])

    def _refresh(self, node: int, ranks: Iterable[int]) -> None:
        """Copy the amounts of these devices of a node to the free resources and all scopes, and notify the policies."""
        amount_now, amount_later = self._amounts
        sums = self._sums
        now: list[_Change] = []
        later: list[_Change] = []
        for rank in ranks:
            future, free, firm = sums.future[rank], sums.free[rank], sums.firm[rank]
            future = future if future < firm else firm
            future = future if future > 0 else 0  # not max: this is the innermost loop
            free = future if free >= future else free if free > 0 else 0
            if amount_later[rank] != future:
                later.append((rank, amount_later[rank], future))
                amount_later[rank] = future
            if amount_now[rank] != free:
                now.append((rank, amount_now[rank], free))
                amount_now[rank] = free
        self.changes += bool(now or later)
        if self.layout.room[node] is not UNLIMITED:
            self._refresh_room(node, now, later)
        else:
            if later:
                self._tell_scopes(_device_sets(self.layout.set_of_device, later), later, UNLIMITED, FUTURE)
            if now:
                self._tell_scopes(_device_sets(self.layout.set_of_device, now), now, UNLIMITED, NOW)
        for choice in self._notified:
            choice.changed(node)

    def _refresh_room(self, node: int, now: list[_Change], later: list[_Change]) -> None:
        """Update the free host resources of a node in both views, and the scopes that contain the node."""
        room, least = self._sums.future_room[node], self._sums.free_room[node]
        least = (min(room[0], least[0]), min(room[1], least[1]), min(room[2], least[2]))
        for view, new, changes in ((FUTURE, room, later), (NOW, least, now)):
            rooms = self._rooms[view]
            if rooms[node] != new:
                self.changes += 1
                rooms[node] = new
                self._tell_scopes(self.layout.sets_of_node[node], changes, new, view)
            elif changes:
                self._tell_scopes(_device_sets(self.layout.set_of_device, changes), changes, new, view)

    def _tell_scopes(self, device_sets: Iterable[int], changes: list[_Change], room: HostResources, view: int) -> None:
        """Apply the changed devices and the host resources of their node to all scopes with these device sets."""
        for device_set in device_sets:
            there = self.layout.devices_of_set[device_set]
            for scope in self._scopes_of[device_set]:
                allowed = scope.ranks[device_set]
                mine = changes
                if allowed is not there or not self.layout.alone[device_set]:
                    mine = [change for change in changes if change[0] in allowed]
                scope.views[view].update(device_set, room, allowed, mine)


def _held_places(workload: Workload) -> Sequence[TaskPlacement]:
    """Return the places of the tasks of a workload; without devices if it is suspended."""
    if workload.state is not State.SUSPENDED:
        return workload.placement
    return [replace(task, devices=()) for task in workload.placement]


def _device_sets(set_of_device: Sequence[int], changes: list[_Change]) -> Iterable[int]:
    if len(changes) == 1:
        return (set_of_device[changes[0][0]],)
    return sorted({set_of_device[change[0]] for change in changes})
