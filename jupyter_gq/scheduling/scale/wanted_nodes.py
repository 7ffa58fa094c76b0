"""New nodes that a growing cluster is asked for: a guarantee makes the cluster grow, a loan never does.

Rules
-----
1. Right. The cluster grows for workloads that wait for devices and are entitled to them: together with what the queue
   holds and with the workloads before it, each stays within the guaranteed quotas on its path.
2. Other reasons. A workload that waits for something else (a limit, an eviction, a back-off) makes no node come.
3. Filling. New nodes are filled one after the other with whole gangs. The part of a gang that fits the present nodes
   needs no others. A workload that would not fit a new node makes none come.
4. Bound. No pool is asked for more nodes than may still come.

A pure function. If no pool can grow, it costs nothing. If all quotas are used up, it costs one look at the holders.
Otherwise it costs one look at the pending workloads as well, and a ledger of the new nodes that could be filled.

See docs/decisions/0038-add-nodes-for-guaranteed-quotas-only.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.cluster import NewNodes
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.decision import Admit, Decision, Evict, Pending, WantedNodes
from jupyter_gq.scheduling.placement import DeviceLedger, MemoryParts, View, empty_ledger
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.quota.accounts import Accounts, add_usage, is_entitled
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.workloads import gang

from .node_requests import describe_request

#: Reasons of workloads that wait for devices.
_FOR_DEVICES = frozenset(
    {
        PendingReason.NO_DEVICE,
        PendingReason.NO_FREE_DEVICE,
        PendingReason.FRAGMENTED,
        PendingReason.NO_CPU_OR_MEMORY,
    }
)


_NONE = WantedNodes()


def with_wanted_nodes(decision: Decision, index: ClusterIndex, now: Instant) -> Decision:
    """Return the decision with the new nodes that pending workloads need, and with a sentence about them.

    The sentence is appended to the reason of each workload that a new node would serve. If nothing can grow or helps,
    the decision is returned unchanged.
    """
    if not any(new.count for new in index.capacity.new_nodes):
        return decision
    wanted = wanted_nodes(index.snapshot(), decision)
    if not wanted.served:
        return decision
    told = {new.pool: describe_request(new.pool, new.request, now) for new in index.capacity.new_nodes}
    pending = [_add_sentence(entry, told.get(wanted.served.get(entry.workload, ""), "")) for entry in decision.pending]
    return replace(decision, pending=tuple(pending), wanted_nodes=wanted)


def _add_sentence(entry: Pending, sentence: str) -> Pending:
    if not sentence:
        return entry
    return replace(entry, why=replace(entry.why, sentence=f"{entry.why.sentence} {sentence}"))


def wanted_nodes(snapshot: Snapshot, decision: Decision) -> WantedNodes:
    """Return the new nodes, by pool, that pending workloads still need after the decision has been carried out."""
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
    """Return the number of tasks of the smallest gang: as many new nodes would do for the workload in any case."""
    return sum(group.min_members for group in gang.groups_of(workload))


def _holders(snapshot: Snapshot, decision: Decision) -> list[Workload]:
    """Return the workloads that hold devices and go on once the decision has been carried out.

    Admitted and deferred ones come with their new places.
    """
    gone = {each.workload for each in decision.instructions if isinstance(each, Evict)}
    admissions = (*(each for each in decision.instructions if isinstance(each, Admit)), *decision.deferred)
    started = {admission.workload: admission.placement for admission in admissions}
    found = []
    for workload in snapshot.workloads:
        if workload.id in started:
            found.append(replace(workload, placement=started[workload.id]))
        elif workload.holds and workload.state is not State.STOPPING and workload.id not in gone:
            found.append(workload)
    return found


def _entitled(
    snapshot: Snapshot, decision: Decision, holders: Iterable[Workload], pools: Mapping[str, str]
) -> Iterator[Workload]:
    """Yield the pending workloads that wait for devices within the quotas on their path, in the decision's order.

    Each counts together with the holders and with the entitled workloads before it.
    """
    accounts = Accounts(snapshot.queues)
    for holder in holders:
        add_usage(accounts.of(holder.queue), gang.held(holder), fixed=False, now=False)
    within = {name for name in pools if is_entitled(accounts.of(name), 1)}
    waiting = {w.id: w for w in snapshot.workloads if w.queue in within and w.state is State.PENDING}
    # Explanations of pending workloads are computed when they are read.
    for entry in decision.pending if waiting else ():
        workload = waiting.get(entry.workload)
        if workload is None or not gang.needs_devices(workload):
            continue
        if entry.why.reason is PendingReason.PLACE_REFUSED:  # workloads behind it may pass while it backs off
            continue
        account, milli = accounts.of(workload.queue), gang.smallest(workload)
        if is_entitled(account, milli):
            add_usage(account, milli, fixed=False, now=False)
            if entry.why.reason in _FOR_DEVICES:
                yield workload


class _Filling:
    """The new nodes of one pool while workloads are placed on them."""

    def __init__(self, snapshot: Snapshot, new: NewNodes, holders: Iterable[Workload], most: int) -> None:
        """Begin with `most` empty new nodes, or as many as the pool may still get.

        `holders` are the workloads that hold devices after the decision.
        """
        self._snapshot, self._holders, self._pool = snapshot, holders, new.pool
        self._nodes = empty_ledger(new.first(most), snapshot.topologies)
        self._parts = MemoryParts((*snapshot.nodes, new.like))
        #: Present nodes with their idle devices; only gangs ask for them.
        self._there: DeviceLedger | None = None
        #: Names of the new nodes that are needed.
        self.used: set[str] = set()

    def takes(self, workload: Workload) -> bool:
        """Place the workload on the new nodes, with the idle present ones for gangs; tell whether it fits.

        False changes nothing.
        """
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
        """Return a ledger of the pool's present nodes on which the holders and stopping work have their places."""
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
