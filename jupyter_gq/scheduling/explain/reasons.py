"""How each reason to wait is told: one sentence with numbers, who is in the way, and what would help.

Each function writes one explanation from what has been found out (see `explain`).

Rules
-----
1. The sentence speaks to the owner of the workload, in the words of the glossary.
2. Its numbers are among `numbers`, by name, for programs and tests.
3. Parts of elastic work are named as the workload that they are a part of.
"""

from collections.abc import Mapping, Sequence
from math import ceil

from jupyter_gq.domain.amount import ONE_GPU, Instant, format_gpus
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.reasons import Explanation, Grant, PendingReason, Remedy
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Backoff, Kind, Workload
from jupyter_gq.scheduling.placement.shortage import Shortage
from jupyter_gq.scheduling.quota.accounts import Account, Rule
from jupyter_gq.scheduling.quota.min_runtime import ProtectedVictims
from jupyter_gq.scheduling.wording import (
    UNOBSERVED,
    enumerate_names,
    for_whom,
    gpus,
    host_amount,
    host_limit,
    is_build,
    minutes,
    more_time,
    noun,
    who_with_amount,
)
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.replicas import whole_workload

from .supply import Tight

Numbers = Mapping[str, int]


def unknown_queue(queue: str) -> Explanation:
    """The configuration has no such queue any more."""
    return Explanation(
        reason=PendingReason.UNKNOWN_QUEUE,
        sentence=f"Waiting: the queue {queue} is no longer in the configuration. "
        "Cancel it and choose another queue, or ask your administrator.",
    )


def backs_off(backoff: Backoff) -> Explanation:
    """Explain that the workload pauses since a backend refused its place.

    The sentence has no countdown: every listener would be told each second.
    """
    pause = round(backoff.pause)
    return Explanation(
        reason=PendingReason.PLACE_REFUSED,
        sentence=f"{backoff.sentence.rstrip('.')}. It is tried again after a pause of {pause} s.",
        numbers={"times": backoff.times, "seconds": pause},
        remedy=Remedy(grant=Grant.TIME, amount=pause),
    )


def out_of_sight(numbers: Numbers) -> Explanation:
    """Explain that a backend cannot be observed, so that nothing is decided about its workloads."""
    return Explanation(
        reason=PendingReason.OUT_OF_SIGHT,
        sentence=f"Waiting: {UNOBSERVED[0].lower()}{UNOBSERVED[1:]}",
        numbers=numbers,
    )


def starts_soon() -> Explanation:
    """Explain that the workload fits and its backend begins others first."""
    return Explanation(
        reason=PendingReason.STARTS_SOON,
        sentence="What it needs is free: it starts as soon as those before it have been begun.",
    )


def waits_for_eviction(numbers: Numbers, stopping: Sequence[Workload]) -> Explanation:
    """Its room is kept, and these have been told to stop."""
    names = _amounts(stopping) if stopping else "somebody"
    has = "have" if len(_wholes(stopping)) > 1 else "has"
    return Explanation(
        reason=PendingReason.WAITS_FOR_EVICTION,
        sentence=f"Waiting: its room is kept; it starts as soon as {names} {has} stopped.",
        numbers=numbers,
        blockers=_wholes(stopping),
        remedy=_stops(stopping),
    )


def waits_for_idle(numbers: Numbers, notebooks: Sequence[Workload], left: float) -> Explanation:
    """These notebooks have been warned, and `left` seconds are left to them."""
    names = enumerate_names([who_with_amount(n, gang.held(n)) for n in notebooks])
    verb = "are" if len(notebooks) > 1 else "is"
    return Explanation(
        reason=PendingReason.WAITS_FOR_IDLE,
        sentence=f"Waiting: {names} {verb} idle and will be stopped in {minutes(max(0.0, left))} unless used again.",
        numbers={**numbers, "seconds_left": max(0, int(left))},
        blockers=tuple(n.id for n in notebooks),
        remedy=_stops(notebooks),
    )


def waits_for_min_runtime(
    numbers: Numbers, workload: Workload, running: Sequence[Workload], shield: ProtectedVictims
) -> Explanation:
    """Of those who would give way, these have not run long enough yet."""
    same_queue = running[0].queue == workload.queue
    whom = who_with_amount(workload, gang.smallest(workload)) if same_queue else for_whom(workload)
    return Explanation(
        reason=PendingReason.MIN_RUNTIME,
        sentence=f"Waiting: {_amounts(running)} may run {more_time(shield.left)} before "
        f"{'they' if len(_wholes(running)) > 1 else 'it'} can be paused for {whom}.",
        numbers={**numbers, "seconds_left": ceil(shield.left)},
        blockers=_wholes(shield.victims),
        remedy=Remedy(grant=Grant.TIME, amount=ceil(shield.left)),
    )


def gathers(
    numbers: Numbers, workload: Workload, *, free: int, using: Sequence[Workload], waited: float
) -> Explanation:
    """Devices are held for it; so much of them is free, and these use the rest."""
    left = f"; {_amounts(using)} still {'use' if len(_wholes(using)) > 1 else 'uses'} the rest" if using else ""
    return Explanation(
        reason=PendingReason.NO_FREE_DEVICE,
        sentence=f"Waiting: after {minutes(waited)} GPUs are held for it as they free: {format_gpus(free)} of "
        f"{gpus(gang.smallest(workload))} {_is(free)} there{left}.",
        numbers={**numbers, "held": free, "seconds_waited": int(waited)},
        blockers=_wholes(using),
        remedy=_stops(using),
    )


def behind(holders: Sequence[Workload], numbers: Numbers, now: Instant) -> Explanation:
    """It would fit, but for what is held for these."""
    free = numbers["held"]
    what = f"{gpus(free)} {_is(free)} free, but" if free else "what becomes free next is"
    return _held_for(holders, what, numbers, now)


def beside(holders: Sequence[Workload], numbers: Numbers, now: Instant) -> Explanation:
    """GPUs would do; but for these, on the same nodes, CPU or memory is held."""
    return _held_for(holders, "CPU or memory that it needs is", numbers, now)


def _held_for(holders: Sequence[Workload], what: str, numbers: Numbers, now: Instant) -> Explanation:
    waited = enumerate_names([f"{who_with_amount(w, gang.smallest(w))}, {_claim(w, now)}" for w in holders])
    return Explanation(
        reason=PendingReason.RESERVED,
        sentence=f"Waiting: {what} held for {waited}.",
        numbers=numbers,
        blockers=_wholes(holders),
        remedy=_stops(holders),
    )


def at_its_bound(rule: Rule, queue: Queue, numbers: Numbers, blockers: Sequence[Workload]) -> Explanation:
    """A queue of its path is at its limit, or at its quota for work that cannot be paused."""
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


def out_of_host(account: Account, used: gang.HostAmounts, workload: Workload, numbers: Numbers) -> Explanation:
    """A queue of its path is at its limit of processors or memory."""
    needed = gang.smallest_host(workload)
    which = next(i for i, limit in enumerate(account.host_limits) if limit is not None and used[i] + needed[i] > limit)
    limit = account.host_limits[which] or 0
    uses, needs = (host_amount(which, amount) for amount in (used[which], needed[which]))
    return Explanation(
        reason=PendingReason.QUEUE_LIMIT,
        sentence=f"Waiting: {host_limit(account.queue.name, which, limit)}, of which it uses {uses}, "
        f"and this needs {needs}.",
        numbers={**numbers, "bound": limit, "bound_used": used[which], "bound_requested": needed[which]},
        remedy=Remedy(
            grant=Grant.LIMIT,
            queue=account.queue.name,
            amount=used[which] + needed[which],
            resource=("cpu", "memory")[which],
        ),
    )


def never_fits(lack: Shortage, numbers: Numbers) -> Explanation:
    """It would not fit even if nobody held anything."""
    return Explanation(
        reason=PendingReason.NO_DEVICE,
        sentence=f"Waiting: it needs {lack.asked}, but {lack.have} at present.",
        numbers=numbers,
        remedy=Remedy(grant=Grant.DEVICES, amount=lack.devices),
    )


def no_room(
    workload: Workload, queue: Queue, numbers: Numbers, blockers: Sequence[Workload], tight: Tight | None
) -> Explanation:
    """Others hold what it would need."""
    needed, idle, largest = numbers["requested"], numbers["idle"], numbers["largest_idle"]
    reason = PendingReason.NO_FREE_DEVICE
    if tight is not None:
        reason, free = tight
    elif idle == 0:
        free = "no device is idle" if not _is_choosy(workload) else "no device that it may use is idle"
    elif idle < needed:
        free = f"only {gpus(idle)} {_is(idle)} idle of the {format_gpus(needed)} it needs"
    elif "in_one_domain" in numbers:
        reason = PendingReason.NO_DOMAIN
        most = format_gpus(numbers["in_one_domain"])
        free = f"{gpus(idle)} {_is(idle)} idle, at most {most} of {_it(idle)} in one domain"
    else:
        reason = PendingReason.FRAGMENTED
        free = f"{gpus(idle)} {_is(idle)} idle, at most {format_gpus(largest)} of {_it(idle)} on one device"
    return Explanation(
        reason=reason,
        sentence=f"Waiting: {_standing(queue, numbers['used'], workload)} {free}{_way(blockers)}.",
        numbers=numbers,
        blockers=_wholes(blockers),
        remedy=_stops(blockers),
    )


def _is(milli: int) -> str:
    return "are" if milli > ONE_GPU else "is"


def _it(milli: int) -> str:
    return "them" if milli > ONE_GPU else "it"


def _claim(holder: Workload, now: Instant) -> str:
    if holder.state is State.SUSPENDED:
        return "which may be used again at any moment"
    return f"which has waited {minutes(now - holder.waits_since)}"


def _is_choosy(workload: Workload) -> bool:
    return any(
        group.request.models or group.request.node_labels or group.request.device_memory is not None
        for group in gang.groups_of(workload)
    )


def _standing(queue: Queue, used: int, workload: Workload) -> str:
    """How the queue stands, up to the conjunction."""
    if workload.kind is Kind.NOTEBOOK or is_build(queue.name):
        return f"your fixed quota of {gpus(queue.quota)} allows it, but"
    return f"{queue.name} uses {format_gpus(used)} of its {format_gpus(queue.quota)} guaranteed {noun(queue.quota)} and"


def _way(blockers: Sequence[Workload]) -> str:
    return f"; {_amounts(blockers)} {'are' if len(_wholes(blockers)) > 1 else 'is'} in the way" if blockers else ""


def _stops(workloads: Sequence[Workload]) -> Remedy | None:
    return Remedy(grant=Grant.STOPS, workloads=_wholes(workloads)) if workloads else None


def _amounts(units: Sequence[Workload]) -> str:
    """Those who hold something, with how much; parts of one workload together."""
    milli: dict[str, int] = {}
    for unit in units:
        milli[whole_workload(unit).id] = milli.get(whole_workload(unit).id, 0) + gang.held(unit)
    partly = {whole_workload(unit).id for unit in units} - {unit.id for unit in units}
    by_id = {whole_workload(unit).id: whole_workload(unit) for unit in units}
    return enumerate_names(
        [("part of " if name in partly else "") + who_with_amount(by_id[name], milli[name]) for name in milli]
    )


def _wholes(units: Sequence[Workload]) -> tuple[str, ...]:
    """The ids of their workloads, each once."""
    return tuple(dict.fromkeys(whole_workload(unit).id for unit in units))
