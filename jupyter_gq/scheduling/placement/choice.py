"""The protocol of placement policies: which one of the fitting places to take.

The ledger calls `begin` once, before anything is placed. The `FreeResources` that it passes are live lists, which a
policy only reads. The ledger calls `changed` with the number of a node after each change of what is free on that node,
also if a change is rolled back, and `choose` for each task. A policy that keeps scores of nodes computes them again
once `changed` has named the node. `choose` gets a scope, whose device sets and devices have passed the filters of the
request. The policy must return a place that fits in the view asked for, or None if there is none:

- for a request of whole devices: devices of one device set with 1000 free milli-GPU each;
- for fractions: devices of one device set with at least that amount each;
- without devices: a device set of a bare scope, and no devices;
- always: enough host resources of the device set's node in that view (`tasks_that_fit(...) >= 1`).

The same input gives the same choice; ties go to the lowest numbers. `Policy.placement` names the policy for whole
devices and for tasks without devices, `Policy.fraction_placement` the one for fractions; `make_policy` makes them.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from jupyter_gq.domain.workload import Request

from .host_resources import WHOLE, HostResources, View, host_request_of, tasks_that_fit
from .layout import Layout
from .scope import Index, Scope


class Spot(NamedTuple):
    """The place of one task: a device set and devices of it, by their numbers in the layout."""

    device_set: int
    ranks: Sequence[int] = ()


class FreeResources:
    """Free milli-GPU by device and free host resources by node, for both views.

    In the view NOW an amount is the lesser of what is free now and in future.
    """

    __slots__ = ("_amounts", "_rooms", "layout")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._amounts = ([0] * len(layout.devices), [0] * len(layout.devices))
        self._rooms = (list(layout.room), list(layout.room))

    def amount(self, view: View) -> list[int]:
        """Return the free milli-GPU of each device in that view, never below 0, as a live list."""
        return self._amounts[view is not View.NOW]

    def room(self, view: View) -> list[HostResources]:
        """Return the free CPU, memory and tasks of each node in that view, as a live list.

        An amount is below 0 if more is held than there is.
        """
        return self._rooms[view is not View.NOW]


class PlacementPolicy(Protocol):
    """A rule that chooses among places that fit."""

    def begin(self, resources: FreeResources) -> None:
        """Store the free resources on which tasks will be placed from now on."""

    def changed(self, node: int) -> None:
        """Note that the free resources of the node of that number have changed in at least one view."""

    def choose(self, scope: Scope, request: Request, view: View) -> Spot | None:
        """Return the place for one task of the request in that view, without taking it; None if none fits."""


class FullnessPolicy:
    """The policies pack, which takes the fullest place that fits, and spread, which takes the emptiest."""

    def __init__(self, *, spread: bool = False) -> None:
        self.spread = spread
        self._resources: FreeResources | None = None

    def begin(self, resources: FreeResources) -> None:
        """Store the free resources; everything else that this policy needs is in the scopes."""
        self._resources = resources

    def changed(self, node: int) -> None:
        """Do nothing, since the scopes are up to date."""

    def choose(self, scope: Scope, request: Request, view: View) -> Spot | None:
        """Return the fullest (spread: emptiest) place that fits; None if none fits.

        For whole devices a node counts by its wholly free devices, for a fraction a device by its free amount. A task
        without devices goes to a node without devices if possible, the one with the least (spread: most) host
        resources.
        """
        index, need = scope.index(view), host_request_of(request)
        if not request.devices:
            return self._bare(index, need)
        if request.milli_per_device == WHOLE:
            device_set = self._device_set(index, request.devices, need)
            return (
                None if device_set is None else Spot(device_set, self._whole(scope, device_set, request.devices, view))
            )
        if request.devices == 1:
            return self._fraction(scope, request.milli_per_device, need, view)
        return self._fractions(scope, request, need, view)

    def _bare(self, index: Index, need: HostResources) -> Spot | None:
        for amount in index.nodes.amounts:
            found = index.nodes.tightest(amount, need, roomiest=self.spread)
            if found is not None:
                return Spot(found)
        return None

    def _device_set(self, index: Index, devices: int, need: HostResources) -> int | None:
        for count in index.nodes.at_least(devices, descending=self.spread):
            found = index.nodes.lowest(count, need)
            if found is not None:
                return found
        return None

    def _whole(self, scope: Scope, device_set: int, count: int, view: View) -> list[int]:
        amount = self._amount(view)
        return [rank for rank in scope.ranks[device_set] if amount[rank] == WHOLE][:count]

    def _fraction(self, scope: Scope, milli: int, need: HostResources, view: View) -> Spot | None:
        if self.spread:
            return self._untouched(scope, need, view) or self._partly_used(scope, milli, need, view)
        return self._partly_used(scope, milli, need, view) or self._untouched(scope, need, view)

    def _untouched(self, scope: Scope, need: HostResources, view: View) -> Spot | None:
        device_set = self._device_set(scope.index(view), 1, need)
        return None if device_set is None else Spot(device_set, self._whole(scope, device_set, 1, view))

    def _partly_used(self, scope: Scope, milli: int, need: HostResources, view: View) -> Spot | None:
        """Return the fullest (spread: emptiest) partly used device with room for a fraction; None if there is none."""
        devices = scope.index(view).devices
        for amount in devices.at_least(milli, descending=self.spread):
            rank = devices.lowest(amount, need)
            if rank is not None:
                return Spot(self._layout().set_of_device[rank], (rank,))
        return None

    def _fractions(self, scope: Scope, request: Request, need: HostResources, view: View) -> Spot | None:
        """Return the spot for a task with the same fraction of several devices; None if none fits.

        The node with the fewest (spread: most) fitting devices is taken. Such requests are rare, so every node is
        looked at.
        """
        amount, milli = self._amount(view), request.milli_per_device
        sign = -1 if self.spread else 1
        best: tuple[int, int, list[int]] | None = None
        for device_set in scope.device_sets:
            fitting = [rank for rank in scope.ranks[device_set] if amount[rank] >= milli]
            if len(fitting) < request.devices or not tasks_that_fit(scope.index(view).nodes.state[device_set][1], need):
                continue
            fitting.sort(key=lambda rank: (sign * amount[rank], rank))
            candidate = (sign * len(fitting), device_set, fitting[: request.devices])
            if best is None or candidate < best:
                best = candidate
        return None if best is None else Spot(best[1], best[2])

    def _amount(self, view: View) -> list[int]:
        assert self._resources is not None, "begin comes first"
        return self._resources.amount(view)

    def _layout(self) -> Layout:
        assert self._resources is not None, "begin comes first"
        return self._resources.layout
