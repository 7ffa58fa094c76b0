"""Past usage: what each queue has held, with half of it forgotten after each half-life.

Past usage bends the parts of the surplus (see the past-usage rule of `quota.fair_share`).

Rules
-----
1. Decay. A GPU held for a second is a GPU-second. After each half-life, half of what was counted is forgotten.
2. Entry cost. A workload that starts for the first time counts at once as if it had run for `entry_cost` seconds
   already. Otherwise a burst of small jobs would seem to have used nothing until it is over.
3. Steps. Fair shares follow what was known at the last of `STEPS` steps in a half-life, not the usage of this second.
   Otherwise two queues at the same level would take one GPU from each other in every cycle.
4. Scale. Usage is measured by what the pool would give if all of it were held for ever: 0 = none of it, 1 = all of it.

See docs/decisions/0017-count-past-use-in-steps.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import exp2, log

from jupyter_gq.domain.amount import ONE_GPU, Instant, Seconds
from jupyter_gq.domain.queue_tree import sum_up
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.scheduling.policy import UsageRule

#: Number of times in a half-life at which fair shares take up the usage.
STEPS = 10
#: Fewer GPU-seconds than this are forgotten.
_NOTHING = 0.001
#: Parts are compared as whole multiples of this.
_FINEST = 10**6


@dataclass(frozen=True, kw_only=True, slots=True)
class DecayedUsage:
    """The decayed GPU-seconds of each leaf queue, at a time."""

    at: Instant
    seconds: Mapping[str, float] = field(default_factory=dict)
    #: The usage at the last step: the value of `Snapshot.usage`.
    known: Mapping[str, float] = field(default_factory=dict)
    known_at: Instant


def advance(usage: DecayedUsage, held: Mapping[str, int], now: Instant, half_life: Seconds) -> DecayedUsage:
    """Return the usage at `now`, if each leaf queue has held its milli-GPU in `held` since `usage.at`.

    The known usage is renewed only if a step of the half-life has passed since the last renewal. A time before
    `usage.at` counts as that time; tiny amounts are dropped.
    """
    passed = max(0.0, now - usage.at)
    kept = exp2(-passed / half_life)
    gained = half_life / log(2) * (1 - kept) / ONE_GPU
    seconds = {name: amount * kept for name, amount in usage.seconds.items()}
    for name, milli in held.items():
        seconds[name] = seconds.get(name, 0.0) + milli * gained
    seconds = {name: amount for name, amount in seconds.items() if amount > _NOTHING}
    if now - usage.known_at >= half_life / STEPS:
        return DecayedUsage(at=now, seconds=seconds, known=seconds, known_at=now)
    return replace(usage, at=now, seconds=seconds)


def add_entry_cost(usage: DecayedUsage, queue: str, milli: int, entry_cost: Seconds) -> DecayedUsage:
    """Return the usage after a workload of `milli` milli-GPU in a leaf queue has started for the first time.

    The queue is charged for `entry_cost` seconds of the workload.
    """
    cost = entry_cost * milli / ONE_GPU
    return replace(usage, seconds={**usage.seconds, queue: usage.seconds.get(queue, 0.0) + cost}) if cost else usage


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """Past usage in the form that the division into fair shares takes."""

    #: How much past usage counts: the factor k of the past-usage rule in `quota.fair_share`.
    counts: Fraction = Fraction(0)
    #: Usage of each queue, with all below it, as a part of its pool.
    parts: Mapping[str, Fraction] = field(default_factory=dict)


NO_PAST = Past()


def past_of(snapshot: Snapshot, rule: UsageRule) -> Past:
    """Return the past usage of each queue as a part of what its pool can give, with the factor of the rule.

    Queues without usage, or whose pool has no devices, are left out. Returns `NO_PAST` if past usage does not count by
    this rule.
    """
    if rule.half_life is None or not rule.weight:
        return NO_PAST
    queues = {queue.name: queue for queue in snapshot.queues}
    seconds = sum_up(dict(sorted(snapshot.usage.items())), queues)
    capacity: dict[str, int] = {}
    for node in snapshot.nodes:
        for device in node.devices:
            capacity[device.pool] = capacity.get(device.pool, 0) + 1
    # Held for ever, a GPU has this many seconds that are not forgotten.
    for_ever = rule.half_life / log(2)
    parts = {
        name: Fraction(round(_FINEST * amount / (capacity[queues[name].pool] * for_ever)), _FINEST)
        for name, amount in seconds.items()
        if capacity.get(queues[name].pool)
    }
    return Past(counts=Fraction(round(_FINEST * rule.weight), _FINEST), parts=parts)
