"""Members by what is free on them and how much room their node has; finds the lowest that fits without a search."""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from .host_resources import ROOMY, Room

#: A heap may hold so many entries of members that have moved on, and as many again as it has members.
STALE = 32


class Buckets:
    """Members in buckets of equal (amount, room)."""

    __slots__ = ("amounts", "heaps", "population", "state")

    def __init__(self) -> None:
        #: The amounts that some member has, ascending.
        self.amounts: list[int] = []
        #: By amount and room, all members that have both, and some that had.
        self.heaps: dict[int, dict[Room, list[int]]] = {}
        #: How many members have them now; only what is above 0.
        self.population: dict[int, dict[Room, int]] = {}
        self.state: dict[int, tuple[int, Room]] = {}

    def put(self, member: int, amount: int, room: Room) -> None:
        """It is new, or has changed."""
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
        """It has nothing any more."""
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
        """The amounts from `amount` on."""
        found = self.amounts[bisect_left(self.amounts, amount) :]
        return reversed(found) if descending else found

    def lowest(self, amount: int, need: Room) -> int | None:
        """The lowest member with that amount whose node has room."""
        best: int | None = None
        for room, heap in self.heaps[amount].items():
            if room is ROOMY or (room[0] >= need[0] and room[1] >= need[1] and room[2] >= need[2]):
                found = self._top(heap, amount, room)
                if best is None or found < best:
                    best = found
        return best

    def counts(self) -> Iterator[tuple[int, Room, int]]:
        """Amount, room, and how many members have them."""
        for amount, rooms in self.population.items():
            for room, members in rooms.items():
                yield amount, room, members

    def tightest(self, amount: int, need: Room, *, roomiest: bool) -> int | None:
        """A member with that amount in the least room that is enough (in the most, if `roomiest`)."""
        fitting = [room for room in self.heaps.get(amount, ()) if all(r >= n for r, n in zip(room, need, strict=True))]
        if not fitting:
            return None
        room = max(fitting) if roomiest else min(fitting)
        return self._top(self.heaps[amount][room], amount, room)

    def _top(self, heap: list[int], amount: int, room: Room) -> int:
        while self.state.get(heap[0]) != (amount, room):
            heapq.heappop(heap)
        return heap[0]
