"""A scheduler that keeps an index of the cluster between cycles and is told about changes only.

Rules
-----
Same decisions: `decide` decides exactly what `run_cycle` would decide about a snapshot of the same moment.

Decisions have no effect here: whoever carries a decision out puts the workloads as they became. Until then the next
decision is the same again.

Cost of a change: a decision costs what it changes and what must be asked again, not the size of the cluster.

See docs/decisions/0019-keep-an-index-between-cycles.md.
"""

from collections.abc import Mapping
from dataclasses import replace

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.cluster import Node, Topology
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Kind, Workload

from .cycle import decide
from .decision import Decision
from .policy import Policy
from .state.cluster_index import ClusterCapacity, ClusterConfig, ClusterIndex
from .state.cycle_state import begin_cycle


class Scheduler:
    """The scheduling cycle on an index that is kept up to date."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        """Index the snapshot. Raises `InvalidSnapshot` if its queues are not a tree."""
        self._index = ClusterIndex(snapshot, policy)

    def put(self, workload: Workload) -> None:
        """Add a workload, or replace the one with its id. A workload in a final state is removed instead."""
        self._index.put(workload)

    def remove(self, name: str) -> None:
        """Remove the workload of that id; does nothing if it is not known."""
        self._index.remove(name)

    def set(
        self,
        *,
        nodes: tuple[Node, ...] | None = None,
        queues: tuple[Queue, ...] | None = None,
        topologies: tuple[Topology, ...] | None = None,
        usage: Mapping[str, float] | None = None,
        unobserved: tuple[Kind, ...] | None = None,
        policy: Policy | None = None,
    ) -> None:
        """Replace parts of the configuration; None leaves a part as it is.

        If any part differs, everything is indexed anew. Raises `InvalidSnapshot` if the queues are not a tree; the
        scheduler is then unchanged.
        """
        before = self._index.config
        after = ClusterConfig(
            nodes=before.nodes if nodes is None else nodes,
            queues=before.queues if queues is None else queues,
            topologies=before.topologies if topologies is None else topologies,
            usage=before.usage if usage is None else usage,
            unobserved=before.unobserved if unobserved is None else unobserved,
            policy=before.policy if policy is None else policy,
        )
        if after != before:
            snapshot = replace(
                self._index.snapshot(),
                nodes=after.nodes,
                queues=after.queues,
                topologies=after.topologies,
                usage=after.usage,
                unobserved=after.unobserved,
            )
            self._index = ClusterIndex(snapshot, after.policy)

    def follow(self, snapshot: Snapshot, policy: Policy) -> None:
        """Make the index equal to the snapshot and the policy, by changing only what differs from what is known.

        Raises `InvalidSnapshot` if the queues are not a tree; the scheduler is then unchanged.
        """
        self.set(
            nodes=snapshot.nodes,
            queues=snapshot.queues,
            topologies=snapshot.topologies,
            usage=snapshot.usage,
            unobserved=snapshot.unobserved,
            policy=policy,
        )
        self._index.capacity = ClusterCapacity(new_nodes=snapshot.new_nodes, launches=snapshot.launch_capacity)
        known = self._index.workloads
        for name in known.keys() - {workload.id for workload in snapshot.workloads}:
            self.remove(name)
        for workload in snapshot.workloads:
            before = known.get(workload.id)
            if before is not workload and before != workload:
                self.put(workload)

    def decide(self, now: Instant, *, explain: bool = True) -> Decision:
        """Return the decision of one cycle at the time `now`. The known workloads stay as they are.

        If `explain` is false, the decision is without them: `pending`, `returning` and `wanted_nodes` are empty.
        """
        state = begin_cycle(self._index, now)
        try:
            return decide(state, explain=explain)
        finally:
            state.undo()

    def decide_with(self, workload: Workload, now: Instant) -> Decision:
        """Return the decision of one cycle in which this workload exists as well, and forget the workload afterwards.

        Raises `ValueError` if a workload of that id is known already.
        """
        if workload.id in self._index.workloads:
            raise ValueError(f"the workload {workload.id!r} is known already")
        self.put(workload)
        try:
            return self.decide(now)
        finally:
            self.remove(workload.id)
