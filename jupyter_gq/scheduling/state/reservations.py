"""Reservations: places that are kept for a workload from cycle to cycle, and the workloads that may use them anyway.

Rules
-----
Owners: a reservation is made for a workload that has waited long (see `admit.reservations`). What idle notebooks have
lent is reserved as well, against workloads that could not give it back (see `idle.lending`). A workload may pass all
that is lent, or what borrowers use of it anyway, so all of it is reserved and lifted together. See
docs/decisions/0293-ask-first-whether-lent-shares-leave-room.md and
docs/decisions/0294-count-what-is-lent-and-what-borrowers-use-once.md.

Bound work: no other workload starts on reserved devices or is nominated there, except one that may pass
(`may_pass`): a higher priority of the same queue; work of another queue, if the owner would borrow anyway or if that
work stays within its guarantee (for work without a GPU, that is a quota of CPU or memory); work that is expected to end
before all devices of the place can be free; work that the owner is entitled to take back at once.

No new claims: by these exceptions a reservation keeps the order inside a queue and protects what a queue is guaranteed
against borrowers. A reservation gives no workload a claim that the workload does not have without it.

Served owners: a workload that has got a place loses its reservation.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.placement import Bundle, DeviceLedger
from jupyter_gq.scheduling.quota.accounts import Account, Accounts, add_usage
from jupyter_gq.scheduling.quota.min_runtime import MinRuntimes
from jupyter_gq.scheduling.quota.reclaim_rights import is_guaranteed, may_reclaim, stays_within_host_quotas
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.borrowers import may_borrow
from jupyter_gq.scheduling.workloads.replicas import is_surplus


class Use(IntEnum):
    """The part of all that suspended notebooks have lent that work may use."""

    NOTHING = 0
    #: What borrowers use anyway counts once, so that work which may not borrow has all the rest.
    BORROWED = 1
    ALL = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """Devices that are reserved for one workload, free or not."""

    workload: Workload
    place: tuple[TaskPlacement, ...]
    #: The workload cannot start there earlier; `now` if that is unknown.
    not_before: Instant


@dataclass(frozen=True, kw_only=True, slots=True)
class Lifted:
    """The reservations that one call of `Reservations.lift` has lifted."""

    reservations: Sequence[Reservation]
    #: What of the lent shares was in use before and during the call.
    before: Use
    during: Use

    def __bool__(self) -> bool:
        return self.before != self.during or bool(self.reservations)


class Reservations:
    """The reservations that bind other workloads in this cycle, and the places that later cycles must know."""

    def __init__(self, ledger: DeviceLedger, accounts: Accounts, min_runtimes: MinRuntimes, now: Instant) -> None:
        #: Reservations of pending workloads, by the id of their owner.
        self.by_owner: dict[str, Reservation] = {}
        #: Suspended notebooks for which the devices that they have lent are reserved, by id.
        self.lent: dict[str, Workload] = {}
        #: Ids of workloads whose reserved, nominated or new place is recorded for later cycles.
        self.recorded: set[str] = set()
        #: Ids of those for which other work was told to stop, so that no longer wait takes their place.
        self.nominated: set[str] = set()
        self._ledger = ledger
        self._accounts = accounts
        self._min_runtimes = min_runtimes
        self._now = now
        self._bundle: Bundle = ()
        #: Owners whose reservations bind no workload at this moment.
        self._lifted: set[str] = set()
        #: What workloads may use at this moment of what notebooks have lent.
        self._use = Use.NOTHING

    def __bool__(self) -> bool:
        """Whether there are reservations, lifted or not."""
        return bool(self.by_owner or self.lent)

    def owners(self) -> list[Workload]:
        """Return the workloads for which devices are reserved, suspended notebooks first."""
        return [*self.lent.values(), *(each.workload for each in self.by_owner.values())]

    def reserve(self, workload: Workload, place: tuple[TaskPlacement, ...], *, not_before: Instant) -> None:
        """Reserve these devices for a pending workload and record the place.

        The workload is expected not to start there before `not_before`.
        """
        self.by_owner[workload.id] = Reservation(workload=workload, place=place, not_before=not_before)
        self.recorded.add(workload.id)
        self._ledger.reserve_devices(workload, place)

    def reserve_lent(self, notebooks: Sequence[Workload]) -> None:
        """Reserve the devices of suspended notebooks against workloads that could not give them back.

        Call it once in a cycle, before any other reservation is made.
        """
        self.lent = {notebook.id: notebook for notebook in notebooks}
        self._bundle = self._ledger.bundle(notebooks)
        self._ledger.shift_bundle(self._bundle, future=-1, firm=-1)

    def cancel(self, owner: str) -> None:
        """Remove the reservation of the workload of that id, and do not record its place any more.

        Raises `KeyError` if the workload has no reservation.
        """
        cancelled = self.by_owner.pop(owner)
        self.recorded.discard(owner)
        self._ledger.unreserve_devices(cancelled.workload, cancelled.place)

    def forget_place(self, name: str) -> None:
        """Remove the workload of that id from those whose place is recorded, since it was nominated in vain."""
        self.recorded.discard(name)
        self.nominated.discard(name)

    # --- who may pass

    def lift(self, workload: Workload | None) -> Lifted:
        """Lift the reservations that do not bind `workload`, or every one if it is None; return what was lifted.

        Reservations that were lifted already are not returned. Give the result to `put_back`.
        """
        lifted = self._liftable(workload)
        for each in lifted.reservations:
            self._lifted.add(each.workload.id)
            self._ledger.unreserve_devices(each.workload, each.place)
        self._let_use(lifted.during)
        return lifted

    def put_back(self, lifted: Lifted, is_served: Callable[[str], bool]) -> None:
        """Undo `lift`, except for owners for whose id `is_served` is true: those lose their reservations."""
        for each in lifted.reservations:
            owner = each.workload.id
            self._lifted.discard(owner)
            if is_served(owner):
                del self.by_owner[owner]
            else:
                self._ledger.reserve_devices(each.workload, each.place)
        self._let_use(lifted.before)

    def lifted_for(self, workload: Workload | None = None) -> Hashable:
        """Return a key that is the same whenever the same reservations are lifted now.

        With a workload, the key counts what `lift(workload)` would lift as lifted.
        """
        if workload is None:
            return frozenset(self._lifted), self._use
        more = self._liftable(workload)
        return frozenset(self._lifted).union(each.workload.id for each in more.reservations), more.during

    def _liftable(self, workload: Workload | None) -> Lifted:
        found = [
            each
            for owner, each in self.by_owner.items()
            if owner not in self._lifted and (workload is None or self.may_pass(workload, each))
        ]
        wanted = Use.ALL if workload is None or may_borrow(workload) else Use.BORROWED
        during = max(self._use, wanted) if self.lent else self._use
        return Lifted(reservations=found, before=self._use, during=during)

    def _let_use(self, use: Use) -> None:
        """Lift or restore the reservation of lent shares, so that work may use no more and no less of them."""
        future = (use >= Use.BORROWED) - (self._use >= Use.BORROWED)
        firm = (use >= Use.ALL) - (self._use >= Use.ALL)
        if future or firm:
            self._ledger.shift_bundle(self._bundle, future=future, firm=firm)
        self._use = use

    def may_pass(self, workload: Workload, reservation: Reservation) -> bool:
        """Tell whether `workload` may use devices that are reserved for a pending workload: always if it is the owner.

        No surplus replica may use them. For all other work, see the rule on bound work.
        """
        owner = reservation.workload
        if workload.id == owner.id:
            return True
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
        if not may_borrow(workload) or giver is taker:
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
