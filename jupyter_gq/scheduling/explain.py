"""Why something waits and why something was taken back: one sentence with numbers, made by the cycle that decided.

Rules
-----
1. Every workload that still waits gets exactly one reason; identical ones of a queue share it.
2. Who is named as in the way really is: without those named the workload would start.
3. The sentence speaks to the owner of the workload, in the words of the glossary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from jupyter_gq.domain.amount import NO_GPU, NO_MEMORY, ONE_GPU, Instant, format_gpus
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.reasons import Explanation, Grant, PendingReason, Remedy
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Request, TaskPlacement, Workload

from . import assemble, gang
from .assemble import leading_request, required_domains
from .books import Books
from .holding import passing
from .idle_rule import expiry
from .in_the_way import InTheWay
from .lacking import Lack, what
from .ordering import ClassKey, in_fair_order, request_class
from .parts import Part, whole_of
from .placement import Filter, View, filter_of
from .quota import Account, Obstacle, Rule
from .reservations import free_of, holders_of, those_on
from .turns import user_shares
from .waiting import Waiting, WaitingQueue, Why
from .wording import (
    enumerate_names,
    for_whom,
    gpus,
    is_build,
    minutes,
    more_time,
    noun,
    rest_amount,
    rest_limit,
    who_with_amount,
)

# --- evictions and warnings


def reclaimed(victim: Workload, by: Workload) -> str:
    """For the owner of `victim`, whose devices go to another queue."""
    needed = f"{for_whom(by)} needed its {_needed(victim, by)} back"
    if isinstance(victim, Part):
        return f"{_runs_on(victim)}: {needed}. {_grows_back(victim)}"
    return f"Paused: {needed}. {_comes_back(victim)}"


def _needed(victim: Workload, by: Workload) -> str:
    """GPUs; processors and memory of nodes where it is not about GPUs."""
    if gang.smallest(by) and gang.held(victim):
        return gpus(gang.smallest(by))
    amounts = [rest_amount(which, amount) for which, amount in enumerate(gang.smallest_rest(by)) if amount]
    return enumerate_names(amounts) if amounts else gpus(gang.smallest(by))


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
    if isinstance(victim, Part):
        tasks = sum(group.tasks for group in gang.groups_of(victim.whole))
        fits = f"so that {who_with_amount(by, gang.smallest(by))} fits"
        return (
            f"One of its {tasks} tasks goes on at {enumerate_names(nodes)}, {fits}. The others run on where they are."
        )
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


def stale(workload: Workload, now: float) -> str:
    """For the owner of a gang that lost tasks."""
    since = now if workload.stale_since is None else workload.stale_since
    for group in gang.groups_of(workload):
        left = sum(task.group == group.name for task in workload.placement)
        if left < group.min_members:
            tasks = f"its {group.tasks} tasks" + (f" of {group.name}" if group.name else "")
            text = f"{'has' if left == 1 else 'have'} been left for {minutes(now - since)}"
            needs = f"it needs at least {group.min_members} to go on"
            return f"Paused: only {left} of {tasks} {text}, and {needs}. {_comes_back(workload)}"
    return f"Paused: it had lost tasks. {_comes_back(workload)}"


def emptied(victim: Workload, node: str) -> str:
    """For the owner of training on a node that is being emptied."""
    if isinstance(victim, Part):
        return f"{_runs_on(victim)}: the node {node} is being emptied. {_grows_back(victim)}"
    return f"Paused: the node {node} is being emptied. {_comes_back(victim)}"


def _runs_on(part: Part) -> str:
    """Such as "Runs on with 3 of its 4 tasks"; the part knows what is left of its workload."""
    wanted = sum(group.tasks for group in gang.groups_of(part.whole))
    return f"Runs on with {len(part.whole.placement)} of its {wanted} tasks"


def _grows_back(part: Part) -> str:
    device = "a GPU is" if gang.smallest(part) <= 1000 else f"{gpus(gang.smallest(part))} are"
    return f"Grows again by itself when {device} free."


def _comes_back(victim: Workload) -> str:
    if not gang.smallest(victim):
        return "Continues by itself when there is room for it."
    device = "a GPU is" if gang.smallest(victim) <= 1000 else f"{gpus(gang.smallest(victim))} are"
    return f"Continues by itself when {device} free."


# --- waiting

#: By name, for programs and tests; sentences take theirs from here.
Numbers = Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scene:
    """What the explanations of one cycle share."""

    books: Books
    #: Those told to stop, by device.
    leaving: Mapping[str, Sequence[Workload]]
    in_the_way: InTheWay
    #: By what may be used: how much is idle, and the most on one device.
    idle: dict[Filter, tuple[int, int]]
    #: By pool and class of requests.
    alike: dict[tuple[str, ClassKey], "_Alike"]
    room: dict[tuple[str, ClassKey], "_Room"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Alike:
    """What is the same for like requests in a pool, whatever their queue."""

    lack: Lack | None
    #: How much is idle, what is the most on one device, and in one domain of what it asks for, if it does.
    idle: int
    largest: int
    in_one_domain: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Room:
    """What there is for like requests if nothing is held for anybody."""

    #: How much of it is idle and held.
    held: int
    #: Where it would fit.
    place: tuple[TaskPlacement, ...] | None
    tight: tuple[PendingReason, str] | None


def pending(books: Books) -> Waiting:
    """One entry for each workload that still waits."""
    facts = books.facts
    scene = _Scene(
        books=books, leaving=books.leaving_by_device(), in_the_way=InTheWay(books), idle={}, alike={}, room={}
    )
    own = {name: _own(scene, books.waiting[name]) for name in _with_their_own(books)}
    queues, shares = [], user_shares(books)
    for queue in sorted(facts.queued):
        why: dict[ClassKey, Why] = {}
        for key, ranked in facts.lines[queue].classes.items():
            one = next((w for w in ranked.members if w.id in books.waiting and w.id not in own), None)
            if one is not None:
                why[key] = _explain(scene, one, key)
        members: Sequence[Workload] = facts.queued[queue].frozen()
        if shares is not None:
            members = in_fair_order((w for w in members if w.id not in books.admitted), shares.get(queue, {}))
        queues.append(WaitingQueue(members=members, admitted=books.admitted, why=why, own=own))
    return Waiting(queues, len(books.waiting))


def _with_their_own(books: Books) -> list[str]:
    """Those whose explanation is not that of all like them."""
    names = {*books.awaited, *books.promised, *books.shielded, *books.holds}
    return sorted(name for name in names if name in books.waiting)


def _own(scene: _Scene, workload: Workload) -> Why:
    if workload.id in scene.books.awaited:
        return partial(_the_same, _waits_for_idle(scene, workload))
    if workload.id in scene.books.promised:
        return partial(_waits_for_eviction, _numbers(scene, workload), _stopping_for(scene, workload))
    if workload.id in scene.books.shielded:
        return partial(_the_same, _waits_for_min_runtime(scene, workload))
    gathers = _gathers(scene, workload)
    if gathers.blockers:
        return partial(_the_same, gathers)
    with passing(scene.books, workload):  # it is not devices that it waits for
        return _explain(scene, workload, request_class(workload))


def _the_same(written: Explanation) -> Explanation:
    return written


def _explain(scene: _Scene, workload: Workload, key: ClassKey) -> Why:
    """What is found out now; the sentence is written when somebody reads it."""
    books = scene.books
    account = books.account(workload)
    if not account.known:
        return partial(_unknown_queue, workload.queue)
    forbidden = books.obstacle(workload, now=False)
    if forbidden is not None:
        return _forbidden(scene, workload, forbidden)
    alike = _alike(scene, workload, key)
    numbers = _numbers_of(workload, account, alike)
    if alike.lack is not None:
        return partial(_never_fits, alike.lack, {**numbers, **alike.lack.numbers})
    room = _room(scene, workload, key)
    if room.place is not None:  # it would fit, but for what is held for others
        return partial(_behind, holders_of(books, workload, room.place), {**numbers, "held": room.held}, books.now)
    blockers = tuple(scene.in_the_way.of(workload, key))
    return partial(_no_room, workload, account.queue, numbers, blockers, room.tight)


def _unknown_queue(queue: str) -> Explanation:
    return Explanation(
        reason=PendingReason.UNKNOWN_QUEUE,
        sentence=f"Waiting: the queue {queue} is no longer in the configuration. "
        "Cancel it and choose another queue, or ask your administrator.",
    )


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


def _waits_for_eviction(numbers: Numbers, stopping: Sequence[Workload]) -> Explanation:
    names = _amounts(stopping) if stopping else "somebody"
    return Explanation(
        reason=PendingReason.WAITS_FOR_EVICTION,
        sentence=f"Waiting: its room is kept; it starts as soon as {names} {_has(_wholes(stopping))} stopped.",
        numbers=numbers,
        blockers=_wholes(stopping),
        remedy=_stops(stopping),
    )


def _has(workloads: Sequence[object]) -> str:
    return "have" if len(workloads) > 1 else "has"


def _waits_for_idle(scene: _Scene, workload: Workload) -> Explanation:
    books = scene.books
    notebooks = books.awaited[workload.id]
    left = max(expiry(n, books.policy.idle, books.now) for n in notebooks) - books.now
    names = enumerate_names([who_with_amount(n, gang.held(n)) for n in notebooks])
    verb = "are" if len(notebooks) > 1 else "is"
    return Explanation(
        reason=PendingReason.WAITS_FOR_IDLE,
        sentence=f"Waiting: {names} {verb} idle and will be stopped in {minutes(max(0.0, left))} unless used again.",
        numbers={**_numbers(scene, workload), "seconds_left": max(0, int(left))},
        blockers=tuple(n.id for n in notebooks),
        remedy=_stops(notebooks),
    )


def _waits_for_min_runtime(scene: _Scene, workload: Workload) -> Explanation:
    books = scene.books
    shield = books.shielded[workload.id]
    running = [victim for victim in shield.victims if books.may_still_run(victim, workload)]
    names = _amounts(running)
    same_queue = running[0].queue == workload.queue
    whom = who_with_amount(workload, gang.smallest(workload)) if same_queue else for_whom(workload)
    return Explanation(
        reason=PendingReason.MIN_RUNTIME,
        sentence=f"Waiting: {names} may run {more_time(shield.left)} before "
        f"{'they' if len(_wholes(running)) > 1 else 'it'} can be paused for {whom}.",
        numbers={**_numbers(scene, workload), "seconds_left": ceil(shield.left)},
        blockers=_wholes(shield.victims),
        remedy=Remedy(grant=Grant.TIME, amount=ceil(shield.left)),
    )


def _gathers(scene: _Scene, workload: Workload) -> Explanation:
    """Devices are held for it."""
    books = scene.books
    place = books.holds[workload.id].place
    with passing(books, workload):
        free = free_of(books, workload, place)
    devices = {device for task in place for device in task.devices}
    leaving = {w.id: w for device in sorted(devices) for w in scene.leaving.get(device, ())}
    using = [*those_on(books, place), *(leaving[name] for name in sorted(leaving))]
    waited = books.now - workload.waits_since
    left = f"; {_amounts(using)} still {'use' if len(_wholes(using)) > 1 else 'uses'} the rest" if using else ""
    return Explanation(
        reason=PendingReason.NO_FREE_DEVICE,
        sentence=f"Waiting: after {minutes(waited)} GPUs are held for it as they free: {format_gpus(free)} of "
        f"{gpus(gang.smallest(workload))} {'are' if free > ONE_GPU else 'is'} there{left}.",
        numbers={**_numbers(scene, workload), "held": free, "seconds_waited": int(waited)},
        blockers=_wholes(using),
        remedy=_stops(using),
    )


def _room(scene: _Scene, workload: Workload, like: ClassKey) -> _Room:
    books = scene.books
    ledger, pool = books.ledger, books.account(workload).queue.pool
    key = (pool, like)
    found = scene.room.get(key)
    if found is None:
        idle, place = ledger.total(pool), None
        with passing(books, None):  # what is held for somebody is idle, too
            if books.holds:
                mark = ledger.mark()
                place = assemble.place(ledger, pool, workload, View.FUTURE)
                ledger.rollback(mark)
            held = ledger.total(pool) - idle
            found = scene.room[key] = _Room(held=held, place=place, tight=_tight(scene, workload))
    return found


def _behind(holders: Sequence[Workload], numbers: Numbers, now: Instant) -> Explanation:
    free = numbers["held"]
    waited = enumerate_names([f"{who_with_amount(w, gang.smallest(w))}, {_claim(w, now)}" for w in holders])
    what = f"{gpus(free)} {'are' if free > ONE_GPU else 'is'} free, but" if free else "what becomes free next is"
    return Explanation(
        reason=PendingReason.RESERVED,
        sentence=f"Waiting: {what} held for {waited}.",
        numbers=numbers,
        blockers=_wholes(holders),
        remedy=_stops(holders),
    )


def _claim(holder: Workload, now: Instant) -> str:
    if holder.state is State.SUSPENDED:
        return "which may be used again at any moment"
    return f"which has waited {minutes(now - holder.waits_since)}"


def _forbidden(scene: _Scene, workload: Workload, forbidden: Obstacle) -> Why:
    queue, numbers = forbidden.account.queue, dict(_numbers(scene, workload))
    if forbidden.rule is Rule.REST:
        return partial(_out_of_rest, forbidden.account, forbidden.account.rest_lasting, workload, numbers)
    if forbidden.rule is Rule.QUOTA:
        numbers.update(bound=queue.quota, bound_used=forbidden.account.fixed_lasting)
    else:
        numbers.update(bound=queue.limit or NO_GPU, bound_used=forbidden.account.lasting)
    return partial(
        _at_its_bound, forbidden.rule, queue, numbers, tuple(scene.in_the_way.of(workload, request_class(workload)))
    )


def _at_its_bound(rule: Rule, queue: Queue, numbers: Numbers, blockers: Sequence[Workload]) -> Explanation:
    bound, used, needs = numbers["bound"], numbers["bound_used"], format_gpus(numbers["requested"])
    if rule is Rule.QUOTA:
        reason = PendingReason.NON_PREEMPTIBLE_OVER_QUOTA
        text = (
            f"it cannot be paused, so it must fit the quota of {queue.name}, {gpus(bound)}; "
            f"work of that kind uses {format_gpus(used)} of it, and it needs {needs}"
        )
    else:
        reason = PendingReason.QUEUE_LIMIT
        name = "your fixed quota" if is_build(queue.name) else f"the limit of {queue.name}"
        text = f"{name} is {gpus(bound)}, {format_gpus(used)} of it is in use, and it needs {needs}"
    return Explanation(
        reason=reason,
        sentence=f"Waiting: {text}{_way(blockers)}.",
        numbers=numbers,
        blockers=_wholes(blockers),
        remedy=Remedy(
            grant=Grant.QUOTA if rule is Rule.QUOTA else Grant.LIMIT,
            queue=queue.name,
            amount=used + numbers["requested"],
        ),
    )


def _out_of_rest(account: Account, used: gang.Rest, workload: Workload, numbers: Numbers) -> Explanation:
    needed = gang.smallest_rest(workload)
    which = next(i for i, limit in enumerate(account.rest_limit) if limit is not None and used[i] + needed[i] > limit)
    limit = account.rest_limit[which] or 0
    uses, needs = (rest_amount(which, amount) for amount in (used[which], needed[which]))
    return Explanation(
        reason=PendingReason.QUEUE_LIMIT,
        sentence=f"Waiting: {rest_limit(account.queue.name, which, limit)}, of which it uses {uses}, "
        f"and this needs {needs}.",
        numbers={**numbers, "bound": limit, "bound_used": used[which], "bound_requested": needed[which]},
        remedy=Remedy(
            grant=Grant.LIMIT,
            queue=account.queue.name,
            amount=used[which] + needed[which],
            resource=("cpu", "memory")[which],
        ),
    )


def _never_fits(lack: Lack, numbers: Numbers) -> Explanation:
    return Explanation(
        reason=PendingReason.NO_DEVICE,
        sentence=f"Waiting: it needs {lack.asked}, but {lack.have} at present.",
        numbers=numbers,
        remedy=Remedy(grant=Grant.DEVICES, amount=lack.devices),
    )


def _tight(scene: _Scene, workload: Workload) -> tuple[PendingReason, str] | None:
    """What else than devices there is too little of at the moment, and how to say it."""
    ledger, pool = scene.books.ledger, scene.books.account(workload).queue.pool
    for group in gang.groups_of(workload):
        request = group.request
        if ledger.slots(pool, request, View.NOW) >= group.min_members or not ledger.layout.counts_room:
            continue
        plain = replace(request, cpu_milli=0, memory=NO_MEMORY)
        if not request.devices or ledger.slots(pool, plain, View.NOW) >= group.min_members:
            needs = what(replace(request, devices=0)) if plain != request else "room for one more task"
            where = "no node" if not request.devices else f"no node with {gpus(request.milli)} idle"
            return PendingReason.NO_CPU_OR_MEMORY, f"{where} has {needs} free"
    domains = required_domains(ledger, workload)
    if domains and not gang.needs_devices(workload):
        return PendingReason.NO_DOMAIN, f"no {domains[0].levels[-1]} has room for all its tasks"
    return None


def _no_room(
    workload: Workload,
    queue: Queue,
    numbers: Numbers,
    blockers: Sequence[Workload],
    tight: tuple[PendingReason, str] | None,
) -> Explanation:
    needed, idle, largest = numbers["requested"], numbers["idle"], numbers["largest_idle"]
    reason = PendingReason.NO_FREE_DEVICE
    if tight is not None:
        reason, free = tight
    elif idle == 0:
        free = "no device is idle" if not _is_choosy(workload) else "no device that it may use is idle"
    elif idle < needed:
        free = f"only {gpus(idle)} is idle of the {format_gpus(needed)} it needs"
    elif "in_one_domain" in numbers:
        reason = PendingReason.NO_DOMAIN
        free = f"{gpus(idle)} is idle, at most {format_gpus(numbers['in_one_domain'])} of it in one domain"
    else:
        reason = PendingReason.FRAGMENTED
        free = f"{gpus(idle)} is idle, at most {format_gpus(largest)} of it on one device"
    return Explanation(
        reason=reason,
        sentence=f"Waiting: {_standing(queue, numbers['used'], workload)} {free}{_way(blockers)}.",
        numbers=numbers,
        blockers=_wholes(blockers),
        remedy=_stops(blockers),
    )


def _is_choosy(workload: Workload) -> bool:
    return any(
        group.request.models or group.request.node_labels or group.request.device_memory is not None
        for group in gang.groups_of(workload)
    )


def _stops(workloads: Sequence[Workload]) -> Remedy | None:
    return Remedy(grant=Grant.STOPS, workloads=_wholes(workloads)) if workloads else None


def _standing(queue: Queue, used: int, workload: Workload) -> str:
    """How the queue stands, up to the conjunction."""
    if workload.kind is Kind.NOTEBOOK or is_build(queue.name):
        return f"your fixed quota of {gpus(queue.quota)} allows it, but"
    return f"{queue.name} uses {format_gpus(used)} of its {format_gpus(queue.quota)} guaranteed {noun(queue.quota)} and"


def _numbers(scene: _Scene, workload: Workload) -> Numbers:
    return _numbers_of(workload, scene.books.account(workload), _alike(scene, workload, request_class(workload)))


def _numbers_of(workload: Workload, account: Account, alike: _Alike) -> dict[str, int]:
    numbers = {
        "requested": gang.smallest(workload),
        "used": account.used,
        "quota": account.queue.quota,
        "fair_share": account.fair_share,
        "idle": alike.idle,
        "largest_idle": alike.largest,
    }
    if alike.in_one_domain is not None:
        numbers["in_one_domain"] = alike.in_one_domain
    return numbers


def _alike(scene: _Scene, workload: Workload, key: ClassKey) -> _Alike:
    pool = scene.books.account(workload).queue.pool
    found = scene.alike.get((pool, key))
    if found is None:
        with passing(scene.books, None):  # what is held for somebody is idle, too
            found = scene.alike[pool, key] = _find_alike(scene, workload, pool)
    return found


def _find_alike(scene: _Scene, workload: Workload, pool: str) -> _Alike:
    ledger, request = scene.books.ledger, leading_request(workload)
    selected = filter_of(pool, request if request.devices else Request(devices=1))
    if selected not in scene.idle:
        index = ledger.scope(selected).index(View.NOW)
        scene.idle[selected] = (index.total, index.largest())
    idle, largest = scene.idle[selected]
    domains = required_domains(ledger, workload)
    in_one_domain = None
    if domains is not None:
        indexes = (ledger.scope(selected._replace(domains=(domain,))).index(View.NOW) for domain in domains)
        in_one_domain = max((index.total for index in indexes), default=0)
    lack = scene.books.facts.lack_when_empty(pool, workload)
    return _Alike(lack=lack, idle=idle, largest=largest, in_one_domain=in_one_domain)


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
