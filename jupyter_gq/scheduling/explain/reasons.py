"""Explanations of each reason to wait: one sentence with numbers, the workloads in the way, and what would help.

Each function writes one explanation from what the cycle found out (see `explanations`).

Rules
-----
Audience: the sentence speaks to the owner of the workload, in the words of the glossary.

Numbers: each number of the sentence is among `numbers`, by name, for programs and tests.

Replicas: replicas of elastic work are named as their workload.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil

from jupyter_gq.domain.amount import ONE_GPU, HostResource, Instant, format_gpus
from jupyter_gq.domain.mentions import mention
from jupyter_gq.domain.plain_text import strip_controls
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.reasons import Explanation, Grant, PendingReason, Remedy
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Backoff, Hold, Kind, Workload
from jupyter_gq.scheduling.placement.shortage import Shortage
from jupyter_gq.scheduling.quota.accounts import Account, LimitKind
from jupyter_gq.scheduling.quota.min_runtime import ProtectedVictims
from jupyter_gq.scheduling.wording import (
    NAMED,
    UNOBSERVED,
    describe_duration,
    describe_gpus,
    describe_host_amount,
    describe_host_limit,
    describe_preemptor,
    describe_remaining_time,
    describe_with_amount,
    describe_workload,
    enumerate_names,
    gpu_noun,
    is_fixed_quota,
)
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.replicas import whole_workload

from .supply import OtherShortage

Numbers = Mapping[str, int]
_NAMES = {HostResource.CPU: "CPU", HostResource.MEMORY: "memory"}


def explain_unknown_queue(queue: str) -> Explanation:
    """Explain that the configuration no longer has the queue."""
    return Explanation(
        reason=PendingReason.UNKNOWN_QUEUE,
        sentence=f"Waiting: the queue {queue} is no longer in the configuration. "
        "Move it to another queue (`jupyter-gq move`), or ask your administrator.",
    )


def explain_backoff(backoff: Backoff) -> Explanation:
    """Explain that the workload pauses because a backend refused its place.

    The sentence has no countdown, since each change of a sentence is sent to every listener.
    """
    pause = round(backoff.pause)
    return Explanation(
        reason=PendingReason.PLACE_REFUSED,
        sentence=f"{backoff.sentence.rstrip('.')}. The scheduler tries again after a pause of {pause} s.",
        numbers={"times": backoff.times, "seconds": pause},
        remedy=Remedy(grant=Grant.TIME, amount=pause),
    )


def explain_hold(owner: str, hold: Hold) -> Explanation:
    """Explain that a person, perhaps the `owner`, holds the workload, or that it awaits a turn of group or machine."""
    if hold.sentence:
        reason = PendingReason.GROUP_LIMIT if hold.by else PendingReason.TASK_LIMIT
        return Explanation(reason=reason, sentence=hold.sentence)
    by = "you" if hold.by == owner else mention(hold.by, hold.by, "a manager of the queue or an administrator")
    since = datetime.fromtimestamp(hold.at, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Explanation(
        reason=PendingReason.HELD,
        sentence=f"Held by {by} since {since}. It can start again once it is released.",
        numbers={"held_at": int(hold.at)},
    )


def explain_unobserved(numbers: Numbers) -> Explanation:
    """Explain that a backend cannot be observed, so that nothing is decided about its workloads."""
    return Explanation(
        reason=PendingReason.BACKEND_UNOBSERVED,
        sentence=f"Waiting: {UNOBSERVED[0].lower()}{UNOBSERVED[1:]}",
        numbers=numbers,
    )


def explain_deferred() -> Explanation:
    """Explain that the workload fits, and starts after other workloads that its backend launches first."""
    return Explanation(
        reason=PendingReason.STARTS_SOON,
        sentence="Everything that the job needs is free. The job starts soon, after the jobs before it.",
    )


def explain_stopping_victims(numbers: Numbers, stopping: Sequence[Workload]) -> Explanation:
    """Explain that the workload is nominated for devices, and that `stopping` work must stop first."""
    names = _name_with_amounts(stopping) if stopping else "other work"
    has = "have" if len(_workload_ids(stopping)) > 1 else "has"
    return Explanation(
        reason=PendingReason.WAITS_FOR_EVICTION,
        sentence=f"Waiting: its room is kept; it starts as soon as {names} {has} stopped.",
        numbers=numbers,
        blockers=_workload_ids(stopping),
        remedy=_stop_remedy(stopping),
    )


def explain_idle_notebooks(numbers: Numbers, notebooks: Sequence[Workload], left: float) -> Explanation:
    """Explain that the workload waits for the shares of warned notebooks, which have `left` seconds left."""
    names = enumerate_names([describe_with_amount(n, gang.held(n)) for n in notebooks])
    verb = "are" if len(notebooks) > 1 else "is"
    # After that time, the next report on the notebook decides.
    when = f"in {describe_duration(left)}" if left > 0 else "now"
    return Explanation(
        reason=PendingReason.WAITS_FOR_IDLE,
        # Whether the share is suspended or its server stopped is decided when the time is over.
        sentence=f"Waiting: {names} {verb} idle and must give the GPU up {when} unless used again.",
        numbers={**numbers, "seconds_left": max(0, int(left))},
        blockers=tuple(n.id for n in notebooks),
        remedy=_stop_remedy(notebooks),
    )


def explain_min_runtime(
    numbers: Numbers, workload: Workload, running: Sequence[Workload], protected: ProtectedVictims
) -> Explanation:
    """Explain that the `running` victims have not run long enough yet to give way to the workload.

    `protected` holds all victims and the seconds until the last of them may go.
    """
    same_queue = running[0].queue == workload.queue
    whom = describe_with_amount(workload, gang.smallest(workload)) if same_queue else describe_preemptor(workload)
    return Explanation(
        reason=PendingReason.MIN_RUNTIME,
        sentence=f"Waiting: {_name_with_amounts(running)} may run {describe_remaining_time(protected.left)} before "
        f"{'they' if len(_workload_ids(running)) > 1 else 'it'} can be paused for {whom}.",
        numbers={**numbers, "seconds_left": ceil(protected.left)},
        blockers=_workload_ids(protected.victims),
        remedy=Remedy(grant=Grant.TIME, amount=ceil(protected.left)),
    )


def explain_own_reservation(
    numbers: Numbers, workload: Workload, *, free: int, using: Sequence[Workload], waited: float
) -> Explanation:
    """Explain that devices are reserved for the workload: `free` milli-GPU are free, `using` work holds the rest.

    `waited`: for how many seconds the workload has waited.
    """
    uses = "use" if len(_workload_ids(using)) > 1 else "uses"
    left = f"; {_name_with_amounts(using)} still {uses} the rest" if using else ""
    return Explanation(
        reason=PendingReason.NO_FREE_DEVICE,
        sentence=f"Waiting: after {describe_duration(waited)}, GPUs are reserved for it as they become free: "
        f"{format_gpus(free)} of {describe_gpus(gang.smallest(workload))} {_verb(free)} free so far{left}.",
        numbers={**numbers, "held": free, "seconds_waited": int(waited)},
        blockers=_workload_ids(using),
        remedy=_stop_remedy(using),
    )


def explain_reserved_devices(owners: Sequence[Workload], numbers: Numbers, now: Instant) -> Explanation:
    """Explain that the workload would fit if no devices were reserved for the owners of reservations.

    `numbers["held"]` must be the idle milli-GPU that are reserved.
    """
    free = numbers["held"]
    what = f"{describe_gpus(free)} {_verb(free)} free, but" if free else "what becomes free next is"
    return _reserved_for(owners, what, numbers, now)


def explain_reserved_host(owners: Sequence[Workload], numbers: Numbers, now: Instant) -> Explanation:
    """Explain that the workload would fit if no host resources were reserved for owners on the same nodes."""
    return _reserved_for(owners, "CPU or memory that it needs is", numbers, now)


def _reserved_for(owners: Sequence[Workload], what: str, numbers: Numbers, now: Instant) -> Explanation:
    """Explain that `what` is reserved for the owners."""
    waited = enumerate_names([f"{describe_with_amount(w, gang.smallest(w))}, {_owner_clause(w, now)}" for w in owners])
    return Explanation(
        reason=PendingReason.RESERVED,
        sentence=f"Waiting: {what} reserved for {waited}.",
        numbers=numbers,
        blockers=_workload_ids(owners),
        remedy=_stop_remedy(owners),
    )


def explain_limit(rule: LimitKind, queue: Queue, numbers: Numbers, blockers: Sequence[Workload]) -> Explanation:
    """Explain that the workload would exceed a limit of GPUs or, if it cannot be paused, the quota of a queue.

    `numbers` must have `requested`, `bound` and `bound_used` in milli-GPU.
    """
    bound, used, needs = numbers["bound"], numbers["bound_used"], format_gpus(numbers["requested"])
    advice = ""
    if rule is LimitKind.QUOTA:
        reason = PendingReason.NON_PREEMPTIBLE_OVER_QUOTA
        text = (
            f"it cannot be paused, so it must fit the quota of {queue.name}, {describe_gpus(bound)}; "
            f"work of that kind uses {format_gpus(used)} of it, and it needs {needs}"
        )
    else:
        reason = PendingReason.QUEUE_LIMIT
        name = "your fixed quota" if is_fixed_quota(queue.name) else f"the limit of {queue.name}"
        text = f"{name} is {describe_gpus(bound)}, {format_gpus(used)} of it is in use, and it needs {needs}"
        if numbers["requested"] > bound and not is_fixed_quota(queue.name):
            advice = " Ask for less, or wait for a higher limit."
    return Explanation(
        reason=reason,
        sentence=f"Waiting: {text}{_blockers_clause(blockers)}.{advice}",
        numbers=numbers,
        blockers=_workload_ids(blockers),
        remedy=Remedy(
            grant=Grant.QUOTA if rule is LimitKind.QUOTA else Grant.LIMIT,
            queue=queue.name,
            amount=used + numbers["requested"],
        ),
    )


def explain_host_limit(account: Account, used: gang.HostAmounts, workload: Workload, numbers: Numbers) -> Explanation:
    """Explain that the workload would exceed the limit of a queue for CPU or memory.

    `used`: what the queue uses of each.
    """
    needed = gang.smallest_host(workload)
    resource, limit = next(
        (each, limit)
        for each, limit in zip(HostResource, account.host_limits, strict=True)
        if limit is not None and used[each] + needed[each] > limit
    )
    uses, needs = (describe_host_amount(resource, amount) for amount in (used[resource], needed[resource]))
    return Explanation(
        reason=PendingReason.QUEUE_LIMIT,
        sentence=f"Waiting: {describe_host_limit(account.queue.name, resource, limit)}, of which it uses {uses}, "
        f"and this needs {needs}.",
        numbers={**numbers, "bound": limit, "bound_used": used[resource], "bound_requested": needed[resource]},
        remedy=Remedy(
            grant=Grant.LIMIT,
            queue=account.queue.name,
            amount=used[resource] + needed[resource],
            resource=resource.name.lower(),
        ),
    )


def explain_shortage(lack: Shortage, numbers: Numbers) -> Explanation:
    """Explain that the workload would not fit even if no other work held anything."""
    return Explanation(
        reason=PendingReason.NO_DEVICE,
        sentence=f"Waiting: it needs {lack.asked}, but {lack.have} at present.",
        numbers=numbers,
        remedy=Remedy(grant=Grant.DEVICES, amount=lack.devices),
    )


def explain_no_room(
    workload: Workload,
    queue: Queue,
    numbers: Numbers,
    blockers: Sequence[Workload],
    shortage: OtherShortage | None,
) -> Explanation:
    """Explain that other work holds what the workload needs.

    `shortage` is the reason if enough devices are idle; None = devices are short or scattered.
    """
    needed, idle, largest = numbers["requested"], numbers["idle"], numbers["largest_idle"]
    reason = PendingReason.NO_FREE_DEVICE
    if shortage is not None:
        reason, free = shortage
    elif idle == 0:
        free = "no device is idle" if not _is_choosy(workload) else "no device that it may use is idle"
    elif idle < needed:
        free = f"only {describe_gpus(idle)} {_verb(idle)} idle of the {format_gpus(needed)} it needs"
    elif "in_one_domain" in numbers:
        reason = PendingReason.NO_DOMAIN
        most = format_gpus(numbers["in_one_domain"])
        free = (
            f"{describe_gpus(idle)} {_verb(idle)} idle, at most {most} of {_pronoun(idle)} in one {_level_of(workload)}"
        )
    else:
        reason = PendingReason.FRAGMENTED
        most = format_gpus(largest)
        free = f"{describe_gpus(idle)} {_verb(idle)} idle, at most {most} of {_pronoun(idle)} on one device"
    return Explanation(
        reason=reason,
        sentence=f"Waiting: {_queue_clause(queue, numbers['used'], workload)} {free}{_blockers_clause(blockers)}.",
        numbers=numbers,
        blockers=_workload_ids(blockers),
        remedy=_stop_remedy(blockers),
    )


def add_missing_quotas(
    explain: Callable[[], Explanation], lenders: Mapping[HostResource, Sequence[str]]
) -> Explanation:
    """Return the explanation with a clause about queues that give nothing back, since they have no quota of a resource.

    `lenders`: names of queues by host resource.
    """
    why = explain()
    clauses = [
        f"{enumerate_names(names)} {'has' if len(names) == 1 else 'have'} no {_NAMES[resource]} quota, "
        f"so {'its' if len(names) == 1 else 'their'} work is not paused for this."
        for resource, names in lenders.items()
    ]
    return replace(why, sentence=" ".join([why.sentence, *clauses]))


def add_refusals(explain: Callable[[], Explanation], refused: Mapping[str, Workload]) -> Explanation:
    """Return the explanation with why idle notebooks in the way could not be suspended, and when that is tried again.

    `refused` are all such notebooks, by id. Refusals of notebooks that are no blockers are left out, as are all after
    the first `NAMED`.
    """
    why = explain()
    blockers = [refused[name] for name in why.blockers if name in refused]
    return replace(why, sentence=" ".join([why.sentence, *map(_describe_refusal, blockers[:NAMED])]))


def _describe_refusal(notebook: Workload) -> str:
    """Return why a notebook could not be suspended, and the time of the next attempt instead of a countdown.

    The reason may name processes and folders, so readers who may not see the owner's name do not see the reason.
    """
    if notebook.suspension_refusal is None:
        return ""
    at = datetime.fromtimestamp(notebook.suspension_refusal.until, tz=UTC).strftime("%H:%M:%S UTC")
    reason = mention(notebook.owner, f": {strip_controls(notebook.suspension_refusal.sentence).rstrip('.')}", "")
    return f"{describe_workload(notebook)} is idle but could not be suspended{reason}. The next attempt is at {at}."


def _verb(milli: int) -> str:
    return "are" if milli > ONE_GPU else "is"


def _pronoun(milli: int) -> str:
    return "them" if milli > ONE_GPU else "it"


def _owner_clause(owner: Workload, now: Instant) -> str:
    if owner.state is State.SUSPENDED:
        return "which may be used again at any moment"
    return f"which has waited {describe_duration(now - owner.waits_since)}"


def _level_of(workload: Workload) -> str:
    """Return the name of the level that all tasks must share; "domain" if only groups of them must."""
    return (workload.topology.required if workload.topology is not None else None) or "domain"


def _is_choosy(workload: Workload) -> bool:
    return any(
        group.request.models or group.request.node_labels or group.request.device_memory is not None
        for group in gang.groups_of(workload)
    )


def _queue_clause(queue: Queue, used: int, workload: Workload) -> str:
    """Return a clause that says what the queue uses and is guaranteed, up to and with the conjunction."""
    if workload.kind is Kind.NOTEBOOK or is_fixed_quota(queue.name):
        return f"your fixed quota of {describe_gpus(queue.quota)} allows it, but"
    guaranteed = f"{format_gpus(queue.quota)} guaranteed {gpu_noun(queue.quota)}"
    return f"{queue.name} uses {format_gpus(used)} of its {guaranteed} and"


def _blockers_clause(blockers: Sequence[Workload]) -> str:
    verb = "are" if len(_workload_ids(blockers)) > 1 else "is"
    return f"; {_name_with_amounts(blockers)} {verb} in the way" if blockers else ""


def _stop_remedy(workloads: Sequence[Workload]) -> Remedy | None:
    return Remedy(grant=Grant.STOPS, workloads=_workload_ids(workloads)) if workloads else None


def _name_with_amounts(units: Sequence[Workload]) -> str:
    """Return a phrase that names workloads with the amounts they hold; replicas of one workload are named once."""
    milli: dict[str, int] = {}
    for unit in units:
        milli[whole_workload(unit).id] = milli.get(whole_workload(unit).id, 0) + gang.held(unit)
    partly = {whole_workload(unit).id for unit in units} - {unit.id for unit in units}
    by_id = {whole_workload(unit).id: whole_workload(unit) for unit in units}
    return enumerate_names(
        [("part of " if name in partly else "") + describe_with_amount(by_id[name], milli[name]) for name in milli]
    )


def _workload_ids(units: Sequence[Workload]) -> tuple[str, ...]:
    """Return the ids of the workloads to which these workloads and replicas belong, without duplicates."""
    return tuple(dict.fromkeys(whole_workload(unit).id for unit in units))
