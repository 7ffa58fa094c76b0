"""Reservations: places that are kept for a workload from cycle to cycle, and the workloads that may use them anyway.

Rules
-----
Owners: a reservation is made for a workload that has waited long (see `admit.reservations`). What an idle notebook has
lent is reserved as well, against workloads that could not give it back (see `idle.lending`).

Bound work: no other workload starts on reserved devices or is nominated there, except one that may pass
(`may_pass`): a higher priority of the same queue; work of another queue, if the owner would borrow anyway or if that
work stays within its guarantee (for work without a GPU, that is a quota of CPU or memory); work that is expected to end
before all devices of the place can be free; work that the owner is entitled to take back at once.

No new claims: by these exceptions a reservation keeps the order inside a queue and protects what a queue is guaranteed
against borrowers. A reservation gives no workload a claim that the workload does not have without it.

Served owners: a workload that has got a place loses its reservation.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, TaskPlacement, Workload
from jupyter_gq.scheduling.placement import DeviceLedger
from jupyter_gq.scheduling.quota.accounts import Account, Accounts, add_usage
from jupyter_gq.scheduling.quota.min_runtime import MinRuntimes
from jupyter_gq.scheduling.quota.reclaim_rights import is_guaranteed, may_reclaim, stays_within_host_quotas
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.replicas import is_surplus


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """Devices that are reserved for one workload, free or not."""

    workload: Workload
    place: tuple[TaskPlacement, ...]
    #: The workload cannot start there earlier; `now` if that is unknown.
    not_before: Instant


def may_borrow(workload: Workload) -> bool:
    """Tell whether a workload may use what a suspended notebook has lent: preemptible training work can give it back.

    See the rule on borrowers in `idle.lending`.
    """
    return workload.preemptible and workload.kind is Kind.TRAINING


class Reservations:
    """The reservations that bind other workloads in this cycle, and the places that later cycles must know."""

    def __init__(self, ledger: DeviceLedger, accounts: Accounts, min_runtimes: MinRuntimes, now: Instant) -> None:
        #: Reservations by the id of their owner.
        self.by_owner: dict[str, Reservation] = {}
        #: Owners whose reservations bind no workload at this moment.
        self.lifted: set[str] = set()
        #: Ids of workloads whose reserved, nominated or new place is recorded for later cycles.
        self.recorded: set[str] = set()
        #: Ids of those for which other work was told to stop, so that no longer wait takes their place.
        self.nominated: set[str] = set()
        self._ledger = ledger
        self._accounts = accounts
        self._min_runtimes = min_runtimes
        self._now = now

    def reserve(self, workload: Workload, place: tuple[TaskPlacement, ...], *, not_before: Instant) -> None:
        """Reserve these devices for a pending workload and record the place.

        The workload is expected not to start there before `not_before`.
        """
        self.by_owner[workload.id] = Reservation(workload=workload, place=place, not_before=not_before)
        self.recorded.add(workload.id)
        self._ledger.reserve_devices(workload, place)

    def reserve_lent(self, notebook: Workload) -> None:
        """Reserve the devices of a suspended notebook against workloads that could not give them back."""
        place = notebook.placement
        self.by_owner[notebook.id] = Reservation(workload=notebook, place=place, not_before=self._now)
        self._ledger.reserve_devices(notebook, place)

    def cancel(self, owner: str) -> None:
        """Remove the reservation of the workload of that id, and do not record its place any more.

        Raises `KeyError` if the workload has no reservation.
        """
        cancelled = self.by_owner.pop(owner)
        self.recorded.discard(owner)
        self._ledger.unreserve_devices(cancelled.workload, cancelled.place)

    def forget_place(self, name: str) -> None:
        """Do not record the place for which the workload of that id was nominated in vain."""
        self.recorded.discard(name)
        self.nominated.discard(name)

    def of_pending(self) -> list[Reservation]:
        """Return the reservations of pending workloads: all but those of suspended notebooks."""
        return [each for each in self.by_owner.values() if each.workload.state is State.PENDING]

    # --- who may pass

    def lift(self, workload: Workload | None) -> list[Reservation]:
        """Lift the reservations that do not bind `workload`, or every one if it is None; return what was lifted.

        Reservations that were lifted already are not returned. Give the result to `put_back`.
        """
        lifted = self._liftable(workload)
        for each in lifted:
            self.lifted.add(each.workload.id)
            self._ledger.unreserve_devices(each.workload, each.place)
        return lifted

    def put_back(self, lifted: Iterable[Reservation], is_served: Callable[[str], bool]) -> None:
        """Undo `lift`, except for owners for whose id `is_served` is true: those lose their reservations."""
        for each in lifted:
            owner = each.workload.id
            self.lifted.discard(owner)
            if is_served(owner):
                del self.by_owner[owner]
            else:
                self._ledger.reserve_devices(each.workload, each.place)

    def lifted_for(self, workload: Workload) -> frozenset[str]:
        """Return the owners whose reservations are lifted now or would be lifted by `lift(workload)`."""
        return frozenset(self.lifted).union(each.workload.id for each in self._liftable(workload))

    def _liftable(self, workload: Workload | None) -> list[Reservation]:
        return [
            each
            for owner, each in self.by_owner.items()
            if owner not in self.lifted and (workload is None or self.may_pass(workload, each))
        ]

    def may_pass(self, workload: Workload, reservation: Reservation) -> bool:
        """Tell whether `workload` may use devices of the reservation: always if it is the owner.

        Preemptible training work may use what a suspended notebook has lent. No surplus replica may use the devices of
        a pending owner. For all other work, see the rule on bound work.
        """
        owner = reservation.workload
        if workload.id == owner.id:
            return True
        if owner.state is State.SUSPENDED:
            return may_borrow(workload)
        if is_surplus(workload):
            return False
        if workload.queue == owner.queue:
            if workload.priority > owner.priority:
                return True
        elif self._is_entitled(workload) or not self._is_entitled(owner):
            return True
        if workload.estimate is not None and self._now + workload.estimate <= reservation.not_before:
            return True
        return self._can_take_back(owner, workload)

    def _can_take_back(self, owner: Workload, workload: Workload) -> bool:
        """Tell whether `owner` could reclaim the devices as soon as `workload` has started on them.

        False for work of the same queue, work that a min runtime would protect, and an owner that would borrow. The
        accounts change on trial only.
        """
        giver, taker = self._account(workload), self._account(owner)
        if not workload.preemptible or workload.kind is not Kind.TRAINING or giver is taker:
            return False
        milli = gang.smallest(workload)
        if self._min_runtimes.of(giver, taker) or not self._is_entitled(owner):
            return False
        if not stays_within_host_quotas(taker, giver, gang.smallest_host(owner)):
            return False
        add_usage(giver, milli, fixed=False)
        allowed = may_reclaim(taker, giver, gang.smallest(owner), gives=milli)
        add_usage(giver, -milli, fixed=False)
        return allowed

    def _is_entitled(self, workload: Workload) -> bool:
        """Tell whether the workload stays within the guarantees of its queues; otherwise it would borrow."""
        return is_guaranteed(self._account(workload), workload)

    def _account(self, workload: Workload) -> Account:
        return self._accounts.of(workload.queue)
