"""Where a task can go: what is free on each device, now and soon, and which of the fitting ones to take.

Rules
-----
1. `free` is what nobody holds now. `future` is what nobody will hold once everything told to stop has stopped,
   less what is promised to those who wait for it.
2. Something may start now where both have room for it, so nobody snatches what is promised to another.
3. Every change is written down and can be rolled back; nothing is copied.
4. Pack takes the fullest device (node) that fits, spread the emptiest; ties go to the lowest (node, index, id).

Cost: devices lie in buckets by what is free on them, so a choice takes as many steps as there are different
amounts, not as many as there are devices.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from enum import StrEnum

from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.workload import Request, TaskPlacement, Workload

WHOLE = int(ONE_GPU)


class View(StrEnum):
    """Which of the two amounts is asked for."""

    NOW = "NOW"
    FUTURE = "FUTURE"


class _Buckets:
    """Members by an amount that changes; finds the lowest member of an amount without looking at all of them."""

    __slots__ = ("amounts", "heaps", "population")

    def __init__(self) -> None:
        #: Every amount ever seen, ascending.
        self.amounts: list[int] = []
        self.heaps: dict[int, list[int]] = {}
        #: How many members have that amount now.
        self.population: dict[int, int] = {}

    def move(self, member: int, old: int | None, new: int) -> None:
        """`member` had `old` (None: it is new here) and has `new`."""
        if old is not None:
            self.population[old] -= 1
        heap = self.heaps.get(new)
        if heap is None:
            heap = self.heaps[new] = []
            self.population[new] = 0
            insort(self.amounts, new)
        self.population[new] += 1
        heapq.heappush(heap, member)

    def lowest(self, amount: int, current: Sequence[int]) -> int | None:
        """The lowest member that has this amount; entries that have moved on are dropped here."""
        if not self.population.get(amount):
            return None
        heap = self.heaps[amount]
        while heap and current[heap[0]] != amount:
            heapq.heappop(heap)
        return heap[0] if heap else None

    def at_least(self, amount: int, *, descending: bool) -> Iterable[int]:
        """The amounts from `amount` on."""
        found = self.amounts[bisect_left(self.amounts, amount) :]
        return reversed(found) if descending else found


class _Index:
    """One view of the devices: what is free on each, by device and by node."""

    __slots__ = ("amount", "by_device", "by_node", "layout", "total", "whole")

    def __init__(self, layout: "_Layout") -> None:
        self.layout = layout
        self.amount = [0] * len(layout.device_ids)
        #: Wholly free devices of each (node, pool).
        self.whole = [0] * len(layout.group_devices)
        self.by_device = {pool: _Buckets() for pool in layout.pools}
        self.by_node = {pool: _Buckets() for pool in layout.pools}
        self.total = dict.fromkeys(layout.pools, 0)
        for rank, group in enumerate(layout.group_of):
            self.by_device[layout.group_pool[group]].move(rank, None, 0)
        for group, pool in enumerate(layout.group_pool):
            self.by_node[pool].move(group, None, 0)

    def put(self, rank: int, value: int) -> None:
        value = max(0, value)
        old = self.amount[rank]
        if old == value:
            return
        group = self.layout.group_of[rank]
        pool = self.layout.group_pool[group]
        self.amount[rank] = value
        self.total[pool] += value - old
        self.by_device[pool].move(rank, old, value)
        step = (value == WHOLE) - (old == WHOLE)
        if step:
            count = self.whole[group]
            self.whole[group] = count + step
            self.by_node[pool].move(group, count, count + step)

    def best_group(self, pool: str, devices: int, *, spread: bool) -> int | None:
        buckets = self.by_node[pool]
        for count in buckets.at_least(devices, descending=spread):
            found = buckets.lowest(count, self.whole)
            if found is not None:
                return found
        return None

    def best_device(self, pool: str, milli: int, *, spread: bool) -> int | None:
        buckets = self.by_device[pool]
        for amount in buckets.at_least(milli, descending=spread):
            if amount == WHOLE:
                group = self.best_group(pool, 1, spread=spread)
                found = None if group is None else self.whole_devices(group, 1)[0]
            else:
                found = buckets.lowest(amount, self.amount)
            if found is not None:
                return found
        return None

    def whole_devices(self, group: int, count: int) -> list[int]:
        found = [rank for rank in self.layout.group_devices[group] if self.amount[rank] == WHOLE]
        return found[:count]

    def slots(self, pool: str, request: Request) -> int:
        """At most so many tasks of this request fit; exact for whole devices and for one fraction."""
        devices, milli = request.devices, request.milli_per_device
        if milli == WHOLE:
            return sum(n * (count // devices) for count, n in self.by_node[pool].population.items() if n)
        on_devices = sum(n * (amount // milli) for amount, n in self.by_device[pool].population.items() if n)
        return on_devices // devices


class _Layout:
    """What does not change: devices in their order, grouped by (node, pool)."""

    __slots__ = ("device_ids", "group_devices", "group_node", "group_of", "group_pool", "healthy", "pools", "rank_of")

    def __init__(self, nodes: Iterable[Node], pools: Iterable[str]) -> None:
        self.device_ids: list[str] = []
        self.healthy: list[bool] = []
        self.group_of: list[int] = []
        self.group_node: list[str] = []
        self.group_pool: list[str] = []
        self.group_devices: list[list[int]] = []
        for node in sorted(nodes, key=lambda node: node.name):
            groups: dict[str, int] = {}
            for device in sorted(node.devices, key=lambda device: (device.index, device.id)):
                group = groups.get(device.pool)
                if group is None:
                    group = groups[device.pool] = len(self.group_node)
                    self.group_node.append(node.name)
                    self.group_pool.append(device.pool)
                    self.group_devices.append([])
                self.group_devices[group].append(len(self.device_ids))
                self.group_of.append(group)
                self.device_ids.append(device.id)
                self.healthy.append(device.healthy)
        self.rank_of = {device: rank for rank, device in enumerate(self.device_ids)}
        self.pools = sorted({*self.group_pool, *pools})


class DeviceLedger:
    """What is free on every device. Devices that are not healthy have room for nothing."""

    def __init__(self, nodes: Iterable[Node], pools: Iterable[str], *, spread: bool = False) -> None:
        self._layout = _Layout(nodes, pools)
        self._spread = spread
        self._free = [WHOLE if healthy else 0 for healthy in self._layout.healthy]
        self._future = list(self._free)
        self._now_index = _Index(self._layout)
        self._future_index = _Index(self._layout)
        for rank in range(len(self._free)):
            self._refresh(rank)
        #: What is promised of the future, for `unrelease`.
        self._promised = [0] * len(self._free)
        self._journal: list[tuple[int, int, int, int]] = []

    # --- changes

    def hold(self, workload: Workload, *, stopping: bool, sign: int = 1) -> None:
        """Take off what `workload` holds; of what is stopping the future is free. `sign` -1: it holds it no more."""
        milli = sign * workload.request.milli_per_device
        for rank in self._ranks(workload.placement):
            self._shift(rank, -milli, 0 if stopping else -milli)

    def release(self, workload: Workload) -> None:
        """It is told to stop: its devices will be free."""
        for rank in self._ranks(workload.placement):
            self._shift(rank, 0, workload.request.milli_per_device)

    def take_again(self, workload: Workload, *, promised: int) -> bool:
        """Undo a release, if its room has not been promised to another; False changes nothing.

        `promised`: what it had been promised of each device (0: it holds them).
        """
        milli = workload.request.milli_per_device
        mark = self.mark()
        for rank in self._ranks(workload.placement):
            of_others = self._promised[rank]
            self._shift(rank, 0, -milli, promised=promised)
            if self._future[rank] < 0 and of_others:
                self.rollback(mark)
                return False
        return True

    def give_up(self, workload: Workload) -> None:
        """A released workload was never started: its devices are free now."""
        for rank in self._ranks(workload.placement):
            self._shift(rank, workload.request.milli_per_device, 0)

    def settle(self) -> None:
        """What has been done so far is not undone any more: marks count from here."""
        self._journal.clear()

    def mark(self) -> int:
        """A point to which `rollback` returns."""
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo every change since `mark`."""
        while len(self._journal) > mark:
            rank, free, future, promised = self._journal.pop()
            self._free[rank] -= free
            self._future[rank] -= future
            self._promised[rank] -= promised
            self._refresh(rank)

    def place(self, pool: str, request: Request, view: View) -> TaskPlacement | None:
        """Find devices for one task, and take them: now, or once they are free. None changes nothing."""
        ranks = self._find(pool, request, view)
        if ranks is None:
            return None
        milli = request.milli_per_device
        for rank in ranks:
            if view is View.NOW:
                self._shift(rank, -milli, -milli)
            else:
                self._shift(rank, 0, -milli, promised=milli)
        node = self._layout.group_node[self._layout.group_of[ranks[0]]]
        return TaskPlacement(node=node, devices=tuple(self._layout.device_ids[rank] for rank in ranks))

    def promise(self, placement: Iterable[TaskPlacement], milli: int) -> None:
        """Keep the future of these devices (negative: give it back)."""
        for rank in self._ranks(placement):
            self._shift(rank, 0, -milli, promised=milli)

    def take_at(self, placement: Iterable[TaskPlacement], milli: int) -> bool:
        """Take these very devices now; False changes nothing."""
        ranks = self._ranks(placement)
        if any(self._now_index.amount[rank] < milli for rank in ranks):
            return False
        for rank in ranks:
            self._shift(rank, -milli, -milli)
        return True

    def keep_at(self, placement: Sequence[TaskPlacement], milli: int) -> bool:
        """Keep the future of these very devices; False changes nothing: one is gone, or promised to another."""
        ranks = self._ranks(placement)
        if len(ranks) < sum(len(task.devices) for task in placement):
            return False
        if any(self._future_index.amount[rank] < milli for rank in ranks):
            return False
        self.promise(placement, milli)
        return True

    # --- questions

    def amount(self, device: str, view: View) -> int:
        """What is free on that device; 0 for one that does not exist."""
        rank = self._layout.rank_of.get(device)
        return 0 if rank is None else self._index(view).amount[rank]

    def slots(self, pool: str, request: Request, view: View) -> int:
        """An upper bound of the tasks of that request that fit."""
        if pool not in self._now_index.total:
            return 0
        return self._index(view).slots(pool, request)

    def total(self, pool: str, view: View = View.NOW) -> int:
        """What is free in the pool, in sum."""
        return self._index(view).total.get(pool, 0)

    def largest(self, pool: str, view: View = View.NOW) -> int:
        """The most that is free on one device of the pool."""
        buckets = self._index(view).by_device.get(pool)
        if buckets is None:
            return 0
        return max((amount for amount, n in buckets.population.items() if n), default=0)

    def largest_node(self, pool: str) -> int:
        """The most healthy devices that one node has in the pool."""
        layout = self._layout
        groups = [g for g, name in enumerate(layout.group_pool) if name == pool]
        return max((sum(layout.healthy[r] for r in layout.group_devices[g]) for g in groups), default=0)

    # --- inside

    def _index(self, view: View) -> _Index:
        return self._now_index if view is View.NOW else self._future_index

    def _ranks(self, placement: Iterable[TaskPlacement]) -> list[int]:
        rank_of = self._layout.rank_of
        return [rank_of[device] for task in placement for device in task.devices if device in rank_of]

    def _shift(self, rank: int, free: int, future: int, promised: int = 0) -> None:
        self._journal.append((rank, free, future, promised))
        self._free[rank] += free
        self._future[rank] += future
        self._promised[rank] += promised
        self._refresh(rank)

    def _refresh(self, rank: int) -> None:
        future = self._future[rank]
        self._now_index.put(rank, min(self._free[rank], future))
        self._future_index.put(rank, future)

    def _find(self, pool: str, request: Request, view: View) -> list[int] | None:
        index = self._index(view)
        if pool not in index.total:
            return None
        if request.milli_per_device == WHOLE:
            group = index.best_group(pool, request.devices, spread=self._spread)
            return None if group is None else index.whole_devices(group, request.devices)
        if request.devices == 1:
            rank = index.best_device(pool, request.milli_per_device, spread=self._spread)
            return None if rank is None else [rank]
        return self._find_fractions(pool, request, index)

    def _find_fractions(self, pool: str, request: Request, index: _Index) -> list[int] | None:
        """Several devices of one node with the same fraction each; rare, so every node is looked at."""
        sign = -1 if self._spread else 1
        best: tuple[int, int, list[int]] | None = None
        for group, name in enumerate(self._layout.group_pool):
            ranks = self._layout.group_devices[group]
            fitting = [rank for rank in ranks if index.amount[rank] >= request.milli_per_device]
            if name != pool or len(fitting) < request.devices:
                continue
            fitting.sort(key=lambda rank: (sign * index.amount[rank], rank))
            candidate = (sign * len(fitting), group, fitting[: request.devices])
            if best is None or candidate < best:
                best = candidate
        return None if best is None else best[2]
