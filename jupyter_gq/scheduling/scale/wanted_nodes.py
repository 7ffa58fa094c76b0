"""How many new nodes a cluster that can grow is asked for, and for whom: a guarantee makes it grow, a loan never does.

Rules
-----
1. It grows for who waits for devices, and has a right to them: with what its queue holds, and with those before it in
   the line, it stays within the guaranteed quotas on its path.
2. Who waits for something else (a limit, somebody who gives way or will, a pause) makes no node come.
3. New nodes are filled one after the other with whole gangs. What of a gang fits the nodes that are there needs no
   others. Who would not fit a new node makes none come.
4. No pool is asked for more than may still come.

A pure function. Where no pool can grow it costs nothing; where all quotas are used up, one look at who holds; else one
at who waits as well, and a ledger of the new nodes that could be filled.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from jupyter_gq.domain.cluster import NewNodes
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.decision import Admit, Decision, Evict
from jupyter_gq.scheduling.placement import DeviceLedger, MemoryParts, View, empty_ledger
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.quota.accounts import Accounts, charge, entitled
from jupyter_gq.scheduling.workloads import gang

#: Who waits for one of these waits for devices.
_FOR_DEVICES = frozenset(
    {
        PendingReason.NO_DEVICE,
        PendingReason.NO_FREE_DEVICE,
        PendingReason.FRAGMENTED,
        PendingReason.NO_CPU_OR_MEMORY,
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedNodes:
    """New nodes that would serve somebody."""

    #: How many, by pool.
    count: Mapping[str, int] = field(default_factory=dict)
    #: The pool in which each workload would be served, by its id.
    served: Mapping[str, str] = field(default_factory=dict)


_NONE = WantedNodes()


def wanted_nodes(snapshot: Snapshot, decision: Decision) -> WantedNodes:
    """What is still missing when that decision has been carried out."""
    growing = {each.pool: each for each in snapshot.new_nodes if each.count}
    if not growing:
        return _NONE
    pools = {queue.name: queue.pool for queue in snapshot.queues if queue.pool in growing}
    holders = _holders(snapshot, decision)
    waiting = list(_entitled(snapshot, decision, holders, pools))
    served: dict[str, str] = {}
    count: dict[str, int] = {}
    for name, new in growing.items():
        here = [workload for workload in waiting if pools[workload.queue] == name]
        if here:
            filling = _Filling(snapshot, new, holders, sum(map(_tasks, here)))
            served.update((workload.id, name) for workload in here if filling.takes(workload))
            count[name] = len(filling.used)
    return WantedNodes(count={name: nodes for name, nodes in count.items() if nodes}, served=served)


def _tasks(workload: Workload) -> int:
    """As many nodes would do for it, whatever it is."""
    return sum(group.min_members for group in gang.groups_of(workload))


def _holders(snapshot: Snapshot, decision: Decision) -> list[Workload]:
    """Those who hold devices once the decision is carried out, and go on."""
    gone = {each.workload for each in decision.instructions if isinstance(each, Evict)}
    begun = {each.workload: each.placement for each in decision.instructions if isinstance(each, Admit)}
    found = []
    for workload in snapshot.workloads:
        if workload.id in begun:
            found.append(replace(workload, placement=begun[workload.id]))
        elif workload.holds and workload.state is not State.STOPPING and workload.id not in gone:
            found.append(workload)
    return found


def _entitled(
    snapshot: Snapshot, decision: Decision, holders: Iterable[Workload], pools: Mapping[str, str]
) -> Iterator[Workload]:
    """Those who wait for devices within the quotas on their path, in the order of the line; each takes its part."""
    accounts = Accounts(snapshot.queues)
    for holder in holders:
        charge(accounts.of(holder.queue), gang.held(holder), fixed=False, now=False)
    within = {name for name in pools if entitled(accounts.of(name), 1)}
    waiting = {w.id: w for w in snapshot.workloads if w.queue in within and w.state is State.PENDING}
    # The explanations of those who wait are written when they are read.
    for entry in decision.pending if waiting else ():
        workload = waiting.get(entry.workload)
        if workload is None or not gang.needs_devices(workload):
            continue
        if entry.why.reason is PendingReason.PLACE_REFUSED:  # workloads behind it may pass while it backs off
            continue
        account, milli = accounts.of(workload.queue), gang.smallest(workload)
        if entitled(account, milli):
            charge(account, milli, fixed=False, now=False)
            if entry.why.reason in _FOR_DEVICES:
                yield workload


class _Filling:
    """The new nodes of a pool, as they are filled."""

    def __init__(self, snapshot: Snapshot, new: NewNodes, holders: Iterable[Workload], most: int) -> None:
        """`most`: more nodes than that nobody could fill."""
        self._snapshot, self._holders, self._pool = snapshot, holders, new.pool
        self._nodes = empty_ledger(new.some(most), snapshot.topologies)
        self._parts = MemoryParts((*snapshot.nodes, new.like))
        #: Nodes that are there, with what is idle of them; only gangs ask for it.
        self._there: DeviceLedger | None = None
        #: Names of those that somebody needs.
        self.used: set[str] = set()

    def takes(self, workload: Workload) -> bool:
        """It fits; from now on it has its place."""
        workload = self._parts.of_workload(workload, self._pool)
        if workload.min_members < 2 or workload.groups or workload.topology is not None:
            return self._places(workload)
        there = self._idle_nodes()
        mark, left = there.mark(), workload.min_members
        while left and there.place(self._pool, workload.request, View.NOW) is not None:
            left -= 1
        if left and self._places(replace(workload, tasks=left, min_members=left)):
            return True
        there.rollback(mark)
        return False

    def _places(self, workload: Workload) -> bool:
        placed = assemble.place(self._nodes, self._pool, workload, View.NOW)
        self.used.update(task.node for task in placed or ())
        return placed is not None

    def _idle_nodes(self) -> DeviceLedger:
        if self._there is None:
            nodes = [n for n in self._snapshot.nodes if any(device.pool == self._pool for device in n.devices)]
            names = {node.name for node in nodes}
            self._there = DeviceLedger(nodes, (), topologies=self._snapshot.topologies)
            for holder in self._snapshot.workloads:
                if holder.state is State.STOPPING:
                    self._hold(self._there, holder, names)
            for holder in self._holders:
                self._hold(self._there, holder, names)
        return self._there

    @staticmethod
    def _hold(ledger: DeviceLedger, holder: Workload, names: set[str]) -> None:
        there = tuple(task for task in holder.placement if task.node in names)
        if there:
            ledger.hold(replace(holder, placement=there), stopping=holder.state is State.STOPPING)
