"""Candidates for eviction: work that holds something, and work that this cycle placed, in the order of disruption.

Work that this cycle moves is a candidate at its new place, if nothing else suffices: who has the right to that place
takes it now, and not once the work has moved there.

See docs/decisions/0016-evict-the-work-that-loses-least.md.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.quota import min_runtime
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.state.holder_index import EVICTABLE
from jupyter_gq.scheduling.workloads.disruption import Loss, disruption, loss
from jupyter_gq.scheduling.workloads.replicas import whole_workload

#: Compares candidates of different queues: the seconds for which each is still protected, then what it loses.
Precedence = tuple[float, Loss]


class _Leaf:
    """The candidates of one leaf queue in one pool, in their order; gone candidates are skipped from the front."""

    __slots__ = ("past", "start", "victims")

    def __init__(self, victims: Iterable[Workload] = ()) -> None:
        self.victims = list(victims)
        self.start = 0
        #: The candidates that have run at least so long, by that time.
        self.past: dict[Seconds, _Leaf] = {}


class VictimIndex:
    """An index of all preemptible work that holds something, by pool and leaf queue, for many searches in one cycle.

    Devices count and, where nodes tell of them, CPU and memory.

    A search that takes from the front pays nothing for candidates that have gone, however many they are.
    """

    def __init__(self, inputs: CycleInputs, allocations: Allocations, evictions: Evictions) -> None:
        """Begin with the work that runs and what this cycle has placed so far."""
        self._inputs = inputs
        self._allocations = allocations
        self._evictions = evictions
        self._pools = {
            pool: {queue: _Leaf(victims) for queue, victims in leaves.items()}
            for pool, leaves in inputs.index.holders.by_leaf[True].items()
        }
        #: Ids of work placed in this cycle that is not in the lists yet, by leaf queue: little of it is ever asked for.
        self._new: dict[str, dict[str, None]] = {}
        for workload in (*allocations.admitted.values(), *map(allocations.nominee, allocations.nominated)):
            self.add(workload)
        #: Whether the work that this cycle moves is among the candidates at the moment.
        self._with_movers = False
        self._movers = evictions.movers()
        for mover in self._movers:
            self._insert(mover)

    def add(self, workload: Workload) -> None:
        """Add a workload or replica that has just been admitted or nominated, so that later searches consider it."""
        self._new.setdefault(workload.queue, {})[workload.id] = None

    def add_restarting(self, workload: Workload) -> None:
        """Add evicted work at the place where it would start again by itself, so that later searches may take it.

        `workload` is given as PENDING with that place.
        """
        self._insert(workload)

    def search(self, find: Callable[[], Sequence[Workload] | None]) -> Sequence[Workload] | None:
        """Return what `find` returns: victims that are no movers or, if there are none (None), movers as well."""
        found = find()
        if found is None and self._movers:
            self._with_movers = True
            found = find()
            self._with_movers = False
        return found

    def of_queue(self, pool: str, queue: str) -> Iterator[Workload]:
        """Yield the candidates of one leaf queue that no min runtime protects from work of that queue, in their order.

        Candidates that have gone are left out. Priorities are not compared.
        """
        self._list_new(queue)
        leaf = self._pools.get(pool, {}).get(queue)
        return iter(()) if leaf is None else self._present(self._unprotected(leaf, queue, queue))

    def of_lower_priority(self, pool: str, workload: Workload) -> Iterator[Workload]:
        """Yield the candidates of `of_queue` that have a lower priority than the workload, which is of that queue."""
        if self._inputs.index.priorities.any_lower(workload):
            yield from (victim for victim in self.of_queue(pool, workload.queue) if victim.priority < workload.priority)

    def awaiting_room(self) -> set[str]:
        """Return the ids of nominated workloads for which other work was told to stop."""
        return self._evictions.preemptors() & self._allocations.nominated.keys()

    def of_others(self, pool: str, queue: str) -> list[Iterator[Workload]]:
        """Return, for each other leaf queue of the pool, an iterator over its candidates in their order.

        Candidates that have gone, or that a min runtime protects from work of `queue`, are left out. Rights are not
        checked.
        """
        for new in [name for name in self._new if name != queue]:
            self._list_new(new)
        return [
            self._present(self._unprotected(leaf, name, queue))
            for name, leaf in self._pools.get(pool, {}).items()
            if name != queue
        ]

    def _list_new(self, queue: str) -> None:
        """Insert the work of a leaf queue that was added since the last call, if it still has its place."""
        allocations = self._allocations
        for name in self._new.pop(queue, ()):
            if name in allocations.admitted:
                self._insert(allocations.admitted[name])
            elif name in allocations.nominated:
                self._insert(allocations.nominee_at_place(name))

    def _insert(self, victim: Workload) -> None:
        """Add work that this cycle placed to the victims of its leaf queue, in order of disruption."""
        if not victim.preemptible:
            return
        for pool in self._inputs.index.pools_of(victim):
            leaf = self._pools.setdefault(pool, {}).setdefault(victim.queue, _Leaf())
            for least, each in ((min_runtime.AT_ONCE, leaf), *leaf.past.items()):
                if not min_runtime.remaining_protection(victim, least, self._inputs.now):
                    insort(each.victims, victim, lo=each.start, key=disruption)

    def _unprotected(self, leaf: _Leaf, queue: str, preemptor_queue: str) -> _Leaf:
        """Return the candidates of `leaf` that no min runtime protects from work of `preemptor_queue`."""
        index, now = self._inputs.index, self._inputs.now
        least = index.min_runtimes.of(index.accounts.of(queue), index.accounts.of(preemptor_queue))
        if not least:
            return leaf
        if least not in leaf.past:
            leaf.past[least] = _Leaf([v for v in leaf.victims if not min_runtime.remaining_protection(v, least, now)])
        return leaf.past[least]

    def _present(self, leaf: _Leaf) -> Iterator[Workload]:
        """Yield the candidates of `leaf` that still hold, or are still to get, the devices they are listed with."""
        allocations, evictions = self._allocations, self._evictions
        while leaf.start < len(leaf.victims) and not is_present(allocations, evictions, leaf.victims[leaf.start]):
            leaf.start += 1
        for index in range(leaf.start, len(leaf.victims)):
            victim = leaf.victims[index]
            is_mover = victim.state is not State.PENDING and victim.id in evictions.stopping
            is_asked = self._with_movers or not is_mover
            if is_asked and is_present(allocations, evictions, victim):
                yield victim


def by_loss(victim: Workload) -> Precedence:
    """Return the sort key of a candidate that no min runtime protects; the work that loses least goes first."""
    return (0.0, loss(victim))


def merge_candidates(
    queues: Iterable[Iterator[Workload]],
    rank: Callable[[Workload], int | None],
    asks_again: Callable[[Workload], bool],
    order: Callable[[Workload], Precedence],
) -> Iterator[Workload]:
    """Merge the candidates of several leaf queues: the lowest `rank` first, and equal ranks by `order`.

    The candidates of one queue keep their order. `rank` is computed after the candidate that was yielded before, so it
    sees what was released until then. If `rank` is None, the candidate and all behind it in its queue wait until a
    candidate is yielded for which `asks_again` is true. What still waits at the end is not yielded.
    """
    ready: list[tuple[int, Precedence, Workload, Iterator[Workload], int]] = []
    refused: list[tuple[Workload, Iterator[Workload]]] = []
    yielded = 0

    def line_up(victim: Workload, others: Iterator[Workload]) -> None:
        found = rank(victim)
        if found is None:
            refused.append((victim, others))
        else:
            heappush(ready, (found, order(victim), victim, others, yielded))

    for others in queues:
        if (first := next(others, None)) is not None:
            line_up(first, others)
    while ready:
        before, _, victim, others, ranked_at = heappop(ready)
        if ranked_at != yielded and rank(victim) != before:
            line_up(victim, others)
            continue
        yielded += 1
        yield victim
        if (following := next(others, None)) is not None:
            line_up(following, others)
        if refused and asks_again(victim):
            asked = refused[:]
            refused.clear()
            for entry in asked:
                line_up(*entry)


def is_present(allocations: Allocations, evictions: Evictions, victim: Workload) -> bool:
    """Tell whether a listed workload or replica still holds, or is still to get, the devices that it is listed with."""
    if victim.state is not State.PENDING:
        return victim.id not in evictions.stopping or evictions.migrations.get(victim.id) == victim.placement
    place = allocations.nominated.get(victim.id)
    if place is None and victim.id in allocations.admitted:
        place = allocations.admitted[victim.id].placement
    return place == victim.placement


def staying_on_nodes(
    index: ClusterIndex, allocations: Allocations, evictions: Evictions, nodes: Iterable[str]
) -> list[Workload]:
    """Return the workloads with tasks on these nodes that can be evicted and were not evicted in this cycle.

    Work of a backend that cannot be observed is left out. Each workload comes with the tasks that the cycle has left to
    it.
    """
    on_node = index.holders.on_node
    names = {whole_workload(unit).id for node in nodes for unit in on_node.get(node, {}).values()}
    return [allocations.replicas.current(index.workloads[name]) for name in names - evictions.evicted.keys()]


def staying_holders(index: ClusterIndex, allocations: Allocations, evictions: Evictions) -> list[Workload]:
    """Return the smallest gangs and replicas of all work that can be evicted and was not evicted in this cycle.

    Work of a backend that cannot be observed is left out, and so are replicas that this cycle placed. The function
    looks at every workload, so use it only for what is rare.
    """
    there = [w for w in index.workloads.values() if w.state in EVICTABLE and w.id not in evictions.evicted]
    workloads = [allocations.replicas.current(workload) for workload in there if index.is_observed(workload)]
    units = [unit for workload in workloads for unit in allocations.replicas.split(workload)]
    return [unit for unit in units if unit.state is not State.PENDING]


def staying_notebooks(index: ClusterIndex, evictions: Evictions) -> list[Workload]:
    """Return the notebooks that can be evicted and were neither evicted nor suspended in this cycle."""
    return [notebook for notebook in index.holders.notebooks.values() if notebook.id not in evictions.evicted]
