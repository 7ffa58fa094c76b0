"""The index of the cluster: what cycles ask about nodes, queues and workloads, updated one workload at a time.

Rules
-----
Exact updates: `put` and `remove` are the only ways in and out, and undo each other exactly. An index that grew step by
step equals an index made of the whole snapshot.

No trace of a cycle: a cycle works on the accounts, the ledger and the pending workloads of the index, and takes back
all that it did (`CycleState.undo`). Whoever carries the decision out puts the changed workloads afterwards.

No clock: nothing here depends on the time except which workloads back off, and a cycle says what time it is
(`set_time`).

Withheld workloads: pending workloads that are held or back off, and those of unobserved kinds, count nowhere else.
Runs of unobserved kinds keep what they hold, and cannot be evicted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.cluster import Device, NewNodes, Node, Topology
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import FINAL, State
from jupyter_gq.domain.workload import Kind, TaskPlacement, Workload, devices_of
from jupyter_gq.scheduling.placement import DeviceLedger, MemoryParts, RequestMix, empty_ledger, make_policy
from jupyter_gq.scheduling.placement.shortage import Shortage, find_shortage
from jupyter_gq.scheduling.policy import PlacementStrategy, Policy
from jupyter_gq.scheduling.quota.accounts import Accounts
from jupyter_gq.scheduling.quota.min_runtime import MinRuntimes
from jupyter_gq.scheduling.quota.past_usage import past_of
from jupyter_gq.scheduling.quota.usage_accounting import UsageAccounting
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.replicas import split_replicas, stopping_replicas, wanted_replicas

from .holder_index import EVICTABLE, HolderIndex
from .lender_index import LenderIndex
from .pending_index import PendingIndex
from .priority_counts import PriorityCounts
from .replica_index import ReplicaIndex
from .withheld_index import WithheldIndex


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterConfig:
    """A snapshot without its workloads, and the policy. An index is made for one configuration."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    topologies: tuple[Topology, ...]
    #: Past use of each queue in GPU-seconds, decayed.
    usage: Mapping[str, float]
    #: Kinds of workload about which nothing is decided (see `Snapshot.unobserved`).
    unobserved: tuple[Kind, ...]
    policy: Policy

    @property
    def draining(self) -> list[str]:
        """The names of the nodes that are being drained."""
        return [node.name for node in self.nodes if node.draining]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterCapacity:
    """The capacity that a cluster still has for nodes and launches.

    No index depends on it, so it may change without indexing anything anew.
    """

    #: What the cluster may add to pools that grow.
    new_nodes: tuple[NewNodes, ...]
    #: Number of tasks that can be launched soon, by kind (see `Snapshot.launch_capacity`).
    launches: Mapping[Kind, int]


class ClusterIndex:
    """The knowledge before a cycle begins, in the form in which cycles ask for it."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        """Index the snapshot. Raises `InvalidSnapshot` if its queues are not a tree."""
        self.config = ClusterConfig(
            nodes=snapshot.nodes,
            queues=snapshot.queues,
            topologies=snapshot.topologies,
            usage=snapshot.usage,
            unobserved=snapshot.unobserved,
            policy=policy,
        )
        self.capacity = ClusterCapacity(new_nodes=snapshot.new_nodes, launches=snapshot.launch_capacity)
        self.accounts = Accounts(snapshot.queues, snapshot.nodes, past_of(snapshot, policy.usage))
        self.min_runtimes = MinRuntimes(self.accounts, policy.min_runtime)
        self._mix = RequestMix()
        self._counts_mix = PlacementStrategy.FRAGMENTATION in (policy.placement, policy.fraction_placement)
        self.ledger = self._empty_ledger(snapshot, policy)
        #: All workloads that are not final, by id.
        self.workloads: dict[str, Workload] = {}
        self.withheld = WithheldIndex(snapshot.unobserved)
        #: The workloads with a reservation, by id.
        self.reserved: dict[str, Workload] = {}
        self.priorities = PriorityCounts()
        self.pending = PendingIndex(by_wait=policy.reserve_after is not None)
        lenders = LenderIndex(snapshot.nodes, snapshot.topologies)
        self.holders = HolderIndex(self.pools_of, lenders, by_user=policy.per_user)
        self.replicas = ReplicaIndex()
        self._usage = UsageAccounting(self.accounts)
        self._memory = MemoryParts(snapshot.nodes)
        self._pool_of = {device.id: device.pool for node in snapshot.nodes for device in node.devices}
        #: The name of the node of each device, by id.
        self._node_of = {device.id: node.name for node in snapshot.nodes for device in node.devices}
        self._draining = [(node.name, each) for node in snapshot.nodes for each in node.devices if each.draining]
        #: The nodes as if no workload held anything; made when it is first needed.
        self._empty: DeviceLedger | None = None
        #: What workloads would lack in an empty cluster, by pool and requests.
        self._lacks: dict[object, Shortage | None] = {}
        for workload in snapshot.workloads:
            self.put(workload)

    def put(self, workload: Workload) -> None:
        """Add a workload, or replace the one with its id. A workload in a final state is removed instead."""
        self.remove(workload.id)
        if workload.state in FINAL:
            return
        workload = self._memory.of_workload(workload, self._pool(workload))
        self.workloads[workload.id] = workload
        if not self.withheld.add(workload):
            self._enter(workload)

    def remove(self, name: str) -> None:
        """Remove the workload of that id; does nothing if it is not known."""
        workload = self.workloads.pop(name, None)
        if workload is not None and not self.withheld.remove(workload):
            self._leave(workload)

    def set_time(self, now: Instant) -> None:
        """Set the time: index workloads whose back-off is over at `now`, and withhold those that back off then."""
        ended, started = self.withheld.set_time(now)
        for workload in ended:
            self._enter(workload)
        for workload in started:
            self._leave(workload)

    def _enter(self, workload: Workload) -> None:
        """Add a workload that takes part in cycles to all indexes, accounts and the ledger."""
        if workload.reserved:
            self.reserved[workload.id] = workload
        self._count(workload, 1)
        if workload.state is State.PENDING:
            self.pending.add(workload, self._pool(workload))
        elif workload.holds:
            self._add_holder(workload)

    def _leave(self, workload: Workload) -> None:
        """Remove a workload from everything to which `_enter` added it."""
        self.reserved.pop(workload.id, None)
        self._count(workload, -1)
        if workload.state is State.PENDING:
            self.pending.remove(workload, self._pool(workload))
        elif workload.holds:
            self._remove_holder(workload)

    def is_observed(self, workload: Workload) -> bool:
        """Tell whether the backend of the workload's kind is observed, so that something may be decided about it."""
        return workload.kind not in self.config.unobserved

    def snapshot(self) -> Snapshot:
        """Return the snapshot from which an equal index can be made."""
        return Snapshot(
            nodes=self.config.nodes,
            queues=self.config.queues,
            workloads=tuple(self.workloads.values()),
            topologies=self.config.topologies,
            usage=self.config.usage,
            new_nodes=self.capacity.new_nodes,
            unobserved=self.config.unobserved,
            launch_capacity=self.capacity.launches,
        )

    def draining_devices(self) -> list[tuple[str, Device]]:
        """Return the devices that are being drained, each after the name of its node."""
        return self._draining

    def pools_of(self, workload: Workload) -> frozenset[str]:
        """Return the pools of the devices that the workload holds.

        If it holds only host resources of nodes, and some node counts these, that is the pool of its queue. Otherwise
        the result is empty for work without devices.
        """
        pool_of = self._pool_of
        found = frozenset(pool_of[d] for task in workload.placement for d in task.devices if d in pool_of)
        if not found and workload.placement and self.ledger.layout.counts_host_resources:
            return frozenset((self._pool(workload),))
        return found

    def nodes_of(self, placement: Sequence[TaskPlacement]) -> set[str]:
        """Return the names of the nodes of these places, and of the nodes where their devices are now.

        The two differ if a node has got another name since the places were recorded.
        """
        now = (self._node_of.get(device) for device in devices_of(placement))
        return {task.node for task in placement} | {node for node in now if node is not None}

    def shortage_when_empty(self, pool: str, workload: Workload) -> Shortage | None:
        """Return what the workload would lack if no workload held anything; None if it would fit.

        The answer is computed once for all workloads with the same requests.
        """
        key = (pool, workload.request, workload.min_members, workload.groups, workload.topology)
        if key not in self._lacks:
            if self._empty is None:
                self._empty = empty_ledger(self.config.nodes, self.config.topologies)
            self._lacks[key] = find_shortage(self._empty, pool, workload)
        return self._lacks[key]

    def _empty_ledger(self, snapshot: Snapshot, policy: Policy) -> DeviceLedger:
        """Return a ledger of all nodes on which nothing is held, with the placement policies of the policy."""
        choice = make_policy(policy.placement, self._mix)
        of_fractions = policy.fraction_placement or policy.placement
        return DeviceLedger(
            snapshot.nodes,
            self.accounts.pools(),
            choice=choice,
            fractions=choice if of_fractions is policy.placement else make_policy(of_fractions, self._mix),
            topologies=snapshot.topologies,
        )

    def _pool(self, workload: Workload) -> str:
        return self.accounts.of(workload.queue).queue.pool

    def _count(self, workload: Workload, sign: int) -> None:
        """Add the workload (`sign` 1) to all sums: priorities, request mix, demand, usage, ledger.

        Remove it with `sign` -1.
        """
        self.priorities.count(workload, sign)
        if self._counts_mix:
            for group in gang.groups_of(workload):
                self._mix.add(self._pool(workload), group.request, sign * group.tasks)
        if workload.state is State.PENDING:
            self.accounts.demand(self.accounts.of(workload.queue), sign * workload.milli)
        elif workload.holds:
            self._count_held(workload, sign)

    def _count_held(self, workload: Workload, sign: int) -> None:
        """Add a workload that holds devices (`sign` 1) to accounts, ledger and demand; remove it with `sign` -1.

        A suspended workload keeps its quota and host resources, but not its devices. A stopping one adds to the demand
        only if it comes back.
        """
        stopping = workload.state is State.STOPPING
        self._usage.add_held(workload, sign, later=not stopping)
        if workload.state is State.SUSPENDED:
            self.ledger.adjust_host_resources(workload, free=-sign, future=-sign)
        else:
            self.ledger.hold(workload, stopping=stopping, sign=sign)
        if not stopping or workload.comes_back:
            account = self.accounts.of(workload.queue)
            self.accounts.demand(account, sign * max(gang.held(workload), workload.milli))
        for replica in stopping_replicas(workload):
            self._usage.add_held(replica, sign, later=False)
            self.ledger.hold(replica, stopping=True, sign=sign)

    def _add_holder(self, workload: Workload) -> None:
        """Add a workload that holds devices to the indexes of holders and replicas."""
        core, surplus = split_replicas(workload)
        observed = self.is_observed(workload)
        self.holders.add(workload, (core, *surplus), evictable=observed and workload.state in EVICTABLE)
        if workload.elastic and workload.state in EVICTABLE and observed:
            wanted = wanted_replicas(workload)
            self.replicas.add(core, surplus, wanted)
            for replica in wanted:
                self.pending.enqueue(replica)

    def _remove_holder(self, workload: Workload) -> None:
        core, surplus = split_replicas(workload)
        evictable = self.is_observed(workload) and workload.state in EVICTABLE
        self.holders.remove(workload, (core, *surplus), evictable=evictable)
        for replica in self.replicas.remove(workload.id):
            self.pending.dequeue(replica)
