"""Node states: how much of the devices of a node in that state each kind of request could still use.

Two nodes with the same host resources and the same free amounts on devices of the same kinds are in the same state,
whatever their names. What is known of a state is computed once for all of them.

The usable amount of a kind of request, if requests of that kind alone came:

1. `by_devices`: everything free on devices that have enough for one task; of whole devices, as many as make up tasks.
2. `by_room`: a whole device for each task for which there is CPU and memory, with parts of a task counted.
3. The usable amount is 1 / (1/by_devices + 1/by_room), or 0 if not one task fits. The lesser of the two would say more
   exactly what the kind could use alone, but does not see what becomes scarce when other kinds come too. If CPU and
   memory are not counted, the usable amount is `by_devices`.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from jupyter_gq.domain.cluster import Device

from .host_resources import WHOLE, HostResources
from .request_mix import RequestKind

Integers = NDArray[np.int64]
#: Whole numbers kept as floats: sums and products of them are exact below 2**53, in any order.
Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
Array = TypeVar("Array", NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_])

#: An amount that stands for a resource that is not counted.
_UNCOUNTED = 1 << 40
#: So many rows are computed at once: what they need stays in the processor's cache.
_AT_ONCE = 256


class DeviceKind(NamedTuple):
    """The properties of a device that requests select by."""

    pool: str
    model: str
    memory: int

    @classmethod
    def of(cls, device: Device) -> "DeviceKind":
        """Return the kind of a device."""
        return cls(device.pool, device.model, device.memory)

    def selected(self, pool: str, models: Sequence[str], memory: int) -> bool:
        """Tell whether devices of this kind are in the pool, of one of the models, and have that much memory in MiB.

        No models mean any model.
        """
        return self.pool == pool and (not models or self.model in models) and self.memory >= memory


#: A device of a node: the number of its kind, and what is free on it.
Slot = tuple[int, int]


class NodeState(NamedTuple):
    """The free amounts of a node: everything that matters to placement."""

    room: HostResources
    #: Slots of all devices, ascending.
    slots: tuple[Slot, ...]


class Columns:
    """Kinds of request as arrays, with one column for each."""

    def __init__(self, asked: Sequence[RequestKind], kinds: Sequence[DeviceKind]) -> None:
        self.asked = asked
        numbers = np.array([kind[1:5] for kind in asked], np.int64).reshape(len(asked), 4)
        self.devices, self.milli, cpu, memory = numbers.T
        self.size: Numbers = (self.devices * self.milli).astype(np.float64)
        #: Of CPU, of memory, of tasks: what a task needs, and the same for each milli-GPU of its devices.
        self._needs = (cpu, memory, np.ones_like(cpu))
        self._rates = [need / (self.devices * WHOLE) for need in self._needs]
        self._several = np.flatnonzero(self.devices > 1)
        self._whole = np.flatnonzero((self.devices > 1) & (self.milli == WHOLE))
        #: Whether a device of that kind is suitable; the last row is for no device.
        self.serves = np.zeros((len(kinds) + 1, len(asked)), np.bool_)
        for row, kind in enumerate(kinds):
            self.serves[row] = [kind.selected(each.pool, each.models, each.device_memory) for each in asked]

    def fits(self, kinds: Integers, amounts: Integers) -> Flags:
        """Return, by device (rows) and kind of request (columns), whether the device has enough for one task."""
        return (amounts[:, None] >= self.milli) & self.serves[kinds]

    def usable(self, count: Integers, total: Integers, room: Integers) -> Numbers:
        """Return the free milli-GPU that work can use, by node (rows) and kind of request (columns).

        `count` devices fit a kind and `total` milli-GPU are free on them, each by node and kind; `room` are the free
        host resources of each node. An amount becomes smaller as host resources get scarce, and is 0 if not even one
        task fits. Of several whole devices, only complete sets count.
        """
        by_devices = total.astype(np.float64)
        possible = count > 0
        if len(self._several):
            tasks = count[:, self._several] // self.devices[self._several]
            possible[:, self._several] = tasks > 0
            full = count[:, self._whole] // self.devices[self._whole]
            by_devices[:, self._whole] = full * (self.devices[self._whole] * WHOLE)
        inverse = np.zeros(count.shape)
        for have, need, rate in zip(room.T, self._needs, self._rates, strict=True):
            counted = have < _UNCOUNTED
            if counted.any():
                possible &= have[:, None] >= need
                np.maximum(inverse, np.where(counted, 1 / np.maximum(have, 1), 0)[:, None] * rate, out=inverse)
        inverse *= by_devices
        inverse += 1
        return np.where(possible, np.rint(by_devices / inverse), 0.0)


class States:
    """The node states that were asked for, by number, with the usable amount of each kind of request in `columns`."""

    def __init__(self, kinds: Sequence[DeviceKind], widest: int, asked: Sequence[RequestKind] = ()) -> None:
        """Begin with the kinds of device, the most devices of a node, and the kinds of request that count."""
        self.kinds = kinds
        self.columns = Columns(asked, kinds)
        self.of: list[NodeState] = []
        self._numbers: dict[NodeState, int] = {}
        #: By state and device: its kind, and what is free on it.
        self.slot_kinds: Integers = np.full((64, max(1, widest)), len(kinds), np.int64)
        self.slot_amounts: Integers = np.zeros((64, max(1, widest)), np.int64)
        self.rooms: Integers = np.zeros((64, 3), np.int64)
        #: By state and kind of request: devices that fit, what is free on them, what is usable.
        self._count: Integers = np.zeros((64, len(asked)), np.int64)
        self._total: Integers = np.zeros((64, len(asked)), np.int64)
        self.usable: Numbers = np.zeros((64, len(asked)))

    def __len__(self) -> int:
        return len(self.of)

    def ask(self, asked: Sequence[RequestKind]) -> None:
        """Add kinds of request as new columns, and compute their usable amounts for all known states."""
        first = len(self.columns.asked)
        self.columns = Columns([*self.columns.asked, *asked], self.kinds)
        new = Columns(asked, self.kinds)
        none = np.zeros((len(self.rooms), len(asked)), np.int64)
        self._count, self._total = np.hstack([self._count, none]), np.hstack([self._total, none])
        self.usable = np.hstack([self.usable, none.astype(np.float64)])
        self._fill(0, first, new)

    def numbers(self, states: Sequence[NodeState]) -> list[int]:
        """Return the number of each of these states; an unknown state is added and gets the next number."""
        known, first = self._numbers, len(self)
        found = []
        for state in states:
            number = known.get(state)
            if number is None:
                number = known[state] = len(self.of)
                self.of.append(state)
            found.append(number)
        if len(self) > first:
            self._enter(first)
        return found

    def usable_after(
        self, before: Integers, taken: Integers, milli: int, need: HostResources, columns: Columns
    ) -> Numbers:
        """Return the usable amounts of nodes that were in the states `before`, after one task each has been placed.

        The task takes `milli` of each device in `taken`, which has a column for each device of a task, and `need` of
        the host resources. `columns` are the last columns of all. The result has a row for each entry of `before`.
        """
        found = np.zeros((len(before), len(columns.asked)))
        for start in range(0, len(before), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            found[rows] = self._after(before[rows], taken[rows], milli, need, columns)
        return found

    def _after(self, before: Integers, taken: Integers, milli: int, need: HostResources, columns: Columns) -> Numbers:
        """Compute `usable_after` for so few rows that they stay in the processor's cache."""
        first = self.usable.shape[1] - len(columns.asked)
        count, total = self._count[before, first:], self._total[before, first:]
        for device in range(taken.shape[1]):
            kinds = self.slot_kinds[before, taken[:, device]]
            amounts = self.slot_amounts[before, taken[:, device]]
            gone, left = columns.fits(kinds, amounts), columns.fits(kinds, amounts - milli)
            count += left
            count -= gone
            total += left * (amounts - milli)[:, None]
            total -= gone * amounts[:, None]
        rooms = self.rooms[before]
        return columns.usable(count, total, np.where(rooms < _UNCOUNTED, rooms - need, rooms))

    def _enter(self, first: int) -> None:
        """Fill the arrays for the states from number `first` on; the arrays grow if needed."""
        while len(self) > len(self.rooms):
            self.slot_kinds = np.vstack([self.slot_kinds, np.full_like(self.slot_kinds, len(self.kinds))])
            self.slot_amounts, self.rooms = doubled(self.slot_amounts), doubled(self.rooms)
            self._count, self._total, self.usable = doubled(self._count), doubled(self._total), doubled(self.usable)
        for number in range(first, len(self)):
            room, slots = self.of[number]
            self.rooms[number] = [min(max(have, 0), _UNCOUNTED) for have in room]
            if slots:
                self.slot_kinds[number, : len(slots)], self.slot_amounts[number, : len(slots)] = zip(
                    *slots, strict=True
                )
        self._fill(first, 0, self.columns)

    def _fill(self, first: int, column: int, columns: Columns) -> None:
        """Compute what is usable in these columns, which begin at `column`, for the states from number `first` on."""
        there = slice(column, column + len(columns.asked))
        for start in range(first, len(self), _AT_ONCE):
            rows = slice(start, min(start + _AT_ONCE, len(self)))
            for device in range(self.slot_kinds.shape[1]):
                amounts = self.slot_amounts[rows, device]
                fits = columns.fits(self.slot_kinds[rows, device], amounts)
                self._count[rows, there] += fits
                self._total[rows, there] += fits * amounts[:, None]
            self.usable[rows, there] = columns.usable(
                self._count[rows, there], self._total[rows, there], self.rooms[rows]
            )


def doubled(array: Array) -> Array:
    """Return the array followed by as many rows of zeros as it has."""
    return np.concatenate([array, np.zeros_like(array)])
