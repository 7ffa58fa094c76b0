"""Allocations of one cycle: which workloads start, which are nominated for a place, and what that costs their queues.

Rules
-----
One call, all sides: each change enters the accounts, the device ledger and the lists in the same call, so that the next
question sees it.

Pending until admitted: a workload that waits is in `pending` until it is admitted. A workload whose place is being
freed is in `nominated` as well.

Trials leave no trace: when a trial fails, the ledger is rolled back and the released workloads are charged again.

A workload here is a whole workload or a replica of an elastic one (see `replicas`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.decision import Resume
from jupyter_gq.scheduling.quota.accounts import Account, BlockingLimit
from jupyter_gq.scheduling.quota.usage_accounting import UsageAccounting
from jupyter_gq.scheduling.workloads.replicas import Replica

from .cluster_index import ClusterIndex
from .replicas import Replicas
from .reservations import Reservations


class Allocations:
    """The accounts of the queues, the device ledger, and the workloads that this cycle gives a place."""

    def __init__(self, index: ClusterIndex, reservations: Reservations) -> None:
        """Compute the fair shares anew, and begin with the accounts, ledger and pending workloads of the index.

        Changes that the ledger has had before become final, so `undo` goes back to this moment.
        """
        self.accounts = index.accounts
        self.ledger = index.ledger
        #: Workloads that wait, by id.
        self.pending = index.pending.by_id
        #: Workloads and replicas that start in this cycle, by id, with the place that they hold from now on.
        self.admitted: dict[str, Workload] = {}
        #: Places that pending workloads and replicas get once others have stopped, by id.
        self.nominated: dict[str, tuple[TaskPlacement, ...]] = {}
        #: New places of workloads that stop only to go on elsewhere, by id.
        self.migrations: dict[str, tuple[TaskPlacement, ...]] = {}
        #: Suspended notebooks that get their devices back.
        self.resumed: list[Resume] = []
        #: Ids of suspended notebooks that get their devices back once others have left them.
        self.returning: set[str] = set()
        self.replicas = Replicas(index.replicas, index.pending)
        self._workloads = index.workloads
        self._usage = UsageAccounting(index.accounts)
        self._reservations = reservations
        self.accounts.divide()
        self.ledger.commit()
        self._before = self.accounts.copy()

    def undo(self) -> None:
        """Undo everything that the cycle did, so that the index is again what it was before."""
        self.ledger.rollback(0)
        self.accounts.restore(self._before)
        self.replicas.undo()
        for name, started in self.admitted.items():
            if not isinstance(started, Replica):
                self.pending[name] = self._workloads[name]

    # --- what starts, and what will

    def admit(self, workload: Workload, place: tuple[TaskPlacement, ...]) -> None:
        """Record that the workload starts at this place, which the ledger has just given it, and charge its queues.

        A whole workload leaves `pending`, and the further replicas that it could get become wanted.
        """
        started = replace(workload, placement=place, reserved=())
        self._usage.add_admitted(started)
        self.admitted[workload.id] = started
        if isinstance(workload, Replica):
            self.replicas.join(workload, place, nominated=False)
        else:
            del self.pending[workload.id]
            self.replicas.want(started)

    def retract(self, workload: Workload) -> None:
        """Undo the admission of a released workload, whose run has not begun yet.

        A whole workload is pending again and wants no further replicas; a replica is wanted again.
        """
        started = self.admitted.pop(workload.id)
        self._usage.add_held(started, -1, later=False)
        self.ledger.retract(started)
        if isinstance(started, Replica):
            self.replicas.leave(started)
        else:
            self.pending[started.id] = self._workloads[started.id]
            self.replicas.drop(started)

    def admit_successor(self, stopped: Replica, place: tuple[TaskPlacement, ...]) -> None:
        """Start another replica at `place`, which the ledger has just given it, instead of one that was stopped.

        The queues are charged for both until the stopped one is gone.
        """
        self._usage.add_held(stopped, -1, now=False)
        successor = self.replicas.replace_stopped(stopped, place)
        self._usage.add_admitted(successor)
        self.admitted[successor.id] = successor

    def nominate(self, workload: Workload, place: tuple[TaskPlacement, ...]) -> None:
        """Record the nomination for a place that the ledger already keeps for the workload, and charge its queues."""
        self._usage.add_nominated(workload, place)
        self.nominated[workload.id] = place
        if isinstance(workload, Replica):
            self.replicas.join(workload, place, nominated=True)

    def withdraw(self, workload: Workload) -> tuple[TaskPlacement, ...]:
        """Withdraw a nomination, free its place in the ledger, take its usage from the queues, and return the place."""
        place = self.nominated.pop(workload.id)
        self.ledger.withdraw(workload, place)
        self._usage.add_nominated(workload, place, -1)
        if isinstance(workload, Replica):
            self.replicas.leave(workload)
        return place

    def nominate_again(self, workload: Workload, place: tuple[TaskPlacement, ...]) -> None:
        """Nominate the workload again for the place that `withdraw` freed, and take the place in the ledger."""
        self.ledger.nominate(workload, place)
        self.nominate(workload, place)

    def drop_nomination(self, workload: Workload) -> None:
        """Forget the nomination of a workload whose place and usage were given up by `release`."""
        del self.nominated[workload.id]
        if isinstance(workload, Replica):
            self.replicas.leave(workload)

    def turn_into_migration(self, workload: Workload) -> tuple[TaskPlacement, ...]:
        """Keep the place for which evicted work was nominated as its new place, and return the place.

        The accounts count the workload as before its eviction, since it goes on.
        """
        place = self.nominated.pop(workload.id)
        self._usage.add_nominated(workload, place, -1)
        self._usage.add_held(replace(workload, placement=place), now=False)
        return place

    def nominate_at(self, workload: Workload, place: tuple[TaskPlacement, ...]) -> bool:
        """Nominate a workload or wanted replica for this very place; tell whether that was possible.

        False changes nothing.
        """
        if not self._take_place(workload, place):
            return False
        self.nominate(workload, place)
        return True

    def keep_new_place(self, workload: Workload, place: tuple[TaskPlacement, ...]) -> bool:
        """Keep the place where work that is stopping goes on, and count it in its queues; tell whether it is possible.

        False changes nothing. The accounts count the work as one that runs on (see `turn_into_migration`).
        """
        if not self._take_place(workload, place):
            return False
        self._usage.add_held(replace(workload, placement=place), now=False)
        return True

    def _take_place(self, workload: Workload, place: tuple[TaskPlacement, ...]) -> bool:
        """Take this very place, once it is free, in the ledger only; tell whether that was possible.

        False means that the place is not and will not be free, or that a queue would exceed a limit or quota.
        """
        there, account = replace(workload, placement=place), self.account(workload)
        if not account.known or self.first_exceeded_limit(there, now=False):
            return False
        return self.ledger.exists(place, account.queue.pool) and self.ledger.nominate_at(workload, place)

    # --- what goes

    def release(self, workload: Workload) -> None:
        """Count the workload as stopped in accounts and ledger. If it is nominated, free the place kept for it instead.

        The same holds for a workload that stops and comes with its new place. `undo_release` is the reverse.
        """
        self.drop_usage(workload)
        if self._is_kept_for(workload):
            self.ledger.withdraw(workload, workload.placement)
        else:
            self.ledger.release(workload)

    def undo_release(self, workload: Workload) -> bool:
        """Undo `release` and return True.

        Returns False, without any change, if the place is kept for another workload.
        """
        if not self.ledger.undo_release(workload, nominated=self._is_kept_for(workload)):
            return False
        self.restore_usage(workload)
        return True

    def _is_kept_for(self, workload: Workload) -> bool:
        """Tell whether the placement of the workload is a place that is kept for it, and not one that it holds."""
        return workload.id in self.nominated or self.migrations.get(workload.id) == workload.placement

    def restore_usage(self, workload: Workload) -> None:
        """Undo `release` in the accounts only, for a caller that has rolled the ledger back."""
        self._count(workload, 1)

    def drop_usage(self, workload: Workload) -> None:
        """Remove the usage of a workload from the accounts as `release` does, without touching the ledger."""
        self._count(workload, -1)

    def undo_search(self, workload: Workload, released: Sequence[Workload], mark: int) -> None:
        """Undo a search that nominated `workload` by releasing others; the ledger was at `mark` before the search."""
        self.withdraw(workload)
        self.ledger.rollback(mark)
        for each in released:
            self.restore_usage(each)

    def _count(self, workload: Workload, sign: int) -> None:
        """Add to the accounts the usage that `release` removes (`sign` 1), or remove that usage (-1)."""
        if workload.id in self.nominated:
            self._usage.add_nominated(workload, workload.placement, sign)
        elif workload.id in self.admitted:
            self._usage.add_admitted(workload, sign, now=False)
        else:
            self._usage.add_held(workload, sign, now=False)

    # --- reservations

    @property
    def any_reservations(self) -> bool:
        """Whether there are reservations, lifted or not."""
        return bool(self._reservations)

    @contextmanager
    def lifting_reservations(self, workload: Workload | None) -> Iterator[bool]:
        """Lift the reservations that do not bind `workload`, all of them if it is None, until the block ends.

        Yields whether any was lifted. Owners that get a place in the block lose their reservations.
        """
        lifted = self._reservations.lift(workload)
        try:
            yield bool(lifted)
        finally:
            self._reservations.put_back(lifted, self.has_place)

    # --- questions

    def account(self, workload: Workload) -> Account:
        """Return the account of the leaf queue of a workload."""
        return self.accounts.of(workload.queue)

    def first_exceeded_limit(self, workload: Workload, *, now: bool) -> BlockingLimit | None:
        """Return the first limit or quota, from the leaf up, that the workload would exceed; None if there is none.

        The workload counts with its placement or, if it has none, with its smallest gang. If `now` is false, work that
        is stopping counts as gone.
        """
        return self._usage.first_exceeded_limit(workload, now=now)

    def has_place(self, name: str) -> bool:
        """Tell whether the workload of that id has been admitted or nominated."""
        return name in self.nominated or name in self.admitted

    def is_unplaced(self, workload: Workload) -> bool:
        """Tell whether the workload is pending and not nominated."""
        return workload.id in self.pending and workload.id not in self.nominated

    def is_seeking(self, workload: Workload) -> bool:
        """Tell whether a workload still needs a place: pending and not nominated or, for a replica, still wanted."""
        return self.replicas.is_wanted(workload) if isinstance(workload, Replica) else self.is_unplaced(workload)

    def is_moot(self, workload: Workload) -> bool:
        """Tell whether this is a replica that its workload cannot get any more. Always False for a whole workload."""
        return isinstance(workload, Replica) and not self.replicas.is_wanted(workload)

    def nominee(self, name: str) -> Workload:
        """Return the workload or replica of that id, which is or was nominated in this cycle, without its place."""
        return self.replicas.nominee(name) or self._workloads[name]

    def nominee_at_place(self, name: str) -> Workload:
        """Return the workload or replica of that id, which is nominated, with its place."""
        return replace(self.nominee(name), placement=self.nominated[name])

    def placed(self) -> list[Workload]:
        """Return the workloads and replicas that this cycle admitted or nominated, with their places."""
        return [*self.admitted.values(), *map(self.nominee_at_place, self.nominated)]
