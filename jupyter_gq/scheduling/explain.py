"""Why something waits and why something was taken back: one sentence with numbers, made by the cycle that decided.

Rules
-----
1. Every workload that still waits gets exactly one reason; identical ones of a queue share it.
2. Who is named as in the way really is: without those named the workload would start.
3. The sentence speaks to the owner of the workload, in the words of the glossary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from jupyter_gq.domain.amount import NO_GPU, format_gpus
from jupyter_gq.domain.reasons import Explanation, PendingReason
from jupyter_gq.domain.workload import Kind, Request, Workload

from . import gang
from .books import Books
from .clearing import make_room
from .decision import Pending
from .disruption import disruption, placed_in_this_cycle, staying_units
from .idle_rule import expiry
from .ordering import seniority
from .parts import Part, whole_of
from .quota import Account, Obstacle, Rule, obstacle
from .wording import enumerate_names, for_whom, gpus, is_build, minutes, more_time, noun, who_with_amount

# --- evictions and warnings


def reclaimed(victim: Workload, by: Workload) -> str:
    """For the owner of `victim`, whose devices go to another queue."""
    needed = f"{for_whom(by)} needed its {gpus(gang.smallest(by))} back"
    if isinstance(victim, Part):
        return f"{_runs_on(victim)}: {needed}. {_grows_back(victim)}"
    return f"Paused: {needed}. {_comes_back(victim)}"


def preempted(victim: Workload, by: Workload) -> str:
    """For the owner of `victim`, which gives way inside its own queue."""
    text = (
        f"{who_with_amount(by, gang.smallest(by))} in the same queue has the higher priority "
        f"({by.priority} over {victim.priority})"
    )
    if isinstance(victim, Part):
        return f"{_runs_on(victim)}: {text}. {_grows_back(victim)}"
    return f"Paused: {text}. {_comes_back(victim)}"


def moved(victim: Workload, by: Workload, nodes: Sequence[str]) -> str:
    """For the owner of `victim`, which goes on at another place, on these nodes."""
    return (
        f"Paused: it moves to {enumerate_names(nodes)}, so that {who_with_amount(by, gang.smallest(by))} fits. "
        "Continues there by itself as soon as it has stopped."
    )


def over_limit(victim: Workload, account: Account) -> str:
    """For the owner of work in a queue whose limit was lowered."""
    lowered = f"the limit of {account.queue.name} was lowered to {gpus(account.queue.limit or NO_GPU)}"
    if isinstance(victim, Part):
        return f"{_runs_on(victim)}: {lowered}. Grows again by itself when there is room under it."
    return f"Paused: {lowered}. Continues by itself when there is room under it."


def warned(by: Workload | None, idle_for: float) -> str:
    """For the owner of an idle notebook, during the countdown."""
    waiting = "" if by is None else f", and {who_with_amount(by, gang.smallest(by))} waits for its share"
    return f"Idle for {minutes(idle_for)}{waiting}. Run a cell, or press Keep it, to keep the share."


def evicted_idle(notebook: Workload, by: Workload | None, idle_for: float) -> str:
    """For the owner of an idle notebook that is stopped."""
    share = gpus(gang.held(notebook))
    waiting = "" if by is None else f" and {who_with_amount(by, gang.smallest(by))} waited for its {share}"
    return (
        f"Stopped: your server was idle for {minutes(idle_for)}{waiting}. "
        "Your files are saved; start the server again to get a share."
    )


def suspended(notebook: Workload, by: Workload | None, idle_for: float) -> str:
    """For the owner of an idle notebook whose GPU memory is lent."""
    waiting = "" if by is None else f" and is lent to {who_with_amount(by, gang.smallest(by))}"
    return (
        f"Suspended: your {gpus(gang.held(notebook))} was idle for {minutes(idle_for)}{waiting}. "
        "Nothing is lost; the next cell waits a few seconds and goes on."
    )


def _runs_on(part: Part) -> str:
    """Such as "Runs on with 3 of its 4 tasks"; the part knows what is left of its workload."""
    wanted = sum(group.tasks for group in gang.groups_of(part.whole))
    return f"Runs on with {len(part.whole.placement)} of its {wanted} tasks"


def _grows_back(part: Part) -> str:
    device = "a GPU is" if gang.smallest(part) <= 1000 else f"{gpus(gang.smallest(part))} are"
    return f"Grows again by itself when {device} free."


def _comes_back(victim: Workload) -> str:
    device = "a GPU is" if gang.smallest(victim) <= 1000 else f"{gpus(gang.smallest(victim))} are"
    return f"Continues by itself when {device} free."


# --- waiting


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scene:
    """What the explanations of one cycle share."""

    books: Books
    #: Those told to stop, by device.
    leaving: Mapping[str, Sequence[Workload]]
    #: All who hold devices or were promised some, in the order in which they are named as in the way.
    holders: Sequence[Workload]
    #: Explanations made so far; everything that an explanation depends on is in its key.
    made: dict[tuple[str, Request, int, bool, Kind], Explanation]


def pending(books: Books) -> tuple[Pending, ...]:
    """One entry for each workload that still waits: by queue, inside a queue in its order."""
    by_queue: dict[str, list[Workload]] = {}
    for workload in books.waiting.values():
        by_queue.setdefault(workload.queue, []).append(workload)
    scene = _Scene(books=books, leaving=books.leaving_by_device(), holders=_holders(books), made={})
    return tuple(
        Pending(workload=workload.id, position=position, why=_why(scene, workload))
        for queue in sorted(by_queue)
        for position, workload in enumerate(sorted(by_queue[queue], key=seniority), start=1)
    )


def _holders(books: Books) -> list[Workload]:
    """Those first whom the one who waits could best ask: over quota, then what can be paused, then what loses least."""
    if not books.waiting:
        return []
    # An idle notebook that is being warned counts as gone: who comes after the one it is for, waits for that one.
    awaited = {notebook.id for notebooks in books.awaited.values() for notebook in notebooks}
    others = [*staying_units(books), *placed_in_this_cycle(books)]
    return sorted(
        (w for w in others if w.request.devices and w.id not in awaited),
        key=lambda w: (books.account(w).over_quota == 0, not w.preemptible, disruption(w)),
    )


def _why(scene: _Scene, workload: Workload) -> Explanation:
    if workload.id in scene.books.awaited:
        return _waits_for_idle(scene.books, workload)
    if workload.id in scene.books.promised:
        return _waits_for_eviction(scene, workload)
    if workload.id in scene.books.shielded:
        return _waits_for_min_runtime(scene.books, workload)
    key = (workload.queue, workload.request, workload.min_members, workload.preemptible, workload.kind)
    if key not in scene.made:
        scene.made[key] = _explain(scene, workload)
    return scene.made[key]


def _explain(scene: _Scene, workload: Workload) -> Explanation:
    books = scene.books
    account = books.account(workload)
    if not account.known:
        return Explanation(
            reason=PendingReason.UNKNOWN_QUEUE,
            sentence=f"Waiting: the queue {workload.queue} is no longer in the configuration. "
            "Cancel it and choose another queue, or ask your administrator.",
        )
    milli = gang.smallest(workload)
    forbidden = obstacle(account, milli, fixed=not workload.preemptible, now=False)
    if forbidden is not None:
        return _forbidden(scene, workload, forbidden)
    slots = books.facts.empty.slots_exactly(account.queue.pool, workload.request)
    if slots < workload.min_members:
        return _too_big(books, workload, slots)
    return _no_room(scene, workload)


def _waits_for_eviction(scene: _Scene, workload: Workload) -> Explanation:
    books = scene.books
    place = books.promised[workload.id]
    by_id = {w.id: w for task in place for device in task.devices for w in scene.leaving.get(device, ())}
    if not by_id:
        # It is not devices that it waits for, but room under a limit.
        chain = {id(each) for each in books.account(workload).chain}
        by_id = {w.id: w for w in books.leaving.values() if chain & {id(a) for a in books.account(w).chain}}
    stopping = [by_id[name] for name in sorted(by_id)]
    names = _amounts(stopping) if stopping else "somebody"
    return Explanation(
        reason=PendingReason.WAITS_FOR_EVICTION,
        sentence=f"Waiting: its room is kept; it starts as soon as {names} {_has(_wholes(stopping))} stopped.",
        numbers=_numbers(books, workload),
        blockers=_wholes(stopping),
    )


def _has(workloads: Sequence[object]) -> str:
    return "have" if len(workloads) > 1 else "has"


def _waits_for_idle(books: Books, workload: Workload) -> Explanation:
    notebooks = books.awaited[workload.id]
    left = max(expiry(n, books.policy.idle, books.now) for n in notebooks) - books.now
    names = enumerate_names([who_with_amount(n, gang.held(n)) for n in notebooks])
    verb = "are" if len(notebooks) > 1 else "is"
    return Explanation(
        reason=PendingReason.WAITS_FOR_IDLE,
        sentence=f"Waiting: {names} {verb} idle and will be stopped in {minutes(max(0.0, left))} unless used again.",
        numbers={**_numbers(books, workload), "seconds_left": max(0, int(left))},
        blockers=tuple(n.id for n in notebooks),
    )


def _waits_for_min_runtime(books: Books, workload: Workload) -> Explanation:
    shield = books.shielded[workload.id]
    running = [victim for victim in shield.victims if books.may_still_run(victim, workload)]
    names = enumerate_names([who_with_amount(v, gang.held(v)) for v in running])
    same_queue = running[0].queue == workload.queue
    whom = who_with_amount(workload, gang.smallest(workload)) if same_queue else for_whom(workload)
    return Explanation(
        reason=PendingReason.MIN_RUNTIME,
        sentence=f"Waiting: {names} may run {more_time(shield.left)} before "
        f"{'they' if len(running) > 1 else 'it'} can be paused for {whom}.",
        numbers={**_numbers(books, workload), "seconds_left": ceil(shield.left)},
        blockers=tuple(victim.id for victim in shield.victims),
    )


def _forbidden(scene: _Scene, workload: Workload, forbidden: Obstacle) -> Explanation:
    queue = forbidden.account.queue
    needs = format_gpus(gang.smallest(workload))
    if forbidden.rule is Rule.QUOTA:
        reason, bound, used = PendingReason.NON_PREEMPTIBLE_OVER_QUOTA, queue.quota, forbidden.account.fixed_lasting
        text = (
            f"it cannot be paused, so it must fit the quota of {queue.name}, {gpus(bound)}; "
            f"work of that kind uses {format_gpus(used)} of it, and it needs {needs}"
        )
    else:
        reason, bound, used = PendingReason.QUEUE_LIMIT, queue.limit or NO_GPU, forbidden.account.lasting
        name = "your fixed quota" if is_build(queue.name) else f"the limit of {queue.name}"
        text = f"{name} is {gpus(bound)}, {format_gpus(used)} of it is in use, and it needs {needs}"
    blockers = _in_the_way(scene, workload)
    return Explanation(
        reason=reason,
        sentence=f"Waiting: {text}{_way(blockers)}.",
        numbers={**_numbers(scene.books, workload), "bound": bound, "bound_used": used},
        blockers=_wholes(blockers),
    )


def _too_big(books: Books, workload: Workload, slots: int) -> Explanation:
    pool, request = books.account(workload).queue.pool, workload.request
    largest = books.ledger.largest_node(pool)
    if request.devices <= largest:
        text = (
            f"its {workload.min_members} tasks of {gpus(request.milli)} start together, but the pool {pool} has room "
            f"for {slots} at present"
        )
    else:
        have = f"the largest node of the pool {pool} has {largest}" if largest else f"the pool {pool} has none"
        text = f"it needs {gpus(request.milli)} on one node, but {have} at present"
    return Explanation(
        reason=PendingReason.NO_DEVICE,
        sentence=f"Waiting: {text}.",
        numbers={**_numbers(books, workload), "largest_node": 1000 * largest, "slots": slots},
    )


def _no_room(scene: _Scene, workload: Workload) -> Explanation:
    books = scene.books
    numbers = _numbers(books, workload)
    needed, idle, largest = numbers["requested"], numbers["idle"], numbers["largest_idle"]
    blockers = _in_the_way(scene, workload)
    reason = PendingReason.NO_FREE_DEVICE
    if idle == 0:
        free = "no device is idle"
    elif idle < needed:
        free = f"only {gpus(idle)} is idle of the {format_gpus(needed)} it needs"
    else:
        reason = PendingReason.FRAGMENTED
        free = f"{gpus(idle)} is idle, at most {format_gpus(largest)} of it on one device"
    return Explanation(
        reason=reason,
        sentence=f"Waiting: {_standing(books.account(workload), workload)} {free}{_way(blockers)}.",
        numbers=numbers,
        blockers=_wholes(blockers),
    )


def _standing(account: Account, workload: Workload) -> str:
    """How the queue stands, up to the conjunction."""
    if workload.kind is Kind.NOTEBOOK or is_build(account.queue.name):
        return f"your fixed quota of {gpus(account.queue.quota)} allows it, but"
    used = format_gpus(account.used)
    quota = account.queue.quota
    return f"{account.queue.name} uses {used} of its {format_gpus(quota)} guaranteed {noun(quota)} and"


def _numbers(books: Books, workload: Workload) -> dict[str, int]:
    account = books.account(workload)
    pool = account.queue.pool
    return {
        "requested": gang.smallest(workload),
        "used": account.used,
        "quota": account.queue.quota,
        "fair_share": account.fair_share,
        "idle": books.ledger.total(pool),
        "largest_idle": books.ledger.largest(pool),
    }


def _way(blockers: Sequence[Workload]) -> str:
    return f"; {_amounts(blockers)} {'are' if len(_wholes(blockers)) > 1 else 'is'} in the way" if blockers else ""


def _amounts(units: Sequence[Workload]) -> str:
    """Those who hold something, with how much; parts of one workload together."""
    milli: dict[str, int] = {}
    for unit in units:
        milli[whole_of(unit).id] = milli.get(whole_of(unit).id, 0) + gang.held(unit)
    partly = {whole_of(unit).id for unit in units} - {unit.id for unit in units}
    by_id = {whole_of(unit).id: whole_of(unit) for unit in units}
    return enumerate_names(
        [("part of " if name in partly else "") + who_with_amount(by_id[name], milli[name]) for name in milli]
    )


def _wholes(units: Sequence[Workload]) -> tuple[str, ...]:
    """The ids of their workloads, each once."""
    return tuple(dict.fromkeys(whole_of(unit).id for unit in units))


def _in_the_way(scene: _Scene, workload: Workload) -> list[Workload]:
    """A small set of those who hold, or were promised, what it would need; nothing is changed."""
    books = scene.books
    mark = books.ledger.mark()
    found = make_room(books, workload, lambda: scene.holders)
    if found is None:
        return []
    books.undo_room(workload, found, mark)
    return found
