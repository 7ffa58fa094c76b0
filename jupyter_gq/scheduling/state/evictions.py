"""Evictions of one cycle: which workloads and replicas are told to stop, for whom, and where moved ones go on.

Whatever goes was released before (see `Allocations.release`). Replicas can go while the rest of their workload stays.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.decision import Evict, Suspend, Unwarn, Warn
from jupyter_gq.scheduling.workloads.replicas import Replica

from .allocations import Allocations


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaEviction:
    """A replica that is told to stop while the rest of its workload goes on."""

    replica: Replica
    reason: EvictReason
    #: Id of the workload for which it goes; None if it goes for no other workload.
    by: str | None
    #: Makes the sentence for the owner from the replica, whose `whole` is what is left of the workload.
    sentence: Callable[[Replica], str]


class Evictions:
    """The workloads and replicas that were told to stop, before the cycle or in it."""

    def __init__(self, stopping: Mapping[str, Workload], allocations: Allocations) -> None:
        """Begin with the workloads and replicas that are `stopping` already, by id."""
        #: Workloads evicted or suspended in this cycle, by id, in the order in which that was decided.
        self.evicted: dict[str, Evict | Suspend] = {}
        #: Replicas evicted in this cycle, by id, in the order in which that was decided.
        self.replicas: dict[str, ReplicaEviction] = {}
        #: Workloads and replicas that were told to stop before this cycle or in it, by id; they still hold devices.
        self.stopping = dict(stopping)
        #: New places of workloads that stop only to go on elsewhere, by id.
        self.migrations = allocations.migrations
        #: For whom workloads were to move that go for other work instead, by the id of the mover.
        self._moved_for: dict[str, str] = {}
        #: What the owners of idle notebooks are told.
        self.warnings: list[Warn | Unwarn] = []
        self._all_replicas = allocations.replicas

    def evict(self, workload: Workload, reason: EvictReason, by: str | None, sentence: str) -> None:
        """Record that a released workload is told to stop, and forget its replicas.

        `by` is the id of the workload for which it goes, if there is one. `sentence` tells its owner why.
        """
        self.evicted[workload.id] = Evict(workload=workload.id, reason=reason, by=by, sentence=sentence)
        self.stopping[workload.id] = workload
        self._all_replicas.drop(workload)

    def migrate(self, workload: Workload, place: tuple[TaskPlacement, ...], by: str, sentence: str) -> None:
        """Record that a workload is told to stop in order to go on at `place`, which the ledger keeps for it already.

        The accounts do not change. `by` is the id of the workload for which it moves.
        """
        self.evict(workload, EvictReason.CONSOLIDATED, by, sentence)
        self.migrations[workload.id] = place

    def resettle(self, name: str, place: tuple[TaskPlacement, ...], sentence: str) -> None:
        """Record that the evicted workload of that id goes on at `place`, which the ledger keeps for it already."""
        self.evicted[name] = replace(self.evicted[name], sentence=sentence)
        self.migrations[name] = place

    def movers(self) -> list[Workload]:
        """Return the workloads that this cycle moves for others, at their new places."""
        return [
            replace(self.stopping[name], placement=place)
            for name, place in self.migrations.items()
            if isinstance(told := self.evicted.get(name), Evict) and told.reason is EvictReason.CONSOLIDATED
        ]

    def end_move(self, name: str, reason: EvictReason, by: str, sentence: str) -> None:
        """Record that the mover of that id is evicted for `by` and does not move: `by` gets its new place.

        The workload for which it was to move keeps its place.
        """
        self._moved_for[name] = self.evicted[name].by or by
        self.evicted[name] = Evict(workload=name, reason=reason, by=by, sentence=sentence)
        del self.migrations[name]

    def lost_its_move(self, name: str) -> bool:
        """Tell whether `end_move` has turned the planned move of a workload into an eviction."""
        return name in self._moved_for

    def suspend(self, notebook: Workload, by: str | None, sentence: str) -> None:
        """Record that a released notebook is suspended.

        `by` is the id of the workload that gets its devices, if any.
        """
        self.evicted[notebook.id] = Suspend(workload=notebook.id, by=by, sentence=sentence)
        self.stopping[notebook.id] = notebook

    def preemptors(self) -> set[str]:
        """Return the ids of the workloads for which others were told to stop, before the cycle or in it."""
        earlier = (each.stop for each in self.stopping.values() if each.stop is not None)
        stops = (*self.evicted.values(), *self.replicas.values(), *earlier)
        return {each.by for each in stops if each.by is not None} | set(self._moved_for.values())

    def preemptor_of(self, workload: Workload) -> str | None:
        """Return the id of the workload for which a stopping workload or replica was told to stop; None if for none."""
        told = self.evicted.get(workload.id) or self.replicas.get(workload.id) or workload.stop
        return None if told is None else told.by

    def evict_replica(self, eviction: ReplicaEviction) -> None:
        """Record that a released replica is told to stop while the rest of its workload goes on."""
        replica = eviction.replica
        self.stopping[replica.id] = replica
        self._all_replicas.stop(replica)
        self.replicas[replica.id] = eviction

    def reprieve(self, workload: Workload) -> None:
        """Remove a workload from the evicted and the stopping ones, after its release has been undone."""
        del self.evicted[workload.id], self.stopping[workload.id]
        self._moved_for.pop(workload.id, None)

    def reprieve_replica(self, replica: Replica) -> None:
        """Undo `evict_replica`: the workload holds the replica again, whose release has been undone already."""
        del self.replicas[replica.id], self.stopping[replica.id]
        self._all_replicas.keep(replica)
