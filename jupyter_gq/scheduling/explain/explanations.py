"""Why each of those who still wait does: found out by the cycle that decided, written when somebody reads it.

Rules
-----
1. Every workload that still waits gets exactly one reason; identical ones of a queue share it.
2. Who is named as in the way really is: without those named the workload would start.
3. What is found out here is how things stand now; the sentences are made of nothing else (see `reasons_to_wait`).
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from heapq import merge

from jupyter_gq.domain.amount import NO_GPU
from jupyter_gq.domain.reasons import Explanation
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.admit.held_devices import passing
from jupyter_gq.scheduling.admit.reservations import free_of, holders_beside, holders_of, those_on
from jupyter_gq.scheduling.admit.turns import user_shares
from jupyter_gq.scheduling.idle.idle_rule import expiry
from jupyter_gq.scheduling.order.pending_queue import Line
from jupyter_gq.scheduling.quota.accounts import Obstacle, Rule
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.request_class import ClassKey, request_class
from jupyter_gq.scheduling.workloads.seniority import in_fair_order, seniority

from . import reasons as reasons_to_wait
from .blockers import InTheWay
from .pending_list import Waiting, WaitingQueue, Why
from .supply import Supply


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scene:
    """What the explanations of one cycle share."""

    books: Books
    #: Those told to stop, by device.
    leaving: Mapping[str, Sequence[Workload]]
    in_the_way: InTheWay
    supply: Supply

    def numbers(self, workload: Workload) -> dict[str, int]:
        """The numbers of every explanation of it, by name."""
        return self.supply.idle(workload, request_class(workload)).numbers(workload, self.books.account(workload))


def pending(books: Books, deferred: Set[str]) -> Waiting:
    """Return one entry for each workload that still waits; `deferred` are those that the launch capacity leaves out."""
    index, withheld = books.index, _withheld_by_queue(books)
    started = books.admitted.keys() - deferred if deferred else books.admitted.keys()
    scene = _Scene(books=books, leaving=_leaving_by_device(books), in_the_way=InTheWay(books), supply=Supply(books))
    own = {name: _own(scene, books.waiting[name]) for name in _with_their_own(books)}
    for workload in index.backoffs.active.values():
        if workload.backoff is not None:
            own[workload.id] = partial(reasons_to_wait.backs_off, workload.backoff)
    own |= dict.fromkeys(index.unobserved, partial(reasons_to_wait.out_of_sight, {}))
    own |= dict.fromkeys(deferred, reasons_to_wait.starts_soon)
    queues, shares = [], user_shares(books)
    for queue in sorted(index.pending.by_seniority.keys() | withheld.keys()):
        why: dict[ClassKey, Why] = {}
        line = index.pending.lines.get(queue) or Line()
        for key, ranked in line.classes.items():
            one = next((w for w in ranked.members if w.id in books.waiting and w.id not in own), None)
            if one is not None:
                why[key] = _explain(scene, one, key)
        ranked_queue = index.pending.by_seniority.get(queue)
        members: Sequence[Workload] = () if ranked_queue is None else ranked_queue.frozen()
        if queue in withheld:
            members = tuple(merge(members, withheld[queue], key=seniority))
        if shares is not None:
            members = in_fair_order((w for w in members if w.id not in started), shares.get(queue, {}))
        queues.append(WaitingQueue(members=members, admitted=started, class_of=line.class_of, why=why, own=own))
    return Waiting(queues, len(books.waiting) + len(deferred) + sum(map(len, withheld.values())))


def _withheld_by_queue(books: Books) -> dict[str, list[Workload]]:
    """Group the pending workloads that take no part in the cycle by leaf queue, each group by seniority."""
    found: dict[str, list[Workload]] = {}
    index = books.index
    for workload in sorted((*index.backoffs.active.values(), *index.unobserved.values()), key=seniority):
        found.setdefault(workload.queue, []).append(workload)
    return found


def _leaving_by_device(books: Books) -> dict[str, list[Workload]]:
    """Those told to stop, by the devices that they still hold."""
    found: dict[str, list[Workload]] = {}
    for workload in books.leaving.values():
        for device in {device for task in workload.placement for device in task.devices}:
            found.setdefault(device, []).append(workload)
    return found


def _with_their_own(books: Books) -> list[str]:
    """Those whose explanation is not that of all like them."""
    names = {*books.awaited, *books.promised, *books.shielded, *books.holds}
    return sorted(name for name in names if name in books.waiting)


def _own(scene: _Scene, workload: Workload) -> Why:
    books = scene.books
    if workload.id in books.awaited:
        return partial(_the_same, _waits_for_idle(scene, workload))
    if workload.id in books.promised:
        stopping = _stopping_for(scene, workload)
        return partial(reasons_to_wait.waits_for_eviction, scene.numbers(workload), stopping)
    if workload.id in books.shielded:
        return partial(_the_same, _waits_for_min_runtime(scene, workload))
    gathers = _gathers(scene, workload)
    if gathers.blockers and gathers.numbers["held"] < gang.smallest(workload):
        return partial(_the_same, gathers)
    with passing(books, workload):  # it is not devices that it waits for
        return _explain(scene, workload, request_class(workload))


def _the_same(written: Explanation) -> Explanation:
    return written


def _explain(scene: _Scene, workload: Workload, key: ClassKey) -> Why:
    """The first of these for all of a class: no such queue, forbidden, too large, held for others, in the way."""
    books = scene.books
    account = books.account(workload)
    if not account.known:
        return partial(reasons_to_wait.unknown_queue, workload.queue)
    forbidden = books.obstacle(workload, now=False)
    if forbidden is not None:
        return _forbidden(scene, workload, forbidden)
    idle = scene.supply.idle(workload, key)
    numbers = idle.numbers(workload, account)
    if idle.lack is not None:
        return partial(reasons_to_wait.never_fits, idle.lack, {**numbers, **idle.lack.numbers})
    room = scene.supply.room(workload, key)
    if room.place is not None:  # it would fit, but for what is held for others
        numbers["held"] = room.held
        holders = holders_of(books, workload, room.place)
        if holders:
            return partial(reasons_to_wait.behind, holders, numbers, books.now)
        return partial(reasons_to_wait.beside, holders_beside(books, room.place), numbers, books.now)
    blockers = tuple(scene.in_the_way.of(workload, key))
    if not blockers and books.index.config.unobserved:  # only runs that cannot be seen could make room
        return partial(reasons_to_wait.out_of_sight, numbers)
    return partial(reasons_to_wait.no_room, workload, account.queue, numbers, blockers, room.tight)


def _forbidden(scene: _Scene, workload: Workload, forbidden: Obstacle) -> Why:
    account, numbers = forbidden.account, scene.numbers(workload)
    if forbidden.rule is Rule.REST:
        return partial(reasons_to_wait.out_of_rest, account, account.rest_lasting, workload, numbers)
    if forbidden.rule is Rule.QUOTA:
        numbers.update(bound=account.queue.quota, bound_used=account.fixed_lasting)
    else:
        numbers.update(bound=account.queue.limit or NO_GPU, bound_used=account.lasting)
    blockers = tuple(scene.in_the_way.of(workload, request_class(workload)))
    return partial(reasons_to_wait.at_its_bound, forbidden.rule, account.queue, numbers, blockers)


def _stopping_for(scene: _Scene, workload: Workload) -> list[Workload]:
    """Those who have to stop before it can start."""
    books = scene.books
    place = books.promised[workload.id]
    by_id = {w.id: w for task in place for device in task.devices for w in scene.leaving.get(device, ())}
    if not by_id:
        # It is not devices that it waits for, but room under a limit.
        chain = {id(each) for each in books.account(workload).chain}
        by_id = {w.id: w for w in books.leaving.values() if chain & {id(a) for a in books.account(w).chain}}
    return [by_id[name] for name in sorted(by_id)]


def _waits_for_idle(scene: _Scene, workload: Workload) -> Explanation:
    books = scene.books
    notebooks = books.awaited[workload.id]
    left = max(expiry(n, books.policy.idle, books.now) for n in notebooks) - books.now
    return reasons_to_wait.waits_for_idle(scene.numbers(workload), notebooks, left)


def _waits_for_min_runtime(scene: _Scene, workload: Workload) -> Explanation:
    books = scene.books
    shield = books.shielded[workload.id]
    running = [victim for victim in shield.victims if books.may_still_run(victim, workload)]
    return reasons_to_wait.waits_for_min_runtime(scene.numbers(workload), workload, running, shield)


def _gathers(scene: _Scene, workload: Workload) -> Explanation:
    books = scene.books
    place = books.holds[workload.id].place
    with passing(books, workload):
        free = free_of(books, workload, place)
    devices = {device for task in place for device in task.devices}
    leaving = {w.id: w for device in sorted(devices) for w in scene.leaving.get(device, ())}
    using = [*those_on(books, place), *(leaving[name] for name in sorted(leaving))]
    waited = books.now - workload.waits_since
    return reasons_to_wait.gathers(scene.numbers(workload), workload, free=free, using=using, waited=waited)
