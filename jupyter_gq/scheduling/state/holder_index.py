"""Workloads that hold devices, indexed by pool, leaf queue and node, and by what a cycle may have to do with them."""

from collections.abc import Callable, Sequence

from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.order.sorted_workloads import SortedWorkloads
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.disruption import Disruption, disruption
from jupyter_gq.scheduling.workloads.replicas import stopping_replicas

from .lender_index import LenderIndex

#: States whose work can be stopped by an eviction.
EVICTABLE = frozenset({State.ADMITTED, State.STARTING, State.RUNNING})


class HolderIndex:
    """The workloads that hold devices or host resources.

    `by_leaf` and `on_node` list an elastic workload as its smallest gang and each of its surplus replicas.
    """

    def __init__(self, pools_of: Callable[[Workload], frozenset[str]], lenders: LenderIndex, *, by_user: bool) -> None:
        """Make an empty index.

        `pools_of` returns the pools whose devices a workload holds. `lenders` is empty as well. `by_user`: count the
        usage of each user.
        """
        #: Suspended notebooks, which have lent their devices.
        self.lenders = lenders
        #: Holders that can be evicted, by preemptibility, pool and leaf queue, in the order of disruption.
        self.by_leaf: dict[bool, dict[str, dict[str, SortedWorkloads[Disruption]]]] = {True: {}, False: {}}
        #: Holders that can be evicted, by node and id.
        self.on_node: dict[str, dict[str, Workload]] = {}
        #: Workloads and replicas that were told to stop and still hold devices, by id.
        self.stopping: dict[str, Workload] = {}
        #: Gangs that lost some of their tasks, by id.
        self.stale: dict[str, Workload] = {}
        #: Notebooks that can be evicted, by id: only they can be idle.
        self.notebooks: dict[str, Workload] = {}
        #: Milli-GPU of each user in each leaf queue, without what is stopping; empty unless `by_user`.
        self.user_usage: dict[str, dict[str, int]] = {}
        self._pools_of = pools_of
        self._by_user = by_user

    def add(self, workload: Workload, units: Sequence[Workload], *, evictable: bool) -> None:
        """Add a holder; `units` are its smallest gang and its surplus replicas, or itself.

        Only if `evictable`, the units are listed by leaf queue and node, and the workload among stale gangs and
        notebooks.
        """
        if workload.state is not State.STOPPING:
            self._count_user(workload, 1)
        if workload.state is State.SUSPENDED:
            self.lenders.add(workload)
        if workload.state is State.STOPPING:
            self.stopping[workload.id] = workload
        for replica in stopping_replicas(workload):
            self.stopping[replica.id] = replica
        if evictable:
            if workload.stale_since is not None:
                self.stale[workload.id] = workload
            if workload.kind is Kind.NOTEBOOK:
                self.notebooks[workload.id] = workload
            for unit in units:
                self._list(unit)

    def remove(self, workload: Workload, units: Sequence[Workload], *, evictable: bool) -> None:
        """Remove a holder; all arguments must be equal to those with which it was added."""
        if workload.state is not State.STOPPING:
            self._count_user(workload, -1)
        if workload.state is State.SUSPENDED:
            self.lenders.remove(workload)
        for named in (self.stopping, self.stale, self.notebooks):
            named.pop(workload.id, None)
        for replica in stopping_replicas(workload):
            self.stopping.pop(replica.id, None)
        if evictable:
            for unit in units:
                self._unlist(unit)

    def _count_user(self, workload: Workload, sign: int) -> None:
        if self._by_user:
            of_queue = self.user_usage.setdefault(workload.queue, {})
            of_queue[workload.owner] = of_queue.get(workload.owner, 0) + sign * gang.held(workload)

    def _list(self, unit: Workload) -> None:
        """Add a unit to the lists by pool and leaf queue, and by node."""
        for pool in self._pools_of(unit):
            leaves = self.by_leaf[unit.preemptible].setdefault(pool, {})
            if unit.queue not in leaves:
                leaves[unit.queue] = SortedWorkloads(disruption)
            leaves[unit.queue].add(unit)
        for task in unit.placement:
            self.on_node.setdefault(task.node, {})[unit.id] = unit

    def _unlist(self, unit: Workload) -> None:
        """Remove a unit from the lists by pool and leaf queue, and by node."""
        for pool in self._pools_of(unit):
            leaves = self.by_leaf[unit.preemptible][pool]
            leaves[unit.queue].remove(unit)
            if not leaves[unit.queue]:
                del leaves[unit.queue]
        for task in unit.placement:
            self.on_node[task.node].pop(unit.id, None)
