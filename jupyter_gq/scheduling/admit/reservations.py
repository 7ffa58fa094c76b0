"""Reservations: devices are held for who has waited long, as they free, so that small work cannot pass him for ever.

Rules
-----
1. Who has waited for `Policy.reserve_after` and is stopped by no limit gets a reservation: in each pool
   `Policy.reservations` at a time, the longest wait first. It ends when he starts, or when he may not start any more.
2. Its place is where he can start soonest if everything ends when it is expected to: as it was estimated; without an
   estimate, or after that time, when it has run as long again as it has run so far.
3. The place is written down and stays the same from cycle to cycle. Another one is taken when a device of it is lost,
   or when he could start there in less than a quarter of the time, where that time is long (`reserve_after`).
4. Nobody else starts on what is held, nor is promised room there, but for those who may pass (see `holding`).
5. The one who waits may start anywhere else at any time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.placement import View
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.policy import TEN_MINUTES
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads.seniority import longest_wait

from .held_devices import hold_for, let_go
from .start import try_start

#: So many of those who have waited long are looked at in each pool.
MOST_ASKED = 32
#: Another place is taken only if it can be had in so many times less time.
MUCH_SOONER = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class _Outlook:
    """A place, and when all of it is expected to be free."""

    place: tuple[TaskPlacement, ...]
    free_at: float


def hold_again(books: Books) -> None:
    """What has been held is held as before, also against those for whom somebody was told to stop elsewhere."""
    for workload in _with_reservation(books):
        if _may_have_one(books, workload) and books.ledger.exists(workload.reserved):
            _hold(books, workload, workload.reserved)


def keep_reservations(books: Books) -> None:
    """Start those whose devices are free by now, or will be."""
    for workload in _with_reservation(books):
        if try_start(books, workload):
            if workload.id in books.holds:
                let_go(books, workload.id)
            if workload.id in books.promised:
                books.kept.add(workload.id)


def reserve(books: Books) -> None:
    """Give reservations to who has waited longest, and better places to those who have one (rule 3)."""
    after = books.policy.reserve_after
    if after is None:
        return
    for hold in [hold for hold in books.holds.values() if hold.workload.state is State.PENDING]:
        time = _free_at(books, hold.place) - books.now
        if time > after:
            let_go(books, hold.workload.id)
            better = _soonest(books, hold.workload)
            if better is None or MUCH_SOONER * (better.free_at - books.now) >= time:
                _hold(books, hold.workload, hold.place)
            else:
                _hold(books, hold.workload, better.place)
    for pool, line in books.index.pending.by_wait.items():
        for workload in _long_waiting(books, pool, line.members, after):
            place = _place_for(books, workload)
            if place is not None:
                _hold(books, workload, place)


def holders_of(books: Books, workload: Workload, place: Iterable[TaskPlacement]) -> list[Workload]:
    """Those others for whom devices of that place are held."""
    devices = {device for task in place for device in task.devices}
    return [
        hold.workload
        for hold in books.holds.values()
        if hold.workload.id != workload.id and any(device in devices for task in hold.place for device in task.devices)
    ]


def holders_beside(books: Books, place: Iterable[TaskPlacement]) -> list[Workload]:
    """Those for whom CPU, memory or the number of tasks of its nodes is held, with devices there or without."""
    nodes = {task.node for task in place}
    return [hold.workload for hold in books.holds.values() if any(task.node in nodes for task in hold.place)]


def free_of(books: Books, workload: Workload, place: Iterable[TaskPlacement]) -> int:
    """How much of that place it could have now, in milli-GPU."""
    asked = [(device, workload.request_of(task.group).milli_per_device) for task in place for device in task.devices]
    return sum(milli for device, milli in asked if books.ledger.amount(device, View.NOW) >= milli)


def _with_reservation(books: Books) -> list[Workload]:
    """Those whose place is written down and cannot be promised yet."""
    found = [w for name, w in books.index.reserved.items() if name in books.waiting and name not in books.kept]
    return sorted(found, key=longest_wait)


def _may_have_one(books: Books, workload: Workload) -> bool:
    """Rule 1 for one that waits."""
    after, account = books.policy.reserve_after, books.account(workload)
    if after is None or books.now < workload.waits_since + after or not account.known:
        return False
    given = [hold for hold in books.holds.values() if hold.workload.state is State.PENDING]
    if sum(_pool(books, hold.workload) == account.queue.pool for hold in given) >= books.policy.reservations:
        return False
    return books.obstacle(workload, now=False) is None


def _long_waiting(books: Books, pool: str, line: Sequence[Workload], after: float) -> Iterator[Workload]:
    asked = 0
    for workload in line:
        if asked == MOST_ASKED or books.now < workload.waits_since + after:
            return
        if workload.id in books.holds or not books.is_unsettled(workload):
            continue
        asked += 1
        if _may_have_one(books, workload):
            yield workload


def _place_for(books: Books, workload: Workload) -> tuple[TaskPlacement, ...] | None:
    """The one it had when this cycle began, if it had one; else the soonest."""
    if workload.reserved and books.ledger.exists(workload.reserved):
        return workload.reserved
    found = _soonest(books, workload)
    return None if found is None else found.place


def _hold(books: Books, workload: Workload, place: tuple[TaskPlacement, ...]) -> None:
    hold_for(books, workload, place, not_before=_not_before(books, place))


def _soonest(books: Books, workload: Workload) -> _Outlook | None:
    """Rule 2: everything goes in the order in which it is expected to, until it fits."""
    ledger, pool = books.ledger, _pool(books, workload)
    mark = ledger.mark()
    place = None
    for _, _, unit in sorted((_expected_end(books, unit)[0], unit.id, unit) for unit in _running(books, pool)):
        ledger.release(unit)
        if assemble.may_fit(ledger, pool, workload, View.FUTURE):
            place = assemble.place(ledger, pool, workload, View.FUTURE)
            if place is not None:
                break
    ledger.rollback(mark)
    return None if place is None else _Outlook(place=place, free_at=_free_at(books, place))


def _running(books: Books, pool: str) -> Iterator[Workload]:
    """All who hold devices of the pool, or begin to in this cycle."""
    for preemptible in (True, False):
        for ranked in books.index.holders.by_leaf[preemptible].get(pool, {}).values():
            for unit in ranked:
                if unit.id not in books.leaving and unit.id not in books.evicted:
                    yield unit
    for unit in books.admitted.values():
        if unit.request.devices and _pool(books, unit) == pool:
            yield unit


def _expected_end(books: Books, workload: Workload) -> tuple[float, bool]:
    """When it is expected to end, and whether that was estimated."""
    started = books.now if workload.started_at is None else workload.started_at
    if workload.estimate is not None and started + workload.estimate > books.now:
        return started + workload.estimate, True
    return books.now + max(TEN_MINUTES, books.now - started), False


def those_on(books: Books, place: Iterable[TaskPlacement]) -> list[Workload]:
    """Who holds devices of that place and stays, or begins to in this cycle; by id."""
    devices = {device for task in place for device in task.devices}
    on_node = books.index.holders.on_node
    there = {unit.id: unit for task in place for unit in on_node.get(task.node, {}).values()}
    stays = [unit for unit in there.values() if unit.id not in books.leaving and unit.id not in books.evicted]
    found = [
        unit
        for unit in (*stays, *books.admitted.values())
        if any(device in devices for task in unit.placement for device in task.devices)
    ]
    return sorted(found, key=lambda unit: unit.id)


def _free_at(books: Books, place: tuple[TaskPlacement, ...]) -> float:
    return max((_expected_end(books, unit)[0] for unit in those_on(books, place)), default=books.now)


def _not_before(books: Books, place: tuple[TaskPlacement, ...]) -> Instant:
    """The last end that was estimated: what was not may end at any moment.

    Without who starts at this very moment: otherwise the first to pass would let others pass who came before him.
    """
    there = [unit for unit in those_on(books, place) if unit.started_at is not None and unit.started_at < books.now]
    ends = [_expected_end(books, unit) for unit in there]
    return Instant(max((end for end, estimated in ends if estimated), default=books.now))


def _pool(books: Books, workload: Workload) -> str:
    return books.account(workload).queue.pool
