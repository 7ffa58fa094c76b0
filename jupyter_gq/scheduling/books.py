"""The state of one cycle: accounts, device ledger, who holds, who waits, and what was decided so far.

Rules
-----
1. A decision changes accounts and ledger in the same call, so that the next question sees it.
2. Every workload that waits is in `waiting` until it is admitted; those that were promised room are in `promised`.
3. A trial ends with `commit` or leaves no trace.
4. A promise whose place matters in later cycles is `kept`: its place is written down (`Reserve`) and entered before
   anything is decided. One that cannot be kept any more is struck out, and its owner waits like the others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jupyter_gq.domain.amount import Instant, MilliGpu, Seconds
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import TaskPlacement, Workload

from . import gang, min_runtime
from .decision import Admit, Evict, Instruction, Reserve, Suspend
from .facts import EVICTABLE, Facts
from .ordering import Turn, seniority
from .placement import View
from .quota import Account, charge, obstacle, pledge

#: Makes the sentence for a victim's owner, from the victim and the one for whom it goes.
Sentence = Callable[[Workload, Workload], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Shield:
    """Those who would give way to somebody who waits, once they have run long enough."""

    victims: tuple[Workload, ...]
    #: Until the last of them may go.
    left: Seconds


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
        #: Those of `promised` and `moving` whose place is written down.
        self.kept: set[str] = set()
        #: Started in this cycle, with what they hold from now on.
        self.admitted: dict[str, Workload] = {}
        #: Idle notebooks whose share a pending workload waits for: notebooks by waiting workload.
        self.awaited: dict[str, tuple[Workload, ...]] = {}
        #: Those who wait until others have run long enough to give way to them.
        self.shielded: dict[str, Shield] = {}
        self.evicted: dict[str, Evict | Suspend] = {}
        self.instructions: list[Instruction] = []
        self.accounts.divide()
        self.ledger.settle()
        self._before = self.accounts.copy()

        for workload in sorted(facts.reserved.values(), key=seniority):
            self._enter_reserved(workload)

    def forget(self) -> None:
        """Take back everything that this cycle did: the facts are again what they were before it."""
        self.ledger.rollback(0)
        self.accounts.restore(self._before)
        for name in self.admitted:
            self.waiting[name] = self.workloads[name]

    def _enter_reserved(self, workload: Workload) -> None:
        """Keep its place, if it still waits for it and the place is still there."""
        account, milli, fixed = self.account(workload), gang.smallest(workload), not workload.preemptible
        comes_back = workload.id in self.leaving and workload.stop is not None and workload.stop.requeue
        if not (comes_back or workload.id in self.waiting) or not account.known:
            return
        if obstacle(account, milli, fixed=fixed, now=False):
            return
        if not self.ledger.keep_at(workload.reserved, workload.request.milli_per_device):
            return
        pledge(account, milli, fixed=fixed)
        self.kept.add(workload.id)
        (self.moving if comes_back else self.promised)[workload.id] = workload.reserved

    # --- admitting

    def account(self, workload: Workload) -> Account:
        """The account of its leaf."""
        return self.accounts.of(workload.queue)

    def try_admit(self, workload: Workload) -> bool:
        """Start it now, with its smallest gang, if that fits now."""
        account = self.account(workload)
        milli, fixed = gang.smallest(workload), not workload.preemptible
        if not account.known or obstacle(account, milli, fixed=fixed, now=True):
            return False
        if workload.request.devices == 0:
            placed: tuple[TaskPlacement, ...] | None = (TaskPlacement(node=self.facts.default_node),) * workload.tasks
        else:
            placed = gang.place(self.ledger, account.queue.pool, workload, View.NOW)
        if placed is None:
            return False
        self._start(workload, placed, milli)
        return True

    def try_grow(self, workload: Workload) -> bool:
        """Give an elastic workload that this cycle admitted one task more, if that fits and is within fair shares."""
        started = self.admitted[workload.id]
        account = self.account(workload)
        milli, fixed = workload.request.milli, not workload.preemptible
        if len(started.placement) >= workload.tasks or obstacle(account, milli, fixed=fixed, now=True):
            return False
        if any(each.lasting + milli > each.fair_share for each in account.chain):
            return False
        task = self.ledger.place(account.queue.pool, workload.request, View.NOW)
        if task is None:
            return False
        charge(account, milli, fixed=fixed)
        self.admitted[workload.id] = replace(started, placement=(*started.placement, task))
        return True

    def retract(self, workload: Workload) -> None:
        """Do not start, after all, a released workload that this cycle had admitted: nobody is disturbed by that."""
        started = self.admitted.pop(workload.id)
        charge(self.account(started), -gang.held(started), fixed=not started.preemptible, later=False)
        self.ledger.give_up(started)
        self.waiting[started.id] = self.workloads[started.id]

    def decided(self) -> tuple[Instruction, ...]:
        """Everything to be done: first what starts, in the order of admission, then the rest in the order decided."""
        over = {account.queue.name: account.over_quota - account.pledged for account in self.accounts}
        starts: list[Instruction] = []
        for started in reversed(self.admitted.values()):
            part = max(0, min(gang.held(started), over[started.queue])) if started.preemptible else 0
            over[started.queue] -= part
            starts.append(Admit(workload=started.id, placement=started.placement, over_quota=MilliGpu(part)))
        return (*reversed(starts), *self.instructions, *self._reservations())

    def _reservations(self) -> list[Reserve]:
        """What is to be written down of the places that are kept; who starts needs none any more."""
        stored = self.facts.reserved.keys()
        found = []
        for name in sorted((stored | self.kept) - self.admitted.keys()):
            place = self.promised.get(name) or self.moving.get(name) or () if name in self.kept else ()
            if place != self.workloads[name].reserved:
                found.append(Reserve(workload=name, placement=place))
        return found

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
        account, milli, fixed = self.account(workload), gang.smallest(workload), not workload.preemptible
        if obstacle(account, milli, fixed=fixed, now=True):
            return False
        if not self.ledger.take_at(place, workload.request.milli_per_device):
            return False
        self._start(workload, place, milli)
        return True

    def _start(self, workload: Workload, placed: tuple[TaskPlacement, ...], milli: int) -> None:
        charge(self.account(workload), milli, fixed=not workload.preemptible)
        del self.waiting[workload.id]
        self.admitted[workload.id] = replace(workload, placement=placed, reserved=())

    def try_promise(self, workload: Workload) -> bool:
        """Keep room for it that is being freed, if there is enough."""
        account = self.account(workload)
        milli = gang.smallest(workload)
        if not account.known or obstacle(account, milli, fixed=not workload.preemptible, now=False):
            return False
        placed = gang.place(self.ledger, account.queue.pool, workload, View.FUTURE)
        if placed is None:
            return False
        pledge(account, milli, fixed=not workload.preemptible)
        self.promised[workload.id] = placed
        return True

    def withdraw(self, workload: Workload) -> tuple[TaskPlacement, ...]:
        """Take a promise back; return where it was."""
        place = self.promised.pop(workload.id)
        self.ledger.promise(place, -workload.request.milli_per_device)
        pledge(self.account(workload), -gang.smallest(workload), fixed=not workload.preemptible)
        return place

    def promise_at(self, workload: Workload, place: tuple[TaskPlacement, ...]) -> None:
        """Give a withdrawn promise again."""
        self.ledger.promise(place, workload.request.milli_per_device)
        pledge(self.account(workload), gang.smallest(workload), fixed=not workload.preemptible)
        self.promised[workload.id] = place

    # --- taking back

    def release(self, workload: Workload) -> None:
        """On trial: count as if it had been told to stop, or had not been promised its place."""
        self._count(workload, -gang.held(workload))
        if workload.id in self.promised:
            self.ledger.promise(workload.placement, -workload.request.milli_per_device)
        else:
            self.ledger.release(workload)

    def unrelease(self, workload: Workload) -> bool:
        """Let it stay after all, if its room has not been promised to another; False changes nothing."""
        milli = workload.request.milli_per_device
        if not self.ledger.take_again(workload, promised=milli if workload.id in self.promised else 0):
            return False
        self.recharge(workload)
        return True

    def recharge(self, workload: Workload) -> None:
        """The accounts' half of taking `release` back; the ledger's is `rollback`."""
        self._count(workload, gang.held(workload))

    def _count(self, workload: Workload, milli: int) -> None:
        if workload.id in self.promised:
            pledge(self.account(workload), milli, fixed=not workload.preemptible)
        else:
            charge(self.account(workload), milli, fixed=not workload.preemptible, now=False)

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
        queue may only exchange: not use more than before, nor put one larger workload in place of small ones.
        """
        chain = self.account(workload).chain
        before = [each.lasting for each in chain]
        mark = self.ledger.mark()
        released = search()
        if released is None:
            return None
        larger = gang.smallest(workload) > max((gang.held(victim) for victim in released), default=0)
        for each, most in zip(chain, before, strict=True):
            if each.lasting > each.fair_share and (larger or each.lasting > most):
                self.undo_room(workload, released, mark)
                return None
        return released

    def spare_needless(self) -> None:
        """Let stay whose room turned out not to be needed, when the one it was for got another or none."""
        for instruction in reversed(self.instructions):
            victim = self.workloads[instruction.workload]
            if victim.id in self.moving:
                self._stay(victim)
                continue
            if not isinstance(instruction, Evict) or not self.unrelease(victim):
                continue
            chain = self.account(victim).chain
            if any(each.queue.limit is not None and each.lasting > each.queue.limit for each in chain):
                self.release(victim)
                continue
            del self.evicted[victim.id], self.leaving[victim.id]
        self.instructions = [i for i in self.instructions if i.workload in self.evicted]

    def move(self, workload: Workload, place: tuple[TaskPlacement, ...], by: Workload, sentence: str) -> None:
        """Write down that it stops, to go on at `place`, which the ledger keeps for it. Its queue uses what it did."""
        self.evict(workload, EvictReason.CONSOLIDATED, by.id, sentence)
        self.moving[workload.id] = place
        self.kept |= {workload.id, by.id}

    def _stay(self, workload: Workload) -> None:
        """Do not move it after all, if nobody has been promised its old place."""
        milli = workload.request.milli_per_device
        self.ledger.promise(self.moving[workload.id], -milli)
        if not self.ledger.take_again(workload, promised=0):
            self.ledger.promise(self.moving[workload.id], milli)
            return
        del self.moving[workload.id], self.evicted[workload.id], self.leaving[workload.id]
        self.kept.discard(workload.id)

    def take_from(self, victims: Sequence[Workload], by: Workload, reason: EvictReason, sentence: Sentence) -> bool:
        """Carry out what a search found: evict, or undo what this cycle did. True when something was undone.

        `by` has been promised its place; when nobody has to stop for it, it may start at once.
        """
        for victim in victims:
            if victim.id in self.admitted:
                self.retract(victim)
            elif victim.id in self.promised:
                del self.promised[victim.id]
            else:
                self.evict(victim, reason, by.id, sentence(victim, by))
        undone = [victim for victim in victims if victim.id in self.waiting]
        if undone and len(undone) == len(victims):
            place = self.withdraw(by)
            if not self.try_admit(by):
                self.promise_at(by, place)
        return bool(undone)

    def evict(self, workload: Workload, reason: EvictReason, by: str | None, sentence: str) -> None:
        """Write down that a released workload really goes."""
        instruction = Evict(workload=workload.id, reason=reason, by=by, sentence=sentence)
        self._leave(workload, instruction)

    def suspend(self, workload: Workload, by: str | None, sentence: str) -> None:
        """As `evict`, without loss. It keeps its quota."""
        self.recharge(workload)
        self._leave(workload, Suspend(workload=workload.id, by=by, sentence=sentence))

    def _leave(self, workload: Workload, instruction: Evict | Suspend) -> None:
        self.evicted[workload.id] = instruction
        self.leaving[workload.id] = workload
        self.instructions.append(instruction)

    # --- questions

    def turn(self) -> Turn:
        """Those who wait without a promise, each in his turn."""
        return Turn(self.accounts, self.facts.lines, self.is_unsettled)

    def is_unsettled(self, workload: Workload) -> bool:
        """It waits without a promise."""
        name = workload.id
        return name in self.waiting and name not in self.promised and name not in self.awaited

    def staying(self) -> list[Workload]:
        """Those who hold devices, can be told to stop and have not been; without those that this cycle admitted.

        It looks at every workload: only for what is rare.
        """
        return [w for w in self.workloads.values() if w.state in EVICTABLE and w.id not in self.evicted]

    def notebooks(self) -> list[Workload]:
        """The notebooks among those who stay."""
        return [notebook for notebook in self.facts.notebooks.values() if notebook.id not in self.evicted]

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
