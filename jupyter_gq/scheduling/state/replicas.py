"""The replicas of elastic workloads in one cycle: what each workload still holds, and what it could still get.

Rules
-----
Changes stay in the cycle: the index says which replicas there are when a cycle begins, and this module what the cycle
changes about that. Of the index only the pending queues change, which `undo` takes back.

Surplus goes first: surplus replicas go before the smallest gang, and none of them stays when the smallest gang goes.

Wanted while placed: a workload wants further replicas only as long as it has its place.
"""

from collections.abc import Iterator
from dataclasses import replace

from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.order.pending_queue import PendingQueue
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.replicas import Replica, wanted_replicas, without

from .pending_index import PendingIndex
from .replica_index import ReplicaIndex, ReplicasById


class Replicas:
    """The replicas of all elastic workloads, as the cycle has changed them so far."""

    def __init__(self, index: ReplicaIndex, pending: PendingIndex) -> None:
        self._index = index
        self._pending = pending
        #: Replicas that each workload holds, was given or is to get: only workloads that this cycle changed.
        self._held: dict[str, ReplicasById] = {}
        #: Replicas that each workload could still get: only workloads that this cycle changed.
        self._wanted: dict[str, ReplicasById] = {}
        #: Replicas that are or were nominated, by id.
        self._nominees: ReplicasById = {}
        #: What is left of workloads that lost replicas, by id.
        self._left: dict[str, Workload] = {}
        #: Replicas that admitted workloads could still get and that are in no pending queue yet.
        self._new: list[Replica] = []
        #: Replicas that this cycle added to pending queues.
        self._enqueued: list[Replica] = []

    # --- questions

    def current(self, workload: Workload) -> Workload:
        """Return the workload with the tasks that this cycle has left it so far.

        A workload that has lost no replica is returned as it is.
        """
        return self._left.get(workload.id, workload)

    def split(self, workload: Workload) -> list[Workload]:
        """Return the smallest gang of a workload and then the replicas that it holds or is to get.

        The last one goes first.
        """
        core = self._index.cores.get(workload.id, workload)
        return [core, *self._held_by(workload.id).values()]

    def surplus_of(self, workload: Workload) -> list[Replica]:
        """Return the replicas that must go before this workload can go, in the order in which they go.

        Returns an empty list for a replica.
        """
        return [] if isinstance(workload, Replica) else list(reversed(self._held_by(workload.id).values()))

    def nominee(self, name: str) -> Replica | None:
        """Return the replica of that id if it is nominated or was nominated earlier in the cycle; None otherwise."""
        return self._nominees.get(name)

    def is_wanted(self, replica: Replica) -> bool:
        """Tell whether the workload of the replica could still get it."""
        return replica.id in self._wanted_by(replica.whole.id)

    def wanted_by(self, name: str, freed: int) -> Iterator[Replica]:
        """Yield replicas that the workload of that id could still get, until `freed` milli-GPU are used up.

        The last of them may need more than is left.
        """
        for replica in list(self._wanted_by(name).values()):
            if freed <= 0:
                return
            freed -= gang.smallest(replica)
            yield replica

    def wanted_at_start(self, name: str) -> list[Replica]:
        """Return the replicas that a workload admitted in this cycle can get only now, since it cannot grow later."""
        return [replica for replica in self._wanted_by(name).values() if not replica.elastic]

    # --- changes

    def want(self, workload: Workload) -> None:
        """Replace what is recorded as wanted by the workload with the replicas that it could get beside its placement.

        If it could get none, nothing changes.
        """
        wanted = wanted_replicas(workload)
        if wanted:
            self._wanted[workload.id] = {replica.id: replica for replica in wanted}
            self._new += [replica for replica in wanted if replica.elastic]

    def join(self, replica: Replica, placement: tuple[TaskPlacement, ...], *, nominated: bool) -> None:
        """Move a wanted replica to the replicas that its workload holds, with this placement.

        Raises `KeyError` if the replica was not wanted. A nominated replica is also kept as a nominee. If an admitted
        replica completes the smallest gang, its workload can want further replicas.
        """
        name = replica.whole.id
        del self._own(self._wanted, self._index.wanted, name)[replica.id]
        self._own(self._held, self._index.surplus, name)[replica.id] = replace(replica, placement=placement)
        if nominated:
            self._nominees[replica.id] = replica
        elif replica.vital:
            whole = self.current(replica.whole)
            self.want(replace(whole, placement=(*whole.placement, *placement)))

    def leave(self, replica: Replica) -> None:
        """Undo `join`: the replica is wanted again, without a placement."""
        name = replica.whole.id
        del self._own(self._held, self._index.surplus, name)[replica.id]
        self._own(self._wanted, self._index.wanted, name)[replica.id] = replace(replica, placement=())

    def drop(self, workload: Workload) -> None:
        """Forget all replicas that an evicted workload holds or wants."""
        self._held[workload.id] = {}
        self._wanted[workload.id] = {}

    def stop(self, replica: Replica) -> None:
        """Take the replica from its workload, which goes on with the tasks that are left."""
        whole = replica.whole
        self._left[whole.id] = without(self.current(whole), replica.placement)
        del self._own(self._held, self._index.surplus, whole.id)[replica.id]

    def keep(self, replica: Replica) -> None:
        """Undo `stop`: the workload holds the replica and its tasks again."""
        whole = self.current(replica.whole)
        self._left[whole.id] = replace(whole, placement=(*whole.placement, *replica.placement))
        self._own(self._held, self._index.surplus, whole.id)[replica.id] = replica

    def replace_stopped(self, replica: Replica, place: tuple[TaskPlacement, ...]) -> Replica:
        """Give the workload of a stopped replica another one at `place`, and return that one."""
        successor = replace(replica, id=f"{replica.id}+", state=State.PENDING, placement=place)
        self._own(self._held, self._index.surplus, replica.whole.id)[successor.id] = successor
        return successor

    # --- pending queues

    def take_newly_wanted(self) -> dict[str, PendingQueue]:
        """Return the elastic replicas that have become wanted since the last call and still are, by leaf queue.

        From now on those replicas are in the pending queues of the index as well.
        """
        found: dict[str, PendingQueue] = {}
        for replica in self._new:
            if self.is_wanted(replica):
                found.setdefault(replica.queue, PendingQueue()).add(replica)
                self._pending.enqueue(replica)
                self._enqueued.append(replica)
        self._new = []
        return found

    def undo(self) -> None:
        """Remove the replicas that this cycle added to the pending queues of the index."""
        for replica in self._enqueued:
            self._pending.dequeue(replica)
        self._enqueued = []

    # --- inside

    def _held_by(self, name: str) -> ReplicasById:
        return self._held[name] if name in self._held else self._index.surplus.get(name, {})

    def _wanted_by(self, name: str) -> ReplicasById:
        return self._wanted[name] if name in self._wanted else self._index.wanted.get(name, {})

    @staticmethod
    def _own(changed: dict[str, ReplicasById], indexed: dict[str, ReplicasById], name: str) -> ReplicasById:
        """Return the replicas of a workload for changes of this cycle, copied from the index at the first call."""
        if name not in changed:
            changed[name] = dict(indexed.get(name, {}))
        return changed[name]
