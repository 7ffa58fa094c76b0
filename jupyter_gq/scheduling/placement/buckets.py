"""Buckets: members by free amount and host resources of their node; the lowest that fits is found at once.

See docs/decisions/0010-group-free-places-in-buckets.md.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from .host_resources import UNLIMITED, HostResources

#: A heap is cleaned once it has this many more entries than twice its members; members that moved leave entries behind.
STALE = 32


class Buckets:
    """Members in buckets of equal amount and host resources."""

    __slots__ = ("amounts", "heaps", "population", "state")

    def __init__(self) -> None:
        #: The amounts that some member has, ascending.
        self.amounts: list[int] = []
        #: By amount and host resources: a heap of the members that have both, and of some that had.
        self.heaps: dict[int, dict[HostResources, list[int]]] = {}
        #: Number of members by amount and host resources; zeros are absent.
        self.population: dict[int, dict[HostResources, int]] = {}
        #: The amount and host resources of each member.
        self.state: dict[int, tuple[int, HostResources]] = {}

    def put(self, member: int, amount: int, room: HostResources) -> None:
        """Add a member to the bucket of this amount and these host resources, or move it there."""
        if member in self.state:
            self.drop(member)
        self.state[member] = (amount, room)
        rooms = self.population.get(amount)
        if rooms is None:
            rooms = self.population[amount] = {}
            self.heaps[amount] = {}
            insort(self.amounts, amount)
        if room in rooms:
            rooms[room] += 1
            heap = self.heaps[amount][room]
            heapq.heappush(heap, member)
            if len(heap) > 2 * rooms[room] + STALE:
                heap[:] = sorted({each for each in heap if self.state.get(each) == (amount, room)})
        else:
            rooms[room] = 1
            self.heaps[amount][room] = [member]

    def drop(self, member: int) -> None:
        """Remove a member. Raises `KeyError` if it is not there."""
        amount, room = self.state.pop(member)
        rooms = self.population[amount]
        if rooms[room] > 1:
            rooms[room] -= 1
            return
        del rooms[room], self.heaps[amount][room]
        if not rooms:
            del self.population[amount], self.heaps[amount]
            del self.amounts[bisect_left(self.amounts, amount)]

    def at_least(self, amount: int, *, descending: bool) -> Iterable[int]:
        """Return the amounts from `amount` on that some member has, ascending or `descending`."""
        found = self.amounts[bisect_left(self.amounts, amount) :]
        return reversed(found) if descending else found

    def lowest(self, amount: int, need: HostResources) -> int | None:
        """Return the member with the lowest number among those with that amount and at least these host resources.

        Returns None if there is none. Raises `KeyError` if no member has that amount.
        """
        best: int | None = None
        for room, heap in self.heaps[amount].items():
            if room is UNLIMITED or (room[0] >= need[0] and room[1] >= need[1] and room[2] >= need[2]):
                found = self._top(heap, amount, room)
                if best is None or found < best:
                    best = found
        return best

    def counts(self) -> Iterator[tuple[int, HostResources, int]]:
        """Yield each amount and host resources with the number of members that have both."""
        for amount, rooms in self.population.items():
            for room, members in rooms.items():
                yield amount, room, members

    def tightest(self, amount: int, need: HostResources, *, roomiest: bool) -> int | None:
        """Return the lowest member with that amount and the least host resources that suffice; None if there is none.

        With `roomiest`, the most host resources instead. They are compared by CPU, then memory, then number of tasks.
        """
        fitting = [room for room in self.heaps.get(amount, ()) if all(r >= n for r, n in zip(room, need, strict=True))]
        if not fitting:
            return None
        room = max(fitting) if roomiest else min(fitting)
        return self._top(self.heaps[amount][room], amount, room)

    def _top(self, heap: list[int], amount: int, room: HostResources) -> int:
        """Return the lowest member in a heap of this bucket.

        Entries of members that have left the bucket are removed.
        """
        while self.state.get(heap[0]) != (amount, room):
            heapq.heappop(heap)
        return heap[0]
