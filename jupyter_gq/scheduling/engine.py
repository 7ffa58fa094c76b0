"""A scheduler that remembers: between cycles it is told what happened, not everything again.

Rules
-----
1. `decide` says what `run_cycle` would say of a snapshot of the same moment, exactly.
2. It decides only. What really happened (what was started, stopped, lost) is put by whoever saw it; until then the next
   decision says the same again.
3. A decision costs what it changes and what must be asked anew, not what there is.
"""

from collections.abc import Mapping

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.cluster import Node, Topology
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Workload

from .cycle import decide
from .decision import Decision
from .policy import Policy
from .state.cluster_index import Facts
from .state.cycle_state import Books


class Scheduler:
    """The cycle, on facts that are kept up to date."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        """Begin with that state. Raises `InvalidSnapshot` as `run_cycle` does."""
        self._facts = Facts(snapshot, policy)
        self._queues = snapshot.queues

    def put(self, workload: Workload) -> None:
        """It is new, or it has changed. A final one is removed."""
        self._facts.put(workload)

    def remove(self, name: str) -> None:
        """The workload of that id is final, or gone; nothing when it is not known."""
        self._facts.remove(name)

    def set(
        self,
        *,
        nodes: tuple[Node, ...] | None = None,
        queues: tuple[Queue, ...] | None = None,
        topologies: tuple[Topology, ...] | None = None,
        usage: Mapping[str, float] | None = None,
        policy: Policy | None = None,
    ) -> None:
        """Another cluster, other queues or another policy: everything is counted anew, unless it is the same."""
        facts = self._facts
        changed = Snapshot(
            nodes=facts.nodes if nodes is None else nodes,
            queues=self._queues if queues is None else queues,
            workloads=tuple(facts.workloads.values()),
            topologies=facts.topologies if topologies is None else topologies,
            usage=facts.usage if usage is None else usage,
        )
        policy = facts.policy if policy is None else policy
        before = (facts.nodes, self._queues, facts.topologies, facts.usage, facts.policy)
        if before != (changed.nodes, changed.queues, changed.topologies, changed.usage, policy):
            self._facts = Facts(changed, policy)
            self._queues = changed.queues

    def follow(self, snapshot: Snapshot, policy: Policy) -> None:
        """Take up a whole snapshot; only what differs from what is known costs more than a look."""
        self.set(
            nodes=snapshot.nodes,
            queues=snapshot.queues,
            topologies=snapshot.topologies,
            usage=snapshot.usage,
            policy=policy,
        )
        known = self._facts.workloads
        for name in known.keys() - {workload.id for workload in snapshot.workloads}:
            self.remove(name)
        for workload in snapshot.workloads:
            before = known.get(workload.id)
            if before is not workload and before != workload:
                self.put(workload)

    def decide(self, now: Instant, *, explain: bool = True) -> Decision:
        """One cycle. Without `explain` nobody is told why he waits: `pending` is empty."""
        books = Books(self._facts, now)
        try:
            return decide(books, explained=explain)
        finally:
            books.forget()

    def decide_with(self, workload: Workload, now: Instant) -> Decision:
        """One cycle as if this workload, which is not known yet, were there as well; afterwards all is as it was."""
        if workload.id in self._facts.workloads:
            raise ValueError(f"the workload {workload.id!r} is known already")
        self.put(workload)
        try:
            return self.decide(now)
        finally:
            self.remove(workload.id)
