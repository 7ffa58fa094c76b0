"""Make reservations for work that has waited long, so that small work cannot pass it for ever.

Rules
-----
Who gets one: a workload that has waited for `Policy.reserve_after` and would exceed no limit. In each pool there are
at most `Policy.reservations` at a time, for the longest waits. A reservation ends when its owner starts, or when no
limit allows the owner to start any more.

Soonest place: the place is where the owner can start soonest if all work ends when it is expected to. Work with an
estimate is expected to end at the estimated time. Without an estimate, or after that time, it is expected to run as
long again as it has run so far.

Same place: the place is recorded and stays the same from cycle to cycle. Another one is taken if a device of it is
lost. If the wait for the place is long (`reserve_after`), another one is also taken if the owner could start there in
less than a quarter of the time.

Bound work: no other workload starts on reserved devices or is nominated there, except those that may pass (see
`state.reservations`).

Free elsewhere: the owner may start anywhere else at any time.

See docs/decisions/0015-reserve-devices-for-long-waits.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.workload import TaskPlacement, Workload, devices_of
from jupyter_gq.scheduling.placement import View
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.policy import TEN_MINUTES
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.state.lender_index import LenderIndex
from jupyter_gq.scheduling.state.reservations import Reservations
from jupyter_gq.scheduling.workloads.seniority import by_seniority, longest_wait

from .start import try_place

#: So many workloads with a long wait are considered in each pool.
MOST_ASKED = 32
#: Another place is taken only if the wait for it is shorter by this factor.
MUCH_SOONER = 4

Place = tuple[TaskPlacement, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Outlook:
    """A place, and when all of it is expected to be free."""

    place: Place
    free_at: float


def restore_reservations(
    inputs: CycleInputs, allocations: Allocations, reservations: Reservations, evictions: Evictions
) -> None:
    """Make the reservations of earlier cycles again, if their devices still exist and their owners may still have one.

    The reservations then bind all work of this cycle, preemptors included.
    """
    planner = _Planner(inputs, allocations, evictions)
    for workload in _with_recorded_place(inputs, allocations, reservations):
        if planner.has_recorded_place(workload) and planner.may_reserve(workload, reservations):
            planner.reserve(workload, workload.reserved, reservations)


def place_elsewhere(inputs: CycleInputs, allocations: Allocations, reservations: Reservations) -> None:
    """Admit or nominate pending workloads whose recorded place could be neither nominated nor reserved again.

    The longest wait goes first. Each workload is placed wherever it fits. Owners of reservations that were made again
    are left to the job order.
    """
    for workload in _with_recorded_place(inputs, allocations, reservations):
        if try_place(allocations, workload) and workload.id in allocations.nominated:
            reservations.recorded.add(workload.id)


def make_reservations(
    inputs: CycleInputs, allocations: Allocations, reservations: Reservations, evictions: Evictions
) -> None:
    """Move reservations whose places stay occupied for longer than `reserve_after`, and make new ones for long waits.

    A reservation moves only if its owner could start elsewhere in less than a quarter of the time. Does nothing if the
    policy has no `reserve_after`.
    """
    after = inputs.policy.reserve_after
    if after is None:
        return
    cancel_obsolete(allocations, reservations)
    planner = _Planner(inputs, allocations, evictions)
    for reservation in list(reservations.by_owner.values()):
        if planner.wait_for(reservation.place) > after:
            owner = reservation.workload
            reservations.cancel(owner.id)
            planner.reserve(owner, planner.same_or_much_sooner(owner, reservation.place, after), reservations)
    for waiting in inputs.index.pending.by_wait.values():
        for workload in planner.long_waiting(waiting.members, after, reservations):
            place = planner.place_for(workload, after)
            if place is not None:
                planner.reserve(workload, place, reservations)


def cancel_obsolete(allocations: Allocations, reservations: Reservations) -> bool:
    """Cancel the reservations of pending owners that no limit allows to start after what this cycle has placed.

    Tells whether there were any. Other work may fit on their devices then.
    """
    obsolete = [
        each.workload.id
        for each in reservations.by_owner.values()
        if allocations.first_exceeded_limit(each.workload, now=False) is not None
    ]
    for owner in obsolete:
        reservations.cancel(owner)
    return bool(obsolete)


def owners_on_devices(
    lenders: LenderIndex, reservations: Reservations, workload: Workload, place: Iterable[TaskPlacement]
) -> list[Workload]:
    """Return the workloads other than `workload` for which devices of `place` are reserved.

    Suspended notebooks come first, the most senior before all others.
    """
    devices = devices_of(place)
    there = (notebook for device in devices for notebook in lenders.on_device.get(device, {}).values())
    lending = {notebook.id: notebook for notebook in there if notebook.id in reservations.lent}
    others = (each for owner, each in reservations.by_owner.items() if owner != workload.id)
    pending = [each.workload for each in others if not devices.isdisjoint(devices_of(each.place))]
    return [*by_seniority(lending.values()), *pending]


def owners_on_nodes(reservations: Reservations, place: Iterable[TaskPlacement]) -> list[Workload]:
    """Return the pending workloads with a reservation on the nodes of `place`, of devices or of host resources only.

    For suspended notebooks no host resources are reserved: they have kept theirs.
    """
    nodes = {task.node for task in place}
    return [each.workload for each in reservations.by_owner.values() if any(task.node in nodes for task in each.place)]


def free_amount(allocations: Allocations, workload: Workload, place: Iterable[TaskPlacement]) -> int:
    """Return the milli-GPU that the workload asks for on those devices of `place` on which all of it is free now.

    A device on which less is free counts 0.
    """
    asked = [(device, workload.request_of(task.group).milli_per_device) for task in place for device in task.devices]
    return sum(milli for device, milli in asked if allocations.ledger.amount(device, View.NOW) >= milli)


def users_of(
    inputs: CycleInputs, allocations: Allocations, evictions: Evictions, place: Iterable[TaskPlacement]
) -> list[Workload]:
    """Return the workloads and replicas on devices of `place` that stay or start there in this cycle, sorted by id."""
    devices = devices_of(place)
    on_node = inputs.index.holders.on_node
    there = {holder.id: holder for task in place for holder in on_node.get(task.node, {}).values()}
    staying = [holder for holder in there.values() if holder.id not in evictions.stopping]
    users = (*staying, *allocations.admitted.values())
    found = (user for user in users if not devices.isdisjoint(devices_of(user.placement)))
    return sorted(found, key=lambda user: user.id)


def _with_recorded_place(inputs: CycleInputs, allocations: Allocations, reservations: Reservations) -> list[Workload]:
    """Return the pending workloads with a place from an earlier cycle that this cycle has not recorded again.

    The longest wait comes first.
    """
    found = [
        workload
        for name, workload in inputs.index.reserved.items()
        if name in allocations.pending and name not in reservations.recorded
    ]
    return sorted(found, key=longest_wait)


class _Planner:
    """A planner that chooses places to reserve, and changes allocations on trial only."""

    def __init__(self, inputs: CycleInputs, allocations: Allocations, evictions: Evictions) -> None:
        self._inputs = inputs
        self._allocations = allocations
        self._evictions = evictions

    def may_reserve(self, workload: Workload, reservations: Reservations) -> bool:
        """Tell whether a pending workload may get a reservation.

        The workload has waited for `Policy.reserve_after`, no limit forbids its start, and its pool has fewer
        reservations than the policy allows.
        """
        allocations, policy = self._allocations, self._inputs.policy
        after, account = policy.reserve_after, allocations.account(workload)
        if after is None or self._inputs.now < workload.waits_since + after or not account.known:
            return False
        taken = sum(self._pool(each.workload) == account.queue.pool for each in reservations.by_owner.values())
        return taken < policy.reservations and allocations.first_exceeded_limit(workload, now=False) is None

    def long_waiting(
        self, waiting: Sequence[Workload], after: Seconds, reservations: Reservations
    ) -> Iterator[Workload]:
        """Yield the workloads of `waiting` that may get a reservation. `waiting` must begin with the longest wait.

        Workloads that have a place or a reservation are left out. At most `MOST_ASKED` of the others are examined.
        """
        asked = 0
        for workload in waiting:
            if asked == MOST_ASKED or self._inputs.now < workload.waits_since + after:
                return
            if workload.id in reservations.by_owner or not self._allocations.is_unplaced(workload):
                continue
            asked += 1
            if self.may_reserve(workload, reservations):
                yield workload

    def has_recorded_place(self, workload: Workload) -> bool:
        """Tell whether a place is recorded whose devices all exist in the pool of the workload."""
        return bool(workload.reserved) and self._allocations.ledger.exists(workload.reserved, self._pool(workload))

    def place_for(self, workload: Workload, after: Seconds) -> Place | None:
        """Return the place to reserve for a workload without a reservation; None if there is none.

        If all devices of its recorded place exist, that is subject to the rule on the same place (see
        `same_or_much_sooner`). Otherwise it is the soonest place.
        """
        if self.has_recorded_place(workload):
            return self.same_or_much_sooner(workload, workload.reserved, after)
        found = self.soonest(workload)
        return None if found is None else found.place

    def same_or_much_sooner(self, workload: Workload, place: Place, after: Seconds) -> Place:
        """Return `place`, or another one if the wait for it is longer than `after` and much shorter elsewhere.

        The workload must have no reservation at this moment.
        """
        wait = self.wait_for(place)
        better = self.soonest(workload) if wait > after else None
        if better is None or MUCH_SOONER * (better.free_at - self._inputs.now) >= wait:
            return place
        return better.place

    def wait_for(self, place: Place) -> float:
        """Return in how many seconds all work on the place is expected to have ended."""
        return self.free_at(place) - self._inputs.now

    def soonest(self, workload: Workload) -> _Outlook | None:
        """Return the place where the workload can start first if all work of its pool ends when expected.

        Returns None if the end of no work makes it fit. Work is released on trial, in the order of the expected ends,
        until the workload fits. The ledger is then rolled back.
        """
        ledger, pool = self._allocations.ledger, self._pool(workload)
        if not self._inputs.index.holders.lenders.leave_room_for(pool, workload):
            return None
        mark = ledger.mark()
        place = None
        for _, _, user in sorted((self._expected_end(each)[0], each.id, each) for each in self._users_in(pool)):
            ledger.release(user)
            if assemble.may_fit(ledger, pool, workload, View.FUTURE):
                place = assemble.place(ledger, pool, workload, View.FUTURE)
                if place is not None:
                    break
        ledger.rollback(mark)
        return None if place is None else _Outlook(place=place, free_at=self.free_at(place))

    def free_at(self, place: Place) -> float:
        """Return when all work on the place is expected to have ended; now if no work is there."""
        return max((self._expected_end(user)[0] for user in self._users_of(place)), default=self._inputs.now)

    def reserve(self, workload: Workload, place: Place, reservations: Reservations) -> None:
        """Reserve the place for the workload; its earliest start is the last estimated end of the work there."""
        reservations.reserve(workload, place, not_before=self._not_before(place))

    def _not_before(self, place: Place) -> Instant:
        """Return the last estimated end of work on the place; now if no work there has an estimate.

        Work without an estimate may end at any moment. Work that starts at this very moment does not count: otherwise
        the first workload to pass would let workloads pass that came before it.
        """
        now = self._inputs.now
        there = [user for user in self._users_of(place) if user.started_at is not None and user.started_at < now]
        ends = [self._expected_end(user) for user in there]
        return Instant(max((end for end, estimated in ends if estimated), default=now))

    def _expected_end(self, workload: Workload) -> tuple[float, bool]:
        """Return when the workload is expected to end, and whether that time is its estimate.

        Without an estimate, or once it has passed, the work is expected to run as long again as so far, and at least
        ten minutes.
        """
        now = self._inputs.now
        started = now if workload.started_at is None else workload.started_at
        if workload.estimate is not None and started + workload.estimate > now:
            return started + workload.estimate, True
        return now + max(TEN_MINUTES, now - started), False

    def _users_in(self, pool: str) -> Iterator[Workload]:
        """Yield the workloads and replicas that hold devices of the pool and stay, or start there in this cycle."""
        for preemptible in (True, False):
            for ranked in self._inputs.index.holders.by_leaf[preemptible].get(pool, {}).values():
                for holder in ranked:
                    if holder.id not in self._evictions.stopping:
                        yield holder
        for workload in self._allocations.admitted.values():
            if workload.request.devices and self._pool(workload) == pool:
                yield workload

    def _users_of(self, place: Place) -> list[Workload]:
        return users_of(self._inputs, self._allocations, self._evictions, place)

    def _pool(self, workload: Workload) -> str:
        return self._allocations.account(workload).queue.pool
