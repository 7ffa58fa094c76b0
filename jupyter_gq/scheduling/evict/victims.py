"""Who could be stopped to make room: what runs and what this cycle placed, in the order of disruption."""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from heapq import heapify, heappop, heapreplace

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.quota import min_runtime
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads.disruption import disruption


class _LeafStock:
    """The victims of one leaf in one pool, in their order; those already gone are skipped."""

    __slots__ = ("past", "start", "victims")

    def __init__(self, victims: Iterable[Workload] = ()) -> None:
        self.victims = list(victims)
        self.start = 0
        #: Those of them who have run for so long at least.
        self.past: dict[Seconds, _LeafStock] = {}


class Stock:
    """All preemptible work with devices, by pool and leaf queue, for many searches in one cycle.

    Taking from the front costs nothing for those who are gone, however many they are.
    """

    def __init__(self, books: Books) -> None:
        self._books = books
        self._pools = {
            pool: {queue: _LeafStock(victims) for queue, victims in leaves.items()}
            for pool, leaves in books.index.holders.by_leaf[True].items()
        }
        #: Placed in this cycle and not yet in the lists, by leaf queue: few of them are ever asked for.
        self._fresh: dict[str, dict[str, None]] = {}
        for workload in (*books.admitted.values(), *map(books.unit, books.promised)):
            self.add(workload)

    def add(self, workload: Workload) -> None:
        """It has just been promised a place or been admitted: it may have to give way again."""
        self._fresh.setdefault(workload.queue, {})[workload.id] = None

    def _take_up(self, queue: str) -> None:
        """Those of that leaf who were placed since it was looked at, if they still are."""
        books = self._books
        for name in self._fresh.pop(queue, ()):
            if name in books.admitted:
                self._insert(books.admitted[name])
            elif name in books.promised:
                self._insert(replace(books.unit(name), placement=books.promised[name]))

    def _insert(self, victim: Workload) -> None:
        if not victim.preemptible:
            return
        for pool in self._books.pools_of(victim):
            leaf = self._pools.setdefault(pool, {}).setdefault(victim.queue, _LeafStock())
            for each in (leaf, *leaf.past.values()):
                insort(each.victims, victim, lo=each.start, key=disruption)

    def of_queue(self, pool: str, queue: str) -> Iterator[Workload]:
        """Those of one leaf queue who may go for its own work, in their order."""
        self._take_up(queue)
        leaf = self._pools.get(pool, {}).get(queue)
        return iter(()) if leaf is None else self._there(self._past(leaf, queue, queue))

    def of_others(self, pool: str, queue: str, allowed: Callable[[Workload], bool]) -> Iterator[Workload]:
        """Those of all other leaf queues who may go for `queue`, in their order.

        A queue is left alone from its first refusal on.
        """
        for fresh in [name for name in self._fresh if name != queue]:
            self._take_up(fresh)
        heap = []
        for name, leaf in self._pools.get(pool, {}).items():
            if name == queue:
                continue
            members = self._there(self._past(leaf, name, queue))
            first = next(members, None)
            if first is not None and allowed(first):
                heap.append((disruption(first), first, members))
        heapify(heap)
        while heap:
            _, victim, members = heap[0]
            if not allowed(victim):
                heappop(heap)
                continue
            yield victim
            following = next(members, None)
            if following is None:
                heappop(heap)
            else:
                heapreplace(heap, (disruption(following), following, members))

    def _past(self, leaf: _LeafStock, queue: str, taker: str) -> _LeafStock:
        """The part of `leaf` that has run long enough; looked up once for each length of time that some rule says."""
        books = self._books
        least = books.index.min_runtimes.of(books.accounts.of(queue), books.accounts.of(taker))
        if not least:
            return leaf
        if least not in leaf.past:
            now = books.now
            leaf.past[least] = _LeafStock([v for v in leaf.victims if not min_runtime.left(v, least, now)])
        return leaf.past[least]

    def _there(self, leaf: _LeafStock) -> Iterator[Workload]:
        while leaf.start < len(leaf.victims) and not is_there(self._books, leaf.victims[leaf.start]):
            leaf.start += 1
        for index in range(leaf.start, len(leaf.victims)):
            if is_there(self._books, leaf.victims[index]):
                yield leaf.victims[index]


def staying_units(books: Books) -> list[Workload]:
    """What can go by itself of those who stay; without what this cycle admitted or promised."""
    units = [unit for workload in books.staying() for unit in books.units.of(workload)]
    return [unit for unit in units if unit.state is not State.PENDING]


def placed_in_this_cycle(books: Books) -> list[Workload]:
    """Those admitted or promised a place, with that place."""
    promised = [replace(books.unit(name), placement=place) for name, place in books.promised.items()]
    return [*books.admitted.values(), *promised]


def is_there(books: Books, victim: Workload) -> bool:
    """It still holds, or is still to get, the devices that it is listed with."""
    if victim.state is not State.PENDING:
        return victim.id not in books.evicted and victim.id not in books.units.given_up
    place = books.promised.get(victim.id)
    if place is None and victim.id in books.admitted:
        place = books.admitted[victim.id].placement
    return place == victim.placement
