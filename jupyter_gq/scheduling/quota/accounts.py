"""Accounts of the queue tree: what each queue uses, will use and deserves.

Rules
-----
1. Path. Every charge and every check walks from the leaf up to the root.
2. Usage. `used` counts everything that holds quota now, stopping work included: a device is free when its process is
   gone. `lasting` is the usage after everything that was told to stop has stopped and everything
   nominated has started.
3. Limits. A limit holds for `used` and for `lasting`. A missing limit never means "nothing runs".
4. Fixed work. Work that is not preemptible must fit the deserved quota of each ancestor.
5. Fair shares are computed once a cycle, from what is held and what waits, so that an eviction does not change them.
   Evicted work that comes back counts as well.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from operator import attrgetter

from jupyter_gq.domain.amount import HostResource
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.errors import InvalidSnapshot
from jupyter_gq.domain.queue import Queue
from jupyter_gq.scheduling.workloads.gang import NO_HOST, HostAmounts

from .fair_share import QueueClaim, divide
from .past_usage import NO_PAST, Past


class LimitKind(StrEnum):
    """The kind of a limit that forbids a workload to start."""

    #: The limit of GPUs.
    LIMIT = "LIMIT"
    #: The quota, for work that is not preemptible.
    QUOTA = "QUOTA"
    #: A limit of CPU or memory.
    HOST = "HOST"


#: The limits of a queue that limits neither CPU nor memory.
UNSAID = (None, None)


class Account:
    """The account of one queue: its usage, demand and shares. Amounts are in milli-GPU."""

    __slots__ = (
        "chain",
        "children",
        "demand",
        "fair_share",
        "fixed_lasting",
        "fixed_unstarted_usage",
        "fixed_used",
        "host_lasting",
        "host_limits",
        "host_quotas",
        "host_unstarted",
        "host_used",
        "known",
        "lasting",
        "nominated_usage",
        "parent",
        "past",
        "queue",
        "stale",
        "unstarted_usage",
        "used",
    )

    def __init__(self, queue: Queue, *, known: bool = True) -> None:
        self.queue = queue
        #: False if workloads name the queue but the configuration does not.
        self.known = known
        self.parent: Account | None = None
        self.children: list[Account] = []
        #: The accounts from this queue up to its root.
        self.chain: tuple[Account, ...] = (self,)
        self.used = 0
        self.lasting = 0
        #: The parts of `used` and `lasting` that are not preemptible.
        self.fixed_used = 0
        self.fixed_lasting = 0
        #: CPU and memory of `used` and `lasting`, with limits and quotas; counted only if some queue names any.
        self.host_used = self.host_lasting = NO_HOST
        self.host_limits = (queue.cpu_limit, queue.memory_limit)
        self.host_quotas = (queue.cpu_quota, queue.memory_quota)
        #: The part of `lasting` that belongs to nominated work, which holds nothing yet.
        self.nominated_usage = 0
        #: The part of `lasting` that belongs to work that has not started: nominated, or admitted in this cycle.
        self.unstarted_usage = 0
        #: The part of `unstarted_usage` that is not preemptible.
        self.fixed_unstarted_usage = 0
        #: CPU and memory of the preemptible work in `unstarted_usage`.
        self.host_unstarted = NO_HOST
        #: What the subtree holds and wants, as far as the limits below this queue allow.
        self.demand = 0
        self.fair_share = 0
        #: Past usage, as a part of the pool; 0 where past usage does not count.
        self.past = Fraction(0)
        #: True if the demand has changed since fair shares were computed.
        self.stale = True

    @property
    def wanted(self) -> int:
        """The demand of the queue and all queues below it, as far as the limit allows."""
        limit = self.queue.limit
        return self.demand if limit is None else min(self.demand, limit)

    @property
    def deserved(self) -> int:
        """The quota of the queue, as far as its limit allows."""
        limit = self.queue.limit
        return self.queue.quota if limit is None else min(self.queue.quota, limit)

    @property
    def revocable(self) -> int:
        """The part of `lasting` that work which has not started is to use, and that goes before running work.

        Work that is not preemptible is not revocable, nor is what a leaf queue uses within its deserved quota.
        """
        if not self.unstarted_usage:
            return 0
        if self.children:
            return sum(child.revocable for child in self.children)
        return max(0, min(self.unstarted_usage - self.fixed_unstarted_usage, self.lasting - self.deserved))

    def revocable_host(self, resource: HostResource) -> int:
        """Return how much of the host resource `revocable` work is to use, in the unit of `host_lasting`."""
        unstarted, quota = self.host_unstarted[resource], self.host_quotas[resource]
        if not unstarted:
            return 0
        if self.children:
            return sum(child.revocable_host(resource) for child in self.children)
        return unstarted if quota is None else max(0, min(unstarted, self.host_lasting[resource] - quota))

    @property
    def over_quota(self) -> int:
        """The part of `lasting` that is above the quota; 0 if there is none."""
        return max(0, self.lasting - self.queue.quota)


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockingLimit:
    """A limit or quota that forbids a workload to start, and the account of its queue."""

    kind: LimitKind
    account: Account


#: What a cycle changes of each account.
_Sums = tuple[int, int, int, int, int, int, int, HostAmounts, HostAmounts, HostAmounts]
Sums = list[tuple[Account, _Sums]]
_sums: Callable[[Account], _Sums] = attrgetter(
    "used",
    "lasting",
    "fixed_used",
    "fixed_lasting",
    "nominated_usage",
    "unstarted_usage",
    "fixed_unstarted_usage",
    "host_used",
    "host_lasting",
    "host_unstarted",
)


class Accounts:
    """The accounts of all queues of a snapshot."""

    def __init__(
        self,
        queues: Iterable[Queue],
        nodes: Iterable[Node] = (),
        past: Past = NO_PAST,
    ) -> None:
        self._capacity: dict[str, int] = {}
        for node in nodes:
            for device in node.devices:
                self._capacity[device.pool] = self._capacity.get(device.pool, 0) + 1000 * device.healthy
        self._by_name = {queue.name: Account(queue) for queue in queues}
        for account in self._by_name.values():
            parent = self._by_name.get(account.queue.parent or "")
            account.parent = parent
            if parent is not None:
                parent.children.append(account)
        for account in self._by_name.values():
            account.chain = _chain(account)
        #: True if some queue has a limit or quota of CPU or memory; otherwise neither is counted.
        self.counts_host = any(
            bound is not None
            for account in self._by_name.values()
            for bound in (*account.host_limits, *account.host_quotas)
        )
        self._past_counts = past.counts
        for name, part in past.parts.items():
            if name in self._by_name:
                self._by_name[name].past = part

    def __iter__(self) -> Iterator[Account]:
        return iter(self._by_name.values())

    def of(self, queue: str) -> Account:
        """Return the account of the queue of that name.

        An unknown queue gets an account without quota, which is kept.
        """
        account = self._by_name.get(queue)
        if account is None:
            account = Account(Queue(name=queue, pool="", over_quota_weight=0), known=False)
            self._by_name[queue] = account
        return account

    def roots(self, pool: str) -> list[Account]:
        """Return the accounts of the root queues of a pool, by name."""
        found = [a for a in self._by_name.values() if a.parent is None and a.queue.pool == pool]
        return sorted(found, key=lambda account: account.queue.name)

    def pools(self) -> list[str]:
        """Return the names of the pools that some queue uses."""
        return sorted({account.queue.pool for account in self._by_name.values()})

    def demand(self, account: Account, milli: int) -> None:
        """Add milli-GPU that a workload of this leaf holds or wants to the demand up to the root (negative: remove it).

        Each level adds only what the limits below allow. `divide` computes fair shares from the demand.
        """
        for each in account.chain:
            before = each.wanted
            each.demand += milli
            each.stale = True
            milli = each.wanted - before

    def divide(self) -> None:
        """Compute fair shares anew where the demand of a queue or a sibling, or the fair share above, has changed."""
        for pool in self.pools():
            _divide(self._capacity.get(pool, 0), self.roots(pool), self._past_counts, changed=False)

    def copy(self) -> Sums:
        """Return the usage of all accounts, to be given to `restore`."""
        return [(account, _sums(account)) for account in self._by_name.values()]

    def restore(self, before: Sums) -> None:
        """Set the usage of all accounts back to what `copy` returned."""
        for account, sums in before:
            if _sums(account) != sums:
                account.used, account.lasting, account.fixed_used, account.fixed_lasting = sums[:4]
                account.nominated_usage, account.unstarted_usage, account.fixed_unstarted_usage = sums[4:7]
                account.host_used, account.host_lasting, account.host_unstarted = sums[7:]


def add_usage(
    account: Account, milli: int, *, fixed: bool, now: bool = True, later: bool = True, host: HostAmounts = NO_HOST
) -> None:
    """Add `milli` (negative: remove) and `host` to the accounts from the leaf to the root.

    Adds to `used` if `now`, and to `lasting` if `later`. `fixed`: the work is not preemptible.
    """
    used = milli if now else 0
    lasting = milli if later else 0
    for each in account.chain:
        each.used += used
        each.lasting += lasting
        if fixed:
            each.fixed_used += used
            each.fixed_lasting += lasting
        if host is not NO_HOST:
            each.host_used = _plus(each.host_used, host) if now else each.host_used
            each.host_lasting = _plus(each.host_lasting, host) if later else each.host_lasting


def _plus(one: HostAmounts, other: HostAmounts) -> HostAmounts:
    return (one[0] + other[0], one[1] + other[1])


def add_nominated_usage(account: Account, milli: int, *, fixed: bool, host: HostAmounts = NO_HOST) -> None:
    """Add nominated work (negative: remove it) to `lasting`, `nominated_usage` and `unstarted_usage`.

    The accounts from the leaf to the root are updated.
    """
    add_usage(account, milli, fixed=fixed, now=False, host=host)
    add_unstarted_usage(account, milli, fixed=fixed, host=host)
    for each in account.chain:
        each.nominated_usage += milli


def add_unstarted_usage(account: Account, milli: int, *, fixed: bool, host: HostAmounts = NO_HOST) -> None:
    """Count as unstarted, from the leaf to the root, what counts in `lasting` already (negative: remove it)."""
    for each in account.chain:
        each.unstarted_usage += milli
        if fixed:
            each.fixed_unstarted_usage += milli
        elif host is not NO_HOST:
            each.host_unstarted = _plus(each.host_unstarted, host)


def first_exceeded_limit(
    account: Account, milli: int, *, fixed: bool, now: bool, host: HostAmounts = NO_HOST
) -> BlockingLimit | None:
    """Return the first limit or quota, from the leaf up, that adding `milli` and `host` would exceed; None if none.

    `fixed`: the work is not preemptible, so quotas bind it as well. If `now` is false, work that is stopping counts as
    gone.
    """
    for each in account.chain:
        limit = each.queue.limit
        if limit is not None and (max(each.used, each.lasting) if now else each.lasting) + milli > limit:
            return BlockingLimit(kind=LimitKind.LIMIT, account=each)
        if fixed and (
            (max(each.fixed_used, each.fixed_lasting) if now else each.fixed_lasting) + milli > each.queue.quota
        ):
            return BlockingLimit(kind=LimitKind.QUOTA, account=each)
        if each.host_limits != UNSAID and _is_above_host_limit(each, host, now):
            return BlockingLimit(kind=LimitKind.HOST, account=each)
    return None


def _is_above_host_limit(account: Account, host: HostAmounts, now: bool) -> bool:
    """Tell whether adding `host` would exceed a limit of CPU or memory; `now` as in `first_exceeded_limit`."""
    for limit, used, lasting, more in zip(
        account.host_limits, account.host_used, account.host_lasting, host, strict=True
    ):
        if limit is not None and (max(used, lasting) if now else lasting) + more > limit:
            return True
    return False


def is_entitled(account: Account, milli: int) -> bool:
    """Tell whether every queue from the leaf to the root stays within its quota with `milli` more."""
    return all(each.lasting + milli <= each.queue.quota for each in account.chain)


def _chain(account: Account) -> tuple[Account, ...]:
    """Return the accounts from this one up to its root; raise `InvalidSnapshot` if the queues are not a tree."""
    chain = [account]
    while chain[-1].parent is not None:
        if chain[-1].parent is account:
            raise InvalidSnapshot(f"the queue {account.queue.name!r} is its own ancestor; the queues must be a tree")
        chain.append(chain[-1].parent)
        if len(chain) > 1000:
            raise InvalidSnapshot(f"an ancestor of {account.queue.name!r} is its own ancestor; they must be a tree")
    return tuple(chain)


def _divide(total: int, siblings: list[Account], past_counts: Fraction, *, changed: bool) -> None:
    """Set the fair shares of sibling queues to parts of `total`, and then those of the queues below them.

    Nothing is done if no demand of the siblings has changed and `changed`, which says whether the total has, is false.
    """
    if not changed and not any(each.stale for each in siblings):
        return
    claims = [
        QueueClaim(
            quota=each.queue.quota,
            limit=each.queue.limit,
            demand=each.demand,
            weight=each.queue.over_quota_weight,
            priority=each.queue.priority,
            past=each.past,
        )
        for each in siblings
    ]
    for each, fair_share in zip(siblings, divide(total, claims, past_counts), strict=True):
        another = each.fair_share != fair_share
        each.fair_share, each.stale = fair_share, False
        if each.children:
            below = sorted(each.children, key=lambda account: account.queue.name)
            _divide(fair_share, below, past_counts, changed=another)
