"""The state of one cycle: accounts, device ledger, who holds, who waits, and what was decided so far.

Rules
-----
1. An entry changes accounts, ledger and lists in the same call, so that the next question sees it.
2. Every workload that waits is in `waiting` until it is admitted; those that were promised room are in `promised`.
3. A trial that comes to nothing leaves no trace: the ledger is rolled back, and who was released is recharged.
4. A promise whose place matters in later cycles is `kept`: its place is written down (`Reserve`) and entered before
   anything is decided. One that cannot be kept any more is struck out, and its owner waits like the others.
5. What can go or come by itself is a unit: a workload, or a part of an elastic one (see `units`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.decision import Evict, Instruction, Suspend
from jupyter_gq.scheduling.quota import min_runtime
from jupyter_gq.scheduling.quota.accounts import Account, Obstacle
from jupyter_gq.scheduling.quota.charges import Charges
from jupyter_gq.scheduling.quota.min_runtime import Shield
from jupyter_gq.scheduling.workloads.replicas import Replica
from jupyter_gq.scheduling.workloads.seniority import longest_wait

from .cluster_index import ClusterIndex
from .holder_index import EVICTABLE
from .units import GivenUp, Units


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """Devices that are held for one who has waited long (see `reservations`)."""

    workload: Workload
    place: tuple[TaskPlacement, ...]
    #: It cannot start there before; `now` where nobody knows.
    not_before: Instant


class Books:
    """Everything that a cycle knows and changes."""

    def __init__(self, index: ClusterIndex, now: Instant) -> None:
        index.set_time(now)
        self.index = index
        self.policy = index.config.policy
        self.now = now
        self.workloads = index.workloads
        self.accounts = index.accounts
        self.charges = Charges(index.accounts)
        self.ledger = index.ledger
        self.waiting = index.pending.by_id
        #: Held and told to stop, before this cycle or in it.
        self.leaving = dict(index.holders.stopping)
        #: Pending ones whose room is kept: where they will go.
        self.promised: dict[str, tuple[TaskPlacement, ...]] = {}
        #: Told to stop only to go on elsewhere: the new place.
        self.moving: dict[str, tuple[TaskPlacement, ...]] = {}
        #: Those for whom devices are held.
        self.holds: dict[str, Hold] = {}
        #: Those of them whose devices do not bind just now (see `holding`).
        self.lifted: set[str] = set()
        #: Those of `promised`, `moving` and `holds` whose place is written down.
        self.kept: set[str] = set()
        #: Started in this cycle, with what they hold from now on.
        self.admitted: dict[str, Workload] = {}
        #: Idle notebooks whose share a pending workload waits for: notebooks by waiting workload.
        self.awaited: dict[str, tuple[Workload, ...]] = {}
        #: Those who wait until others have run long enough to give way to them.
        self.shielded: dict[str, Shield] = {}
        self.evicted: dict[str, Evict | Suspend] = {}
        self.units = Units(index.replicas, index.pending)
        self.instructions: list[Instruction] = []
        #: Suspended ones that get their bytes back.
        self.resumed: list[Instruction] = []
        self.accounts.divide()
        self.ledger.settle()
        self._before = self.accounts.copy()

        self._enter_reserved()

    def forget(self) -> None:
        """Take back everything that this cycle did: the index is again what they were before it."""
        self.ledger.rollback(0)
        self.accounts.restore(self._before)
        self.units.forget()
        for name, started in self.admitted.items():
            if not isinstance(started, Replica):
                self.waiting[name] = self.workloads[name]

    def _enter_reserved(self) -> None:
        """Keep the places that are written down, where they are free or will be.

        Where one that waits longer still needs a device of it, that one is asked first (see `reservations`).
        """
        needed: set[str] = set()
        for workload in sorted(self.index.reserved.values(), key=longest_wait):
            devices = {device for task in workload.reserved for device in task.devices}
            stops = workload.id in self.leaving
            if not (stops or needed.isdisjoint(devices)) or not self._keep(workload, stops=stops):
                needed |= devices

    def _keep(self, workload: Workload, *, stops: bool) -> bool:
        """Keep its place, if it still waits for it or comes back to it; False changes nothing."""
        comes_back = stops and workload.stop is not None and workload.stop.requeue
        if not (comes_back or workload.id in self.waiting) or not self.account(workload).known:
            return False
        there = replace(workload, placement=workload.reserved)
        if self.obstacle(there, now=False) or not self.ledger.keep_at(workload, workload.reserved):
            return False
        self.charges.promise(there)
        self.kept.add(workload.id)
        (self.moving if stops else self.promised)[workload.id] = workload.reserved
        return True

    # --- who starts, and who will

    def start(self, unit: Workload, place: tuple[TaskPlacement, ...]) -> None:
        """It starts at this place, which the ledger has just given it."""
        started = replace(unit, placement=place, reserved=())
        self.charges.hold(started)
        self.admitted[unit.id] = started
        if isinstance(unit, Replica):
            self.units.join(unit, place, promised=False)
        else:
            del self.waiting[unit.id]
            self.units.want(started)

    def retract(self, unit: Workload) -> None:
        """Do not start, after all, a released unit that this cycle had admitted: nobody is disturbed by that."""
        started = self.admitted.pop(unit.id)
        self.charges.hold(started, -1, later=False)
        self.ledger.give_up(started)
        if isinstance(started, Replica):
            self.units.part(started)
        else:
            self.waiting[started.id] = self.workloads[started.id]
            self.units.drop(started)

    def promise(self, unit: Workload, place: tuple[TaskPlacement, ...]) -> None:
        """It will start at this place, which the ledger keeps for it by now."""
        self.charges.promise(replace(unit, placement=place))
        self.promised[unit.id] = place
        if isinstance(unit, Replica):
            self.units.join(unit, place, promised=True)

    def withdraw(self, unit: Workload) -> tuple[TaskPlacement, ...]:
        """Take a promise back; return where it was."""
        place = self.promised.pop(unit.id)
        self.ledger.withdraw(unit, place)
        self.charges.promise(replace(unit, placement=place), -1)
        if isinstance(unit, Replica):
            self.units.part(unit)
        return place

    def promise_at(self, unit: Workload, place: tuple[TaskPlacement, ...]) -> None:
        """Give a withdrawn promise again."""
        self.ledger.promise(unit, place)
        self.promise(unit, place)

    def break_promise(self, unit: Workload) -> None:
        """Strike out what this cycle had promised to a unit that is released by now."""
        del self.promised[unit.id]
        if isinstance(unit, Replica):
            self.units.part(unit)

    # --- who goes

    def release(self, unit: Workload) -> None:
        """On trial: count as if it had been told to stop, or had not been promised its place."""
        self._count(unit, -1)
        if unit.id in self.promised:
            self.ledger.withdraw(unit, unit.placement)
        else:
            self.ledger.release(unit)

    def unrelease(self, unit: Workload) -> bool:
        """Let it stay after all, if its room has not been promised to another; False changes nothing."""
        if not self.ledger.take_again(unit, promised=unit.id in self.promised):
            return False
        self.recharge(unit)
        return True

    def recharge(self, unit: Workload) -> None:
        """The accounts' half of taking `release` back; the ledger's is `rollback`."""
        self._count(unit, 1)

    def _count(self, unit: Workload, sign: int) -> None:
        if unit.id in self.promised:
            self.charges.promise(unit, sign)
        else:
            self.charges.hold(unit, sign, now=False)

    def undo_room(self, unit: Workload, released: Sequence[Workload], mark: int) -> None:
        """Forget a search that found room for `unit`: the ledger was at `mark` before it."""
        self.withdraw(unit)
        self.ledger.rollback(mark)
        for each in released:
            self.recharge(each)

    def leave(self, workload: Workload, instruction: Evict | Suspend) -> None:
        """It is told to go, with this instruction."""
        self.evicted[workload.id] = instruction
        self.leaving[workload.id] = workload
        self.instructions.append(instruction)

    def give_up(self, given_up: GivenUp) -> None:
        """A released part is told to go."""
        self.leaving[given_up.part.id] = given_up.part
        self.units.give_up(given_up)

    # --- questions

    def account(self, unit: Workload) -> Account:
        """The account of its leaf."""
        return self.accounts.of(unit.queue)

    def obstacle(self, unit: Workload, *, now: bool) -> Obstacle | None:
        """The first promise of its queues that forbids to start it, now or once all that stops has.

        With its placement, or without one its smallest gang.
        """
        return self.charges.obstacle(unit, now=now)

    def is_unsettled(self, workload: Workload) -> bool:
        """It waits without a promise."""
        name = workload.id
        return name in self.waiting and name not in self.promised and name not in self.awaited

    def is_seeking(self, unit: Workload) -> bool:
        """It waits without a promise, or elastic work could still have it."""
        return self.units.is_wanted(unit) if isinstance(unit, Replica) else self.is_unsettled(unit)

    def is_moot(self, unit: Workload) -> bool:
        """It would be a part of something that has lost its place meanwhile."""
        return isinstance(unit, Replica) and not self.units.is_wanted(unit)

    def unit(self, name: str) -> Workload:
        """The unit of that id that was promised a place."""
        return self.units.promised(name) or self.workloads[name]

    def staying(self) -> list[Workload]:
        """Those who hold devices, can be told to stop and have not been; without those that this cycle admitted.

        It looks at every workload: only for what is rare.
        """
        there = [w for w in self.workloads.values() if w.state in EVICTABLE and w.id not in self.evicted]
        return [self.units.now(workload) for workload in there if self.index.is_observed(workload)]

    def notebooks(self) -> list[Workload]:
        """The notebooks among those who stay."""
        return [notebook for notebook in self.index.holders.notebooks.values() if notebook.id not in self.evicted]

    def may_still_run(self, victim: Workload, taker: Workload) -> Seconds:
        """For how long `victim` does not give way to `taker` yet; 0 = it may have to go (see `min_runtime`)."""
        least = self.index.min_runtimes.of(self.account(victim), self.account(taker))
        return min_runtime.left(victim, least, self.now)

    def pools_of(self, unit: Workload) -> frozenset[str]:
        """The pools of the devices that it holds."""
        return self.index.pools_of(unit)
