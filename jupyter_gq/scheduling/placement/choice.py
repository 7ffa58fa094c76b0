"""The seam for placement policies: among the places that fit, which one to take.

A policy is a `Choice`. The ledger calls `settle` once, before anything is placed, with the `Ground` (what is where, and
what is free in both views: live lists, to be read only), then `changed` with the number of a node after each change of
what is free on it (also when a change is rolled back), and `choose` for each task. A policy that computes scores of
nodes keeps them until `changed` names the node. `choose` is given a scope, whose groups and devices have passed the
filters of the request, and must return a place that fits in the view asked for, or None if there is none:

* a request of whole devices: devices of one group whose amount is 1000;
* of fractions: devices of one group with at least that amount each;
* without devices: a group of a bare scope, and no devices;
* and always: the room of the group's node in that view is enough (`tasks_in(room, need_of(request)) >= 1`).

The same input gives the same choice; ties go to the lowest numbers. `Policy.placement` names the policy for whole
devices and for tasks without devices, `Policy.fraction_placement` the one for fractions; `choice_of` makes them.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from jupyter_gq.domain.workload import Request

from .host_resources import WHOLE, Room, View, need_of, tasks_in
from .layout import Layout
from .scope import Index, Scope


class Spot(NamedTuple):
    """Where a task goes: a group and devices of it, by their numbers in the layout."""

    group: int
    ranks: Sequence[int] = ()


class Ground:
    """All that a policy may look at. `amount` by device, `room` by node; in NOW the lesser of free and future."""

    __slots__ = ("_amounts", "_rooms", "layout")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._amounts = ([0] * len(layout.devices), [0] * len(layout.devices))
        self._rooms = (list(layout.room), list(layout.room))

    def amount(self, view: View) -> list[int]:
        """Milli-GPU that are free on each device, never below 0."""
        return self._amounts[view is not View.NOW]

    def room(self, view: View) -> list[Room]:
        """CPU, memory and tasks that are free on each node; may be below 0 where more is held than there is."""
        return self._rooms[view is not View.NOW]


class Choice(Protocol):
    """One placement policy."""

    def settle(self, ground: Ground) -> None:
        """This is where tasks will be placed."""

    def changed(self, node: int) -> None:
        """What is free on this node is no longer what it was, now or in future."""

    def choose(self, scope: Scope, request: Request, view: View) -> Spot | None:
        """The place to take for one task."""


class ByFullness:
    """Pack: the fullest that fits. Spread: the emptiest."""

    def __init__(self, *, spread: bool = False) -> None:
        self.spread = spread
        self._ground: Ground | None = None

    def settle(self, ground: Ground) -> None:
        """Everything else lies in the buckets of the scopes."""
        self._ground = ground

    def changed(self, node: int) -> None:
        """The buckets know it."""

    def choose(self, scope: Scope, request: Request, view: View) -> Spot | None:
        """By how many devices of the node are wholly free, or by what is free on the device."""
        index, need = scope.index(view), need_of(request)
        if not request.devices:
            return self._bare(index, need)
        if request.milli_per_device == WHOLE:
            group = self._group(index, request.devices, need)
            return None if group is None else Spot(group, self._whole(scope, group, request.devices, view))
        if request.devices == 1:
            return self._fraction(scope, request.milli_per_device, need, view)
        return self._fractions(scope, request, need, view)

    def _bare(self, index: Index, need: Room) -> Spot | None:
        for amount in index.nodes.amounts:
            found = index.nodes.tightest(amount, need, roomiest=self.spread)
            if found is not None:
                return Spot(found)
        return None

    def _group(self, index: Index, devices: int, need: Room) -> int | None:
        for count in index.nodes.at_least(devices, descending=self.spread):
            found = index.nodes.lowest(count, need)
            if found is not None:
                return found
        return None

    def _whole(self, scope: Scope, group: int, count: int, view: View) -> list[int]:
        amount = self._amount(view)
        return [rank for rank in scope.ranks[group] if amount[rank] == WHOLE][:count]

    def _fraction(self, scope: Scope, milli: int, need: Room, view: View) -> Spot | None:
        if self.spread:
            return self._untouched(scope, need, view) or self._partly_used(scope, milli, need, view)
        return self._partly_used(scope, milli, need, view) or self._untouched(scope, need, view)

    def _untouched(self, scope: Scope, need: Room, view: View) -> Spot | None:
        group = self._group(scope.index(view), 1, need)
        return None if group is None else Spot(group, self._whole(scope, group, 1, view))

    def _partly_used(self, scope: Scope, milli: int, need: Room, view: View) -> Spot | None:
        devices = scope.index(view).devices
        for amount in devices.at_least(milli, descending=self.spread):
            rank = devices.lowest(amount, need)
            if rank is not None:
                return Spot(self._layout().group_of[rank], (rank,))
        return None

    def _fractions(self, scope: Scope, request: Request, need: Room, view: View) -> Spot | None:
        """Several devices of one node with the same fraction each; rare, so every node is looked at."""
        amount, milli = self._amount(view), request.milli_per_device
        sign = -1 if self.spread else 1
        best: tuple[int, int, list[int]] | None = None
        for group in scope.groups:
            fitting = [rank for rank in scope.ranks[group] if amount[rank] >= milli]
            if len(fitting) < request.devices or not tasks_in(scope.index(view).nodes.state[group][1], need):
                continue
            fitting.sort(key=lambda rank: (sign * amount[rank], rank))
            candidate = (sign * len(fitting), group, fitting[: request.devices])
            if best is None or candidate < best:
                best = candidate
        return None if best is None else Spot(best[1], best[2])

    def _amount(self, view: View) -> list[int]:
        assert self._ground is not None, "settle comes first"
        return self._ground.amount(view)

    def _layout(self) -> Layout:
        assert self._ground is not None, "settle comes first"
        return self._ground.layout
