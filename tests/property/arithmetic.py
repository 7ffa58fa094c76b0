"""The judge's own arithmetic: usage, fair shares, rights and places, worked out from the specification alone.

Nothing here calls the scheduling core, so that a law and the code that it judges cannot share a mistake. Everything is
computed anew for each question, in the plainest way: the clusters of the property tests have a handful of devices.

Words
-----
used: what a queue and all below it hold now, work that is stopping included.
lasting: what they will hold when all that was told to stop has stopped and all that has a kept place has started.
fixed: the part that is not preemptible.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import log

from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Request, TaskPlacement, Workload
from jupyter_gq.scheduling.policy import MinRuntimeMethod, Policy, UsageRule
from tests.builders import NOW, groups_of
from tests.property.free import GPU, Free, free_soon, lenders_to, staying_at

#: GPUs in thousandths, processors in thousandths of a core, memory of nodes in MiB.
Amounts = tuple[int, int, int]
NOTHING: Amounts = (0, 0, 0)
_MILLION = 10**6


def amounts_of(request: Request) -> Amounts:
    return (request.devices * request.milli_per_device, request.cpu_milli, request.memory)


def total(amounts: Iterator[Amounts] | Sequence[Amounts]) -> Amounts:
    found = list(amounts)
    return (sum(a[0] for a in found), sum(a[1] for a in found), sum(a[2] for a in found))


def of_tasks(workload: Workload, tasks: Sequence[TaskPlacement]) -> Amounts:
    """What these tasks of the workload take."""
    return total([amounts_of(workload.request_of(task.group)) for task in tasks])


def held(workload: Workload) -> Amounts:
    return of_tasks(workload, workload.placement)


def smallest(workload: Workload) -> Amounts:
    """What the smallest gang takes."""
    return total([amounts_of(group.request) for group in groups_of(workload) for _ in range(group.min_members)])


def wanted(workload: Workload) -> int:
    """Milli-GPU of all tasks that the workload would like to have."""
    return sum(amounts_of(group.request)[0] * group.tasks for group in groups_of(workload))


@dataclass(kw_only=True)
class Tally:
    """One queue, with all below it."""

    queue: Queue
    used: Amounts = NOTHING
    lasting: Amounts = NOTHING
    fixed_used: int = 0
    fixed_lasting: int = 0
    #: Milli-GPU that the queue's own workloads hold or wait for.
    demand: int = 0
    fair_share: int = 0
    children: list["Tally"] = field(default_factory=list)

    @property
    def deserved(self) -> int:
        return self.queue.quota if self.queue.limit is None else min(self.queue.quota, self.queue.limit)

    @property
    def limits(self) -> tuple[int | None, int | None, int | None]:
        return (self.queue.limit, self.queue.cpu_limit, self.queue.memory_limit)

    @property
    def host_quotas(self) -> tuple[int | None, int | None]:
        """Guaranteed processors and memory; None where the queue says nothing."""
        return (self.queue.cpu_quota, self.queue.memory_quota)

    def wants(self) -> int:
        """Milli-GPU that the queue and all below it want, as far as the limits on the way allow."""
        everything = self.demand + sum(child.wants() for child in self.children)
        return everything if self.queue.limit is None else min(everything, self.queue.limit)


class Books:
    """All queues of a snapshot with their usage and fair shares."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.snapshot, self.policy = snapshot, policy
        self.tallies = {queue.name: Tally(queue=queue) for queue in snapshot.queues}
        for tally in self.tallies.values():
            if tally.queue.parent is not None:
                self.tallies[tally.queue.parent].children.append(tally)
        bounds = [b for q in snapshot.queues for b in (q.cpu_limit, q.memory_limit, q.cpu_quota, q.memory_quota)]
        #: Processors and memory are counted only where some queue says something of them.
        self.counts_host = any(bound is not None for bound in bounds)
        for workload in snapshot.workloads:
            self._enter(workload)
        #: The places that are kept for workloads.
        self.kept = kept_places(snapshot, self)
        for workload, place in self.kept:
            self.add_usage(workload, of_tasks(workload, place), now=False)
        self._share_out()

    def path(self, queue: str) -> list[Tally]:
        """The queue and those above it, from the leaf to the root."""
        found = [self.tallies[queue]]
        while found[-1].queue.parent is not None:
            found.append(self.tallies[found[-1].queue.parent])
        return found

    def add_usage(
        self, workload: Workload, amounts: Amounts, *, sign: int = 1, now: bool = True, later: bool = True
    ) -> None:
        """Add to `used` (now) and to `lasting` (later) of all queues of the workload."""
        milli, cpu, memory = (sign * amount for amount in amounts)
        host = (cpu, memory) if self.counts_host else (0, 0)
        for tally in self.path(workload.queue):
            if now:
                tally.used = total([tally.used, (milli, *host)])
            if later:
                tally.lasting = total([tally.lasting, (milli, *host)])
            if not workload.preemptible:
                tally.fixed_used += milli * now
                tally.fixed_lasting += milli * later

    def is_entitled(self, workload: Workload) -> bool:
        """Whether the smallest gang fits into what all queues above it deserve."""
        more = smallest(workload)[0]
        return all(tally.lasting[0] + more <= tally.queue.quota for tally in self.path(workload.queue))

    def is_forbidden(self, workload: Workload, *, soon: bool = False) -> bool:
        """Whether a limit, or the quota for work that is not preemptible, forbids to start the smallest gang.

        `soon`: judged by what is left once everything that is stopping has stopped.
        """
        more = smallest(workload)
        for tally in self.path(workload.queue):
            both = (tally.lasting,) if soon else (tally.used, tally.lasting)
            for limit, amount, *counts in zip(tally.limits, more, *both, strict=True):
                if limit is not None and max(counts) + amount > limit:
                    return True
            fixed = tally.fixed_lasting if soon else max(tally.fixed_used, tally.fixed_lasting)
            if not workload.preemptible and fixed + more[0] > tally.queue.quota:
                return True
        return False

    def may_reclaim(self, taker: Workload, victim: Workload) -> bool:
        """Whether the taker's queue may take the GPUs of this one victim of another queue.

        The two are compared where their paths part. Below, the taker stays within its fair shares and the giver is
        above what it deserves. There, the taker stays within what it deserves (the guarantee), or the giver is above
        its fair share (fairness); a department may pass its fair share while the giver stays further above its own.
        """
        ours, theirs = _parted(self.path(taker.queue), self.path(victim.queue))
        if not ours or not theirs:
            return False
        more, gives = smallest(taker)[0], held(victim)[0]
        top, giver = ours[-1], theirs[-1]
        if any(tally.lasting[0] + more > tally.fair_share for tally in (ours[:-1] or ours)):
            return False
        if any(tally.lasting[0] <= tally.deserved for tally in theirs):
            return False
        if top.lasting[0] + more > top.fair_share and not (len(ours) > 1 and self._is_further(giver, gives, top, more)):
            return False
        return top.lasting[0] + more <= top.deserved or giver.lasting[0] > giver.fair_share

    def is_above_its_share(self, taker: Workload, victim: Workload) -> bool:
        """Whether each queue of the victim, below where the paths part, is above its fair share."""
        _, theirs = _parted(self.path(taker.queue), self.path(victim.queue))
        return all(tally.lasting[0] > tally.fair_share for tally in theirs)

    def may_take(self, taker: Workload, victim: Workload) -> bool:
        """Whether the taker may have the place of this victim, of its own queue or of another one, as things stand.

        A claim on GPUs needs that the taker exceeds no quota of processors or memory. Without a GPU, nothing is taken
        by it from queues within their fair shares.
        """
        if victim.queue == taker.queue:
            return victim.priority < taker.priority
        if self.may_reclaim_host(taker, victim):
            return True
        ours, _ = _parted(self.path(taker.queue), self.path(victim.queue))
        if not all(_is_within_host_quota(tally, which, more) for tally in ours for which, more in _host_of(taker)):
            return False
        return self.may_reclaim(taker, victim) and (smallest(taker)[0] > 0 or self.is_above_its_share(taker, victim))

    def may_reclaim_host(self, taker: Workload, victim: Workload) -> bool:
        """Whether processors or memory that the taker's queue is guaranteed give it the place of the victim.

        For one of both, the taker stays within its quotas, and the giver is above its own wherever it has any.
        """
        ours, theirs = _parted(self.path(taker.queue), self.path(victim.queue))
        for which, more in _host_of(taker) if ours and theirs else ():
            said = [tally for tally in theirs if tally.host_quotas[which] is not None]
            is_above = bool(said) and not any(_is_within_host_quota(tally, which, 0) for tally in said)
            if is_above and all(_is_within_host_quota(tally, which, more) for tally in ours):
                return True
        return False

    def is_guaranteed_host(self, workload: Workload) -> bool:
        """Whether some queue guarantees processors or memory that the workload needs, and none less than that."""
        path, needed = self.path(workload.queue), _host_of(workload)
        is_said = any(tally.host_quotas[which] is not None for tally in path for which, _ in needed)
        return is_said and self.is_within_host_quotas(workload)

    def is_within_host_quotas(self, workload: Workload) -> bool:
        """Whether no queue on the path exceeds a quota of processors or memory that the workload needs."""
        return all(
            _is_within_host_quota(tally, which, more)
            for tally in self.path(workload.queue)
            for which, more in _host_of(workload)
        )

    def _is_further(self, giver: Tally, gives: int, taker: Tally, more: int) -> bool:
        """Whether the giver, after it, is still further above its fair share than the taker then is."""
        if giver.fair_share == 0:
            return True
        margin = Fraction(self.policy.reclaim_margin).limit_denominator(_MILLION)
        return margin * (taker.lasting[0] + more) * giver.fair_share < (giver.lasting[0] - gives) * taker.fair_share

    def uses_more_host_than_guaranteed(self, queue: str) -> bool:
        """Whether a queue on the path uses more processors or memory than its quota of them."""
        return any(
            quota is not None and tally.lasting[1 + which] > quota
            for tally in self.path(queue)
            for which, quota in enumerate(tally.host_quotas)
        )

    def has_run_long_enough(self, victim: Workload, taker: Workload) -> bool:
        """Whether the min runtime that protects the victim from this taker is over."""
        path, rule = [tally.queue for tally in self.path(victim.queue)], self.policy.min_runtime
        if victim.queue == taker.queue:
            said = [queue.preempt_min_runtime for queue in path]
            default = rule.preempt
        else:
            if rule.method is MinRuntimeMethod.LCA:
                above = {tally.queue.name for tally in self.path(taker.queue)}
                apart = [queue for queue in path if queue.name not in above]
                path = path[len(apart) - 1 :] if apart else path
            said = [queue.reclaim_min_runtime for queue in path]
            default = rule.reclaim
        least = next((seconds for seconds in said if seconds is not None), default)
        return victim.started_at is None or NOW - victim.started_at >= least

    def _enter(self, workload: Workload) -> None:
        tally = self.tallies[workload.queue]
        if workload.state is State.PENDING:
            tally.demand += wanted(workload)
        if not workload.holds:
            return
        stops = workload.state is State.STOPPING
        self.add_usage(workload, held(workload), later=not stops)
        self.add_usage(workload, of_tasks(workload, [leaving.task for leaving in workload.leaving]), later=False)
        if not stops or (workload.stop is not None and workload.stop.requeue):
            tally.demand += max(held(workload)[0], wanted(workload))

    def _share_out(self) -> None:
        """Divide each pool among its roots, and each queue's fair share among its children."""
        healthy: dict[str, int] = {}
        for device in (device for node in self.snapshot.nodes for device in node.devices):
            healthy[device.pool] = healthy.get(device.pool, 0) + GPU * device.healthy
        past = _past_use(self.snapshot, self.policy.usage)
        bends = Fraction(0)
        if self.policy.usage.half_life is not None:
            bends = Fraction(round(_MILLION * self.policy.usage.weight), _MILLION)
        for pool in {queue.pool for queue in self.snapshot.queues}:
            roots = [t for t in self.tallies.values() if t.queue.parent is None and t.queue.pool == pool]
            _divide(healthy.get(pool, 0), roots, past, bends)


def _divide(amount: int, siblings: list[Tally], past: dict[str, Fraction], bends: Fraction) -> None:
    """Give each sibling its fair share of an amount: what it deserves, then surplus by priority and weight.

    Surplus goes in whole GPUs; what rounding leaves over goes GPU by GPU to the largest remainder.
    """
    siblings = sorted(siblings, key=lambda tally: tally.queue.name)
    for tally in siblings:
        tally.fair_share = min(tally.queue.quota, tally.wants())
    surplus = amount - sum(tally.fair_share for tally in siblings)
    leftovers: list[list[tuple[Fraction, Tally]]] = []
    for priority in sorted({tally.queue.priority for tally in siblings}, reverse=True):
        same = [tally for tally in siblings if tally.queue.priority == priority]
        surplus, leftover = _by_weight(surplus, same, past, bends)
        leftovers.append(leftover)
    for leftover in leftovers:
        for _, tally in sorted(leftover, key=lambda entry: -entry[0]):
            given = max(0, min(GPU, surplus, tally.wants() - tally.fair_share))
            tally.fair_share += given
            surplus -= given
    for tally in siblings:
        _divide(tally.fair_share, tally.children, past, bends)


def _by_weight(
    surplus: int, same: list[Tally], past: dict[str, Fraction], bends: Fraction
) -> tuple[int, list[tuple[Fraction, Tally]]]:
    """Divide by weight among siblings of one priority, until nobody gives anything back; return what is left."""
    remainders: dict[str, tuple[Fraction, Tally]] = {}
    while surplus > 0:
        hungry = [t for t in same if t.wants() > t.fair_share and t.queue.over_quota_weight > 0]
        weights = sum(tally.queue.over_quota_weight for tally in hungry)
        parts = {}
        for tally in hungry:
            part = Fraction(tally.queue.over_quota_weight, weights)
            part += bends * (part - past.get(tally.queue.name, Fraction(0)))
            if part > 0:
                parts[tally.queue.name] = part
        before, gave_back = surplus, False
        for tally in (tally for tally in hungry if tally.queue.name in parts):
            fair = before * parts[tally.queue.name] / sum(parts.values())
            lacks = tally.wants() - tally.fair_share
            given = lacks if lacks <= fair else int(fair // GPU) * GPU
            remainders.pop(tally.queue.name, None)
            if lacks > fair:
                remainders[tally.queue.name] = (fair - given, tally)
            gave_back = gave_back or lacks < fair
            tally.fair_share += given
            surplus -= given
        if not gave_back:
            break
    return surplus, list(remainders.values())


def _past_use(snapshot: Snapshot, rule: UsageRule) -> dict[str, Fraction]:
    """What each queue has used, as a part of what its pool gives to one that holds all of it for ever."""
    if rule.half_life is None:
        return {}
    parents = {queue.name: queue.parent for queue in snapshot.queues}
    pools = {queue.name: queue.pool for queue in snapshot.queues}
    seconds: dict[str, float] = {}
    for leaf, amount in sorted(snapshot.usage.items()):
        name: str | None = leaf
        while name is not None:
            seconds[name] = seconds.get(name, 0.0) + amount
            name = parents[name]
    devices = [device.pool for node in snapshot.nodes for device in node.devices]
    for_ever = rule.half_life / log(2)
    return {
        name: Fraction(round(_MILLION * amount / (devices.count(pools[name]) * for_ever)), _MILLION)
        for name, amount in seconds.items()
        if devices.count(pools[name])
    }


def _parted(ours: list[Tally], theirs: list[Tally]) -> tuple[list[Tally], list[Tally]]:
    """The two paths as far as they have nothing in common."""
    shared = {tally.queue.name for tally in ours} & {tally.queue.name for tally in theirs}
    return ([t for t in ours if t.queue.name not in shared], [t for t in theirs if t.queue.name not in shared])


def _host_of(workload: Workload) -> list[tuple[int, int]]:
    """What the smallest gang needs of processors (0) and memory (1), without what it does not need."""
    return [(which, more) for which, more in enumerate(smallest(workload)[1:]) if more]


def _is_within_host_quota(tally: Tally, which: int, more: int) -> bool:
    quota = tally.host_quotas[which]
    return quota is None or tally.lasting[1 + which] + more <= quota


def kept_places(snapshot: Snapshot, books: Books) -> list[tuple[Workload, tuple[TaskPlacement, ...]]]:
    """The places that were written down for workloads and are, or will be, free.

    Those for which other work was told to stop come first, then the longest wait. A workload that stops in order to go
    on elsewhere is asked in any case; one that waits only if no place of an earlier one that could not be kept needs a
    device of it.
    """
    free, found = free_soon(snapshot), []
    contended: set[str] = set()
    reserved = [workload for workload in snapshot.workloads if workload.reserved]
    for workload in sorted(reserved, key=lambda w: (not w.nominated, w.waits_since, w.submitted_at, w.id)):
        comes_back = (
            workload.state is State.STOPPING and workload.stop is not None and workload.stop.requeue
        ) or workload.state is State.PENDING
        devices = {device for task in workload.reserved for device in task.devices}
        asked = workload.state is State.STOPPING or not devices & contended
        whole = replace(workload, placement=workload.reserved)
        left = Free({**free.devices}, {**free.nodes})
        left.take(workload, workload.reserved)
        beside = Free({**left.devices}, {**left.nodes})
        beside.take_lent(lenders_to(snapshot, workload), [*staying_at(snapshot), *found])
        known = devices <= free.devices.keys() and all(task.node in free.nodes for task in workload.reserved)
        if (
            asked
            and comes_back
            and known
            and beside.has_all(devices)
            and left.holds()
            and not _passes_a_limit(books, whole, found)
        ):
            free = left
            found.append((workload, workload.reserved))
        else:
            contended |= devices
    return found


def _passes_a_limit(
    books: Books, workload: Workload, kept: Sequence[tuple[Workload, tuple[TaskPlacement, ...]]]
) -> bool:
    """Whether the kept place would lift a queue above a limit, with the places that are kept already."""
    for tally in books.path(workload.queue):
        below = [of_tasks(w, place) for w, place in kept if tally in books.path(w.queue)]
        fixed = [of_tasks(w, place)[0] for w, place in kept if not w.preemptible and tally in books.path(w.queue)]
        lasting = total([tally.lasting, *below, held(workload)])
        if any(limit is not None and have > limit for limit, have in zip(tally.limits, lasting, strict=True)):
            return True
        if not workload.preemptible and tally.fixed_lasting + sum(fixed) + held(workload)[0] > tally.queue.quota:
            return True
    return False
