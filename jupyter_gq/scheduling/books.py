"""The state of one cycle: accounts, device ledger, who holds, who waits, and what was decided so far.

Rules
-----
1. A decision changes accounts and ledger in the same call, so that the next question sees it.
2. Every workload that waits is in `waiting` until it is admitted; those that were promised room are in `promised`.
3. A trial ends with `commit` or leaves no trace.
4. A promise whose place matters in later cycles is `kept`: its place is written down (`Reserve`) and entered before
   anything is decided. One that cannot be kept any more is struck out, and its owner waits like the others.
5. What can go or come by itself is a unit: a workload, or a part of an elastic one (see `units`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from jupyter_gq.domain.amount import Instant, MilliGpu, Seconds
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import TaskPlacement, Workload

from . import assemble, gang, min_runtime
from .decision import Admit, Evict, Grow, Instruction, Reserve, Suspend
from .facts import EVICTABLE, Facts
from .gang import NO_REST, Rest
from .ordering import Test, Turn, always
from .parts import Part, is_growth, whole_of
from .placement import View
from .quota import Account, Obstacle, charge, obstacle, pledge
from .reservations import longest_wait, may_pass
from .units import GivenUp, Units

#: Makes the sentence for a victim's owner, from the victim and the one for whom it goes.
Sentence = Callable[[Workload, Workload], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Shield:
    """Those who would give way to somebody who waits, once they have run long enough."""

    victims: tuple[Workload, ...]
    #: Until the last of them may go.
    left: Seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """Devices that are held for one who has waited long (see `reservations`)."""

    workload: Workload
    place: tuple[TaskPlacement, ...]
    #: It cannot start there before; `now` where nobody knows.
    not_before: Instant


class Books:
    """Everything that a cycle knows and changes."""

    def __init__(self, facts: Facts, now: Instant) -> None:
        self.facts = facts
        self.policy = facts.policy
        self.now = now
        self.workloads = facts.workloads
        self.accounts = facts.accounts
        self.ledger = facts.ledger
        self.waiting = facts.waiting
        #: Held and told to stop, before this cycle or in it.
        self.leaving = dict(facts.leaving)
        #: Pending ones whose room is kept: where they will go.
        self.promised: dict[str, tuple[TaskPlacement, ...]] = {}
        #: Told to stop only to go on elsewhere: the new place.
        self.moving: dict[str, tuple[TaskPlacement, ...]] = {}
        #: Those for whom devices are held.
        self.holds: dict[str, Hold] = {}
        self._lifted: set[str] = set()
        #: Those of `promised`, `moving` and `holds` whose place is written down.
        self.kept: set[str] = set()
        #: Started in this cycle, with what they hold from now on.
        self.admitted: dict[str, Workload] = {}
        #: Idle notebooks whose share a pending workload waits for: notebooks by waiting workload.
        self.awaited: dict[str, tuple[Workload, ...]] = {}
        #: Those who wait until others have run long enough to give way to them.
        self.shielded: dict[str, Shield] = {}
        self.evicted: dict[str, Evict | Suspend] = {}
        self.units = Units(facts)
        self.instructions: list[Instruction] = []
        #: Suspended ones that get their bytes back.
        self.resumed: list[Instruction] = []
        self.accounts.divide()
        self.ledger.settle()
        self._before = self.accounts.copy()

        self._enter_reserved()

    def forget(self) -> None:
        """Take back everything that this cycle did: the facts are again what they were before it."""
        self.ledger.rollback(0)
        self.accounts.restore(self._before)
        self.units.forget()
        for name, started in self.admitted.items():
            if not isinstance(started, Part):
                self.waiting[name] = self.workloads[name]

    def _enter_reserved(self) -> None:
        """Keep the places that are written down, where they are free or will be.

        Where one that waits longer still needs a device of it, that one is asked first (see `reservations`).
        """
        needed: set[str] = set()
        for workload in sorted(self.facts.reserved.values(), key=longest_wait):
            devices = {device for task in workload.reserved for device in task.devices}
            stops = workload.id in self.leaving
            if not (stops or needed.isdisjoint(devices)) or not self._keep(workload, stops=stops):
                needed |= devices

    def _keep(self, workload: Workload, *, stops: bool) -> bool:
        """Keep its place, if it still waits for it or comes back to it; False changes nothing."""
        account, milli, fixed = self.account(workload), gang.smallest(workload), not workload.preemptible
        comes_back = stops and workload.stop is not None and workload.stop.requeue
        if not (comes_back or workload.id in self.waiting) or not account.known:
            return False
        if self.obstacle(workload, now=False) or not self.ledger.keep_at(workload, workload.reserved):
            return False
        pledge(account, milli, fixed=fixed, rest=self._smallest_rest(workload))
        self.kept.add(workload.id)
        (self.moving if stops else self.promised)[workload.id] = workload.reserved
        return True

    # --- admitting

    def account(self, workload: Workload) -> Account:
        """The account of its leaf."""
        return self.accounts.of(workload.queue)

    def try_admit(self, workload: Workload) -> bool:
        """Start it now, with its smallest gang, if that fits now; on held devices only if it must and may."""
        if self._try_admit(workload):
            return True
        if not self.holds:
            return False
        with self.passing(workload) as some:
            return some and self._try_admit(workload)

    def _try_admit(self, workload: Workload) -> bool:
        account = self.account(workload)
        milli = gang.smallest(workload)
        if not account.known or self.obstacle(workload, now=True):
            return False
        if not workload.elastic and _above_share(workload, account):
            return False
        placed = assemble.place(self.ledger, account.queue.pool, workload, View.NOW)
        if placed is None:
            return False
        self._start(workload, placed, milli)
        return True

    def retract(self, workload: Workload) -> None:
        """Do not start, after all, a released unit that this cycle had admitted: nobody is disturbed by that."""
        started = self.admitted.pop(workload.id)
        rest = self._held_rest(started, -1)
        charge(self.account(started), -gang.held(started), fixed=not started.preemptible, later=False, rest=rest)
        self.ledger.give_up(started)
        if isinstance(started, Part):
            self.units.part(started)
        else:
            self.waiting[started.id] = self.workloads[started.id]
            self.units.drop(started)

    def decided(self) -> tuple[Instruction, ...]:
        """Everything to be done: first what starts, in the order of admission, then the rest in the order decided."""
        over = {account.queue.name: account.over_quota - account.pledged for account in self.accounts}
        together: dict[str, list[Workload]] = {}
        for unit in self.admitted.values():
            together.setdefault(whole_of(unit).id, []).append(unit)
        starts: list[Instruction] = []
        for name, units in reversed(together.items()):
            queue = units[0].queue
            milli = sum(gang.held(unit) for unit in units)
            part = max(0, min(milli, over[queue])) if units[0].preemptible else 0
            over[queue] -= part
            placement = tuple(task for unit in units for task in unit.placement)
            if name in self.admitted:
                starts.append(Admit(workload=name, placement=placement, over_quota=MilliGpu(part)))
            else:
                starts.append(Grow(workload=name, placement=placement))
        shrinks = [shrink for shrink in self.units.shrinks() if shrink.workload not in self.evicted]
        return (*self.resumed, *reversed(starts), *self.instructions, *shrinks, *self._reservations())

    def _reservations(self) -> list[Reserve]:
        """What is to be written down of the places that are kept; who starts needs none any more."""
        stored = self.facts.reserved.keys()
        found = []
        for name in sorted((stored | self.kept) - self.admitted.keys()):
            place = self._kept_place(name) if name in self.kept else ()
            if place != self.workloads[name].reserved:
                found.append(Reserve(workload=name, placement=place))
        return found

    def _kept_place(self, name: str) -> tuple[TaskPlacement, ...]:
        hold = self.holds.get(name)
        return self.promised.get(name) or self.moving.get(name) or (hold.place if hold else ())

    # --- promising

    def try_start(self, workload: Workload) -> bool:
        """Start it now, or keep room for it that is being freed."""
        return self.try_admit(workload) or self.try_promise(workload)

    def start_kept(self, workload: Workload) -> bool:
        """Start it where room is kept for it, or wherever else it fits now; otherwise that room stays kept."""
        place = self.withdraw(workload)
        if self._try_admit_at(workload, place) or self.try_admit(workload):
            self.kept.discard(workload.id)
            return True
        self.promise_at(workload, place)
        return False

    def _try_admit_at(self, workload: Workload, place: tuple[TaskPlacement, ...]) -> bool:
        if self.obstacle(workload, now=True) or not self.ledger.take_at(workload, place):
            return False
        self._start(workload, place, gang.smallest(workload))
        return True

    def _start(self, workload: Workload, placed: tuple[TaskPlacement, ...], milli: int) -> None:
        rest = self._smallest_rest(workload)
        charge(self.account(workload), milli, fixed=not workload.preemptible, rest=rest)
        started = replace(workload, placement=placed, reserved=())
        self.admitted[workload.id] = started
        if isinstance(workload, Part):
            self.units.join(workload, placed, promised=False)
        else:
            del self.waiting[workload.id]
            self.units.want(started)

    def try_promise(self, workload: Workload) -> bool:
        """Keep room for it that is being freed, if there is enough; on held devices only if it must and may."""
        if self._try_promise(workload):
            return True
        if not self.holds:
            return False
        with self.passing(workload) as some:
            return some and self._try_promise(workload)

    def _try_promise(self, workload: Workload) -> bool:
        account = self.account(workload)
        milli = gang.smallest(workload)
        fixed = not workload.preemptible
        if not account.known or self.obstacle(workload, now=False) or _above_share(workload, account):
            return False
        placed = assemble.place(self.ledger, account.queue.pool, workload, View.FUTURE)
        if placed is None:
            return False
        pledge(account, milli, fixed=fixed, rest=self._smallest_rest(workload))
        self._keep_for(workload, placed)
        return True

    def _keep_for(self, workload: Workload, place: tuple[TaskPlacement, ...]) -> None:
        self.promised[workload.id] = place
        if isinstance(workload, Part):
            self.units.join(workload, place, promised=True)

    def withdraw(self, workload: Workload) -> tuple[TaskPlacement, ...]:
        """Take a promise back; return where it was."""
        place = self.promised.pop(workload.id)
        self.ledger.withdraw(workload, place)
        rest = self._smallest_rest(workload, -1)
        pledge(self.account(workload), -gang.smallest(workload), fixed=not workload.preemptible, rest=rest)
        if isinstance(workload, Part):
            self.units.part(workload)
        return place

    def promise_at(self, workload: Workload, place: tuple[TaskPlacement, ...]) -> None:
        """Give a withdrawn promise again."""
        self.ledger.promise(workload, place)
        rest = self._smallest_rest(workload)
        pledge(self.account(workload), gang.smallest(workload), fixed=not workload.preemptible, rest=rest)
        self._keep_for(workload, place)

    # --- holding

    def hold(self, workload: Workload, place: tuple[TaskPlacement, ...], *, not_before: Instant) -> None:
        """Hold these devices from now on; the place is written down."""
        self.holds[workload.id] = Hold(workload=workload, place=place, not_before=not_before)
        self.kept.add(workload.id)
        self.ledger.hold_back(workload, place)

    def lend(self, suspended: Workload) -> None:
        """Only who can give it back starts on the share of a suspended notebook."""
        self.holds[suspended.id] = Hold(workload=suspended, place=suspended.placement, not_before=self.now)
        self.ledger.hold_back(suspended, suspended.placement)

    def let_go(self, name: str) -> None:
        """Hold nothing for it any more."""
        hold = self.holds.pop(name)
        self.kept.discard(name)
        self.ledger.let_go(hold.workload, hold.place)

    def lifted(self) -> frozenset[str]:
        """Those whose held devices do not bind just now."""
        return frozenset(self._lifted)

    def lifted_for(self, workload: Workload) -> frozenset[str]:
        """Those whose held devices do not bind just now, or would not in `passing` with that workload."""
        return frozenset(self._lifted).union(hold.workload.id for hold in self._passed(workload))

    def _passed(self, workload: Workload | None) -> list[Hold]:
        return [
            hold
            for name, hold in self.holds.items()
            if name not in self._lifted and (workload is None or may_pass(self, workload, hold))
        ]

    @contextmanager
    def passing(self, workload: Workload | None) -> Iterator[bool]:
        """Meanwhile what is held does not bind those for whom it is held, nor who may pass (None: nobody at all).

        Says whether anything is different. Who has got a place of his own needs nothing held any more.
        """
        passed = self._passed(workload)
        for hold in passed:
            self._lifted.add(hold.workload.id)
            self.ledger.let_go(hold.workload, hold.place)
        try:
            yield bool(passed)
        finally:
            for hold in passed:
                name = hold.workload.id
                self._lifted.discard(name)
                if name in self.promised or name in self.admitted:
                    del self.holds[name]
                else:
                    self.ledger.hold_back(hold.workload, hold.place)

    # --- taking back

    def release(self, workload: Workload) -> None:
        """On trial: count as if it had been told to stop, or had not been promised its place."""
        self._count(workload, -1)
        if workload.id in self.promised:
            self.ledger.withdraw(workload, workload.placement)
        else:
            self.ledger.release(workload)

    def unrelease(self, workload: Workload) -> bool:
        """Let it stay after all, if its room has not been promised to another; False changes nothing."""
        if not self.ledger.take_again(workload, promised=workload.id in self.promised):
            return False
        self.recharge(workload)
        return True

    def recharge(self, workload: Workload) -> None:
        """The accounts' half of taking `release` back; the ledger's is `rollback`."""
        self._count(workload, 1)

    def _count(self, workload: Workload, sign: int) -> None:
        account, fixed = self.account(workload), not workload.preemptible
        milli, rest = sign * gang.held(workload), self._held_rest(workload, sign)
        if workload.id in self.promised:
            pledge(account, milli, fixed=fixed, rest=rest)
        else:
            charge(account, milli, fixed=fixed, now=False, rest=rest)

    def _smallest_rest(self, workload: Workload, sign: int = 1) -> Rest:
        return _times(gang.smallest_rest(workload), sign) if self.accounts.counts_rest else NO_REST

    def _held_rest(self, workload: Workload, sign: int) -> Rest:
        return _times(gang.held_rest(workload), sign) if self.accounts.counts_rest else NO_REST

    def undo_room(self, workload: Workload, released: Sequence[Workload], mark: int) -> None:
        """Forget a search that found room for `workload`: the ledger was at `mark` before it."""
        self.withdraw(workload)
        self.ledger.rollback(mark)
        for each in released:
            self.recharge(each)

    def make_room_within_share(
        self, workload: Workload, search: Callable[[], list[Workload] | None]
    ) -> list[Workload] | None:
        """Search, but take nothing if that leaves a queue above its fair share in a way that cannot last.

        Others would take it back, and what gave way would start again in its place, for ever. Above its fair share a
        queue may only exchange: not use more than before, nor put one larger workload in place of small ones. That is
        asked of the leaf and of those that are above all victims, too; for the others the rules of reclaim have it.
        """
        chain = self.account(workload).chain
        before = [each.lasting for each in chain]
        mark = self.ledger.mark()
        released = search()
        if released is None:
            return None
        larger = gang.smallest(workload) > max((gang.held(victim) for victim in released), default=0)
        above = [set(self.account(victim).chain) for victim in released]
        for each, most in zip(chain, before, strict=True):
            if each is not chain[0] and not all(each in accounts for accounts in above):
                continue
            if each.lasting > each.fair_share and (larger or each.lasting > most):
                self.undo_room(workload, released, mark)
                return None
        return released

    def spare_needless(self) -> None:
        """Let stay whose room turned out not to be needed, when the one it was for got another or none."""
        for instruction in reversed(self.instructions):
            victim = self.leaving.get(instruction.workload)
            if victim is not None and victim.id in self.moving:
                self._stay(victim)
            elif victim is not None and _may_be_spared(instruction) and self._takes_back(victim):
                self._let_stay(victim)
        self.instructions = [i for i in self.instructions if i.workload in self.evicted]
        for given_up in reversed(list(self.units.given_up.values())):
            part = given_up.part
            moved = given_up.reason is EvictReason.CONSOLIDATED
            if not moved and part.whole.id not in self.evicted and self._takes_back(part):
                del self.leaving[part.id]
                self.units.keep(part)

    def _takes_back(self, victim: Workload) -> bool:
        """It can stay, and no limit is broken by that; False changes nothing."""
        if not self.unrelease(victim):
            return False
        chain = self.account(victim).chain
        if any(each.queue.limit is not None and each.lasting > each.queue.limit for each in chain):
            self.release(victim)
            return False
        return True

    def move(self, workload: Workload, place: tuple[TaskPlacement, ...], by: Workload, sentence: str) -> None:
        """Write down that it stops, to go on at `place`, which the ledger keeps for it. Its queue uses what it did."""
        self.evict(workload, EvictReason.CONSOLIDATED, by.id, sentence)
        self.moving[workload.id] = place
        self.kept |= {workload.id, by.id}

    def move_part(self, part: Part, place: tuple[TaskPlacement, ...], by: Workload, sentence: str) -> None:
        """Write down that it stops here and starts there, where the ledger holds the devices for it already."""
        rest = self._held_rest(part, 1)  # twice now, once when it has stopped here
        charge(self.account(part), gang.held(part), fixed=not part.preemptible, later=False, rest=rest)
        self.give_up(GivenUp(part=part, reason=EvictReason.CONSOLIDATED, by=by.id, sentence=lambda _: sentence))
        moved = self.units.moved(part, place)
        self.admitted[moved.id] = moved
        self.kept.add(by.id)

    def _stay(self, workload: Workload) -> None:
        """Do not move it after all, if nobody has been promised its old place."""
        self.ledger.withdraw(workload, self.moving[workload.id])
        if not self.ledger.take_again(workload, promised=False):
            self.ledger.promise(workload, self.moving[workload.id])
            return
        del self.moving[workload.id]
        self.kept.discard(workload.id)
        self._let_stay(workload)

    def _let_stay(self, workload: Workload) -> None:
        del self.evicted[workload.id], self.leaving[workload.id]
        if workload.elastic:
            self.units.want(self.units.now(self.workloads[workload.id]))

    def take_from(self, victims: Sequence[Workload], by: Workload, reason: EvictReason, sentence: Sentence) -> bool:
        """Carry out what a search found: evict, or undo what this cycle did. True when something was undone.

        `by` has been promised its place; when nobody has to stop for it, it may start at once.
        """
        undone = stops = False
        for victim in victims:
            if victim.id in self.admitted:
                self.retract(victim)
                undone = True
            elif victim.id in self.promised:
                self._break_promise(victim)
                undone = True
            else:
                self._tell_to_go(victim, by, reason, sentence)
                stops = True
        if undone and not stops:
            place = self.withdraw(by)
            if not self.try_admit(by):
                self.promise_at(by, place)
        return undone

    def _break_promise(self, victim: Workload) -> None:
        """Of a released unit that this cycle had promised its place."""
        del self.promised[victim.id]
        if isinstance(victim, Part):
            self.units.part(victim)

    def _tell_to_go(self, victim: Workload, by: Workload, reason: EvictReason, sentence: Sentence) -> None:
        name = whole_of(by).id
        if isinstance(victim, Part):
            self.give_up(GivenUp(part=victim, reason=reason, by=name, sentence=lambda part: sentence(part, by)))
        else:
            self.evict(victim, reason, name, sentence(victim, by))

    def give_up(self, given_up: GivenUp) -> None:
        """Write down that a released part really goes."""
        self.leaving[given_up.part.id] = given_up.part
        self.units.give_up(given_up)

    def evict(self, workload: Workload, reason: EvictReason, by: str | None, sentence: str) -> None:
        """Write down that a released workload really goes."""
        instruction = Evict(workload=workload.id, reason=reason, by=by, sentence=sentence)
        self._leave(workload, instruction)
        self.units.drop(workload)

    def evict_whole(self, workload: Workload, reason: EvictReason, by: str | None, sentence: str) -> None:
        """Take everything back that it holds or was to get, and write it down."""
        core, *parts = self.units.of(workload)
        for part in reversed(parts):
            self.release(part)
            if part.id in self.admitted:
                self.retract(part)
            elif part.id in self.promised:
                self._break_promise(part)
            elif isinstance(part, Part):
                self.give_up(GivenUp(part=part, reason=reason, by=by, sentence=lambda _: sentence))
        self.release(core)
        self.evict(core, reason, by, sentence)

    def suspend(self, workload: Workload, by: str | None, sentence: str) -> None:
        """As `evict`, without loss. It keeps its quota."""
        self.recharge(workload)
        self._leave(workload, Suspend(workload=workload.id, by=by, sentence=sentence))

    def _leave(self, workload: Workload, instruction: Evict | Suspend) -> None:
        self.evicted[workload.id] = instruction
        self.leaving[workload.id] = workload
        self.instructions.append(instruction)

    # --- questions

    def turn(self, promising: Test = always, *, growth: bool = False, by_pool: bool = False) -> Turn:
        """Those who wait without a promise, each in his turn, without the classes that are not promising now.

        `growth`: also what elastic work could still have. `by_pool`: see `Turn`.
        """
        if growth:
            self.units.fresh_lines()
        takes_part = self.is_seeking if growth else self.is_unsettled
        with self.passing(None) if self.holds else nullcontext():  # once for all that are asked whether they may fit
            return Turn(self.accounts, self.facts.lines, takes_part, promising, self.shares(), by_pool=by_pool)

    def shares(self) -> dict[str, dict[str, int]] | None:
        """What each user has of each leaf queue, with what this cycle decided; None if that does not matter."""
        if not self.policy.per_user:
            return None
        found = {queue: dict(shares) for queue, shares in self.facts.shares.items()}
        gone = [self.workloads[name] for name in self.evicted if self.workloads[name].queue in found]
        changes = [(workload, -gang.held(workload)) for workload in gone]
        changes += [(workload, gang.held(workload)) for workload in self.admitted.values()]
        changes += [(self.unit(name), gang.smallest(self.unit(name))) for name in self.promised]
        for workload, milli in changes:
            shares = found.setdefault(workload.queue, {})
            shares[workload.owner] = shares.get(workload.owner, 0) + milli
        return found

    def may_fit_now(self, workload: Workload) -> bool:
        """A cheap bound: False is certain."""
        return self._may_fit(workload, View.NOW)

    def may_fit_soon(self, workload: Workload) -> bool:
        """A cheap bound, with what is being freed: False is certain."""
        return self._may_fit(workload, View.FUTURE)

    def _may_fit(self, workload: Workload, view: View) -> bool:
        pool = self.account(workload).queue.pool
        if not self.holds:
            return assemble.may_fit(self.ledger, pool, workload, view)
        with self.passing(None):  # whether it may pass is asked when it is its turn
            return assemble.may_fit(self.ledger, pool, workload, view)

    def rounds(self) -> range:
        """More often than that nobody new can be served."""
        return range(len(self.waiting) + len(self.facts.wanted) + 1)

    def is_seeking(self, workload: Workload) -> bool:
        """It waits without a promise, or elastic work could still have it."""
        return self.units.is_wanted(workload) if isinstance(workload, Part) else self.is_unsettled(workload)

    def is_moot(self, workload: Workload) -> bool:
        """It would be a part of something that has lost its place meanwhile."""
        return isinstance(workload, Part) and not self.units.is_wanted(workload)

    def wanted_at_start(self) -> list[Part]:
        """What those could still have that were admitted in this cycle and cannot change once they run."""
        return [part for name in self.admitted for part in self.units.wanted_at_start(name)]

    def unit(self, name: str) -> Workload:
        """The unit of that id that was promised a place."""
        return self.units.promised(name) or self.workloads[name]

    def is_unsettled(self, workload: Workload) -> bool:
        """It waits without a promise."""
        name = workload.id
        return name in self.waiting and name not in self.promised and name not in self.awaited

    def staying(self) -> list[Workload]:
        """Those who hold devices, can be told to stop and have not been; without those that this cycle admitted.

        It looks at every workload: only for what is rare.
        """
        there = [w for w in self.workloads.values() if w.state in EVICTABLE and w.id not in self.evicted]
        return [self.units.now(workload) for workload in there]

    def notebooks(self) -> list[Workload]:
        """The notebooks among those who stay."""
        return [notebook for notebook in self.facts.notebooks.values() if notebook.id not in self.evicted]

    def obstacle(self, workload: Workload, *, now: bool) -> Obstacle | None:
        """The first promise of its queues that forbids to start its smallest gang, now or once all that stops has."""
        fixed, rest = not workload.preemptible, self._smallest_rest(workload)
        return obstacle(self.account(workload), gang.smallest(workload), fixed=fixed, now=now, rest=rest)

    def may_still_run(self, victim: Workload, taker: Workload) -> Seconds:
        """For how long `victim` does not give way to `taker` yet; 0 = it may have to go (see `min_runtime`)."""
        least = self.facts.min_runtimes.of(self.account(victim), self.account(taker))
        return min_runtime.left(victim, least, self.now)

    def past_min_runtime(self, victim: Workload, taker: Workload) -> bool:
        """`victim` has run long enough to give way to `taker`."""
        return not self.may_still_run(victim, taker)

    def pools_of(self, workload: Workload) -> frozenset[str]:
        """The pools of the devices that it holds."""
        return self.facts.pools_of(workload)

    def leaving_by_device(self) -> dict[str, list[Workload]]:
        """Those told to stop, by the devices that they still hold."""
        found: dict[str, list[Workload]] = {}
        for workload in self.leaving.values():
            for device in {device for task in workload.placement for device in task.devices}:
                found.setdefault(device, []).append(workload)
        return found


def _may_be_spared(instruction: Instruction) -> bool:
    """It only makes room for another, or for a limit."""
    return isinstance(instruction, Evict) and instruction.reason is not EvictReason.STALE_GANG


def _above_share(workload: Workload, account: Account) -> bool:
    """It is more than its workload needs, and would lift a queue above its fair share."""
    if not is_growth(workload):
        return False
    milli = gang.smallest(workload)
    return any(each.lasting + milli > each.fair_share for each in account.chain)


def _times(rest: Rest, sign: int) -> Rest:
    return (sign * rest[0], sign * rest[1])
