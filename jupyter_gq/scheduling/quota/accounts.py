"""The accounts of the queue tree: what is used, what is promised, what is deserved.

Rules
-----
1. Every charge and every check walks from the leaf up to the root.
2. `used` counts all that holds quota now, also what is stopping: a device is free when its process is gone.
   `lasting` is what it will be when everything told to stop has stopped and everything promised has started.
3. A limit holds for both. A missing limit never means "nothing runs".
4. Work that is not preemptible must fit the deserved quota of each ancestor.
5. Fair shares are computed once a cycle, from what is held and what waits (also what was evicted and comes back),
   so that an eviction does not change them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from operator import attrgetter

from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.errors import InvalidSnapshot
from jupyter_gq.domain.queue import Queue
from jupyter_gq.scheduling.workloads.gang import NO_REST, Rest

from .fair_share import Claim, divide
from .past_usage import NO_PAST, Past


class Rule(StrEnum):
    """Which promise forbids something."""

    LIMIT = "LIMIT"
    QUOTA = "QUOTA"
    #: A limit of processors or memory.
    REST = "REST"


#: A queue says nothing of processors and memory.
UNSAID = (None, None)


class Account:
    """The books of one queue. Amounts are milli-GPU."""

    __slots__ = (
        "chain",
        "children",
        "demand",
        "fair_share",
        "fixed_lasting",
        "fixed_used",
        "known",
        "lasting",
        "parent",
        "past",
        "pledged",
        "queue",
        "rest_lasting",
        "rest_limit",
        "rest_quota",
        "rest_used",
        "stale",
        "used",
    )

    def __init__(self, queue: Queue, *, known: bool = True) -> None:
        self.queue = queue
        #: False: workloads name it, but the configuration does not.
        self.known = known
        self.parent: Account | None = None
        self.children: list[Account] = []
        #: From itself up to its root.
        self.chain: tuple[Account, ...] = (self,)
        self.used = 0
        self.lasting = 0
        #: The parts of `used` and `lasting` that are not preemptible.
        self.fixed_used = 0
        self.fixed_lasting = 0
        #: Processors and memory of `used` and `lasting`, and what the queue says of them; counted only if one does.
        self.rest_used = self.rest_lasting = NO_REST
        self.rest_limit = (queue.cpu_limit, queue.memory_limit)
        self.rest_quota = (queue.cpu_quota, queue.memory_quota)
        #: The part of `lasting` that is only promised, and holds nothing yet.
        self.pledged = 0
        #: What its subtree holds and wants, as far as the limits below it allow.
        self.demand = 0
        self.fair_share = 0
        #: What it has used, as a part of its pool; 0 where past use does not count.
        self.past = Fraction(0)
        #: Its demand has changed since shares were divided.
        self.stale = True

    @property
    def wanted(self) -> int:
        """Its demand as far as its limit allows."""
        limit = self.queue.limit
        return self.demand if limit is None else min(self.demand, limit)

    @property
    def deserved(self) -> int:
        """Its quota as far as its limit allows."""
        limit = self.queue.limit
        return self.queue.quota if limit is None else min(self.queue.quota, limit)

    @property
    def over_quota(self) -> int:
        """The part of `lasting` above the deserved quota."""
        return max(0, self.lasting - self.queue.quota)


@dataclass(frozen=True, kw_only=True, slots=True)
class Obstacle:
    """The promise that forbids something, and the queue that made it."""

    rule: Rule
    account: Account


#: What a cycle changes of each account.
_Sums = tuple[int, int, int, int, int, Rest, Rest]
Sums = list[tuple[Account, _Sums]]
_sums: Callable[[Account], _Sums] = attrgetter(
    "used", "lasting", "fixed_used", "fixed_lasting", "pledged", "rest_used", "rest_lasting"
)


class Accounts:
    """All queues of a snapshot."""

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
        #: Some queue says something of processors or memory: otherwise nobody counts them.
        self.counts_rest = any(
            bound is not None
            for account in self._by_name.values()
            for bound in (*account.rest_limit, *account.rest_quota)
        )
        self._past_counts = past.counts
        for name, part in past.parts.items():
            if name in self._by_name:
                self._by_name[name].past = part

    def __iter__(self) -> Iterator[Account]:
        return iter(self._by_name.values())

    def of(self, queue: str) -> Account:
        """The account of that queue; one without quota and without devices if the configuration has none."""
        account = self._by_name.get(queue)
        if account is None:
            account = Account(Queue(name=queue, pool="", over_quota_weight=0), known=False)
            self._by_name[queue] = account
        return account

    def roots(self, pool: str) -> list[Account]:
        """The roots of that pool, by name."""
        found = [a for a in self._by_name.values() if a.parent is None and a.queue.pool == pool]
        return sorted(found, key=lambda account: account.queue.name)

    def pools(self) -> list[str]:
        """The pools that some queue uses."""
        return sorted({account.queue.pool for account in self._by_name.values()})

    def demand(self, account: Account, milli: int) -> None:
        """Count what a workload of this leaf holds or wants (negative: no more); takes effect with `divide`."""
        for each in account.chain:
            before = each.wanted
            each.demand += milli
            each.stale = True
            milli = each.wanted - before

    def divide(self) -> None:
        """Compute the fair shares that a changed demand may have changed (rule 5)."""
        for pool in self.pools():
            _divide(self._capacity.get(pool, 0), self.roots(pool), self._past_counts, changed=False)

    def copy(self) -> Sums:
        """The sums of every account, for `restore`."""
        return [(account, _sums(account)) for account in self._by_name.values()]

    def restore(self, before: Sums) -> None:
        """The sums are again what they were."""
        for account, sums in before:
            if _sums(account) != sums:
                account.used, account.lasting, account.fixed_used, account.fixed_lasting, account.pledged = sums[:5]
                account.rest_used, account.rest_lasting = sums[5:]


def charge(
    account: Account, milli: int, *, fixed: bool, now: bool = True, later: bool = True, rest: Rest = NO_REST
) -> None:
    """Add `milli` (negative: take off) and `rest` to `used` (now) and to `lasting` (later), up to the root."""
    used = milli if now else 0
    lasting = milli if later else 0
    for each in account.chain:
        each.used += used
        each.lasting += lasting
        if fixed:
            each.fixed_used += used
            each.fixed_lasting += lasting
        if rest is not NO_REST:
            each.rest_used = _plus(each.rest_used, rest) if now else each.rest_used
            each.rest_lasting = _plus(each.rest_lasting, rest) if later else each.rest_lasting


def _plus(one: Rest, other: Rest) -> Rest:
    return (one[0] + other[0], one[1] + other[1])


def pledge(account: Account, milli: int, *, fixed: bool, rest: Rest = NO_REST) -> None:
    """Add a promise of `milli` and `rest` (negative: take it back) to `lasting`, up to the root."""
    charge(account, milli, fixed=fixed, now=False, rest=rest)
    for each in account.chain:
        each.pledged += milli


def obstacle(account: Account, milli: int, *, fixed: bool, now: bool, rest: Rest = NO_REST) -> Obstacle | None:
    """The first promise on the way up that forbids to add `milli`, now or once all that stops has stopped."""
    for each in account.chain:
        limit = each.queue.limit
        if limit is not None and (max(each.used, each.lasting) if now else each.lasting) + milli > limit:
            return Obstacle(rule=Rule.LIMIT, account=each)
        if fixed and (
            (max(each.fixed_used, each.fixed_lasting) if now else each.fixed_lasting) + milli > each.queue.quota
        ):
            return Obstacle(rule=Rule.QUOTA, account=each)
        if each.rest_limit != UNSAID and _is_above_rest(each, rest, now):
            return Obstacle(rule=Rule.REST, account=each)
    return None


def _is_above_rest(account: Account, rest: Rest, now: bool) -> bool:
    for limit, used, lasting, more in zip(
        account.rest_limit, account.rest_used, account.rest_lasting, rest, strict=True
    ):
        if limit is not None and (max(used, lasting) if now else lasting) + more > limit:
            return True
    return False


def entitled(account: Account, milli: int) -> bool:
    """Every queue on the way up stays within its deserved quota with `milli` more."""
    return all(each.lasting + milli <= each.queue.quota for each in account.chain)


def _chain(account: Account) -> tuple[Account, ...]:
    chain = [account]
    while chain[-1].parent is not None:
        if chain[-1].parent is account:
            raise InvalidSnapshot(f"the queue {account.queue.name!r} is its own ancestor; the queues must be a tree")
        chain.append(chain[-1].parent)
        if len(chain) > 1000:
            raise InvalidSnapshot(f"an ancestor of {account.queue.name!r} is its own ancestor; they must be a tree")
    return tuple(chain)


def _divide(total: int, siblings: list[Account], past_counts: Fraction, *, changed: bool) -> None:
    """Divide among siblings and below them, where demand or (`changed`) the total is not what it was."""
    if not changed and not any(each.stale for each in siblings):
        return
    claims = [
        Claim(
            quota=each.queue.quota,
            limit=each.queue.limit,
            demand=each.demand,
            weight=each.queue.over_quota_weight,
            priority=each.queue.priority,
            past=each.past,
        )
        for each in siblings
    ]
    for each, share in zip(siblings, divide(total, claims, past_counts), strict=True):
        another = each.fair_share != share
        each.fair_share, each.stale = share, False
        if each.children:
            below = sorted(each.children, key=lambda account: account.queue.name)
            _divide(share, below, past_counts, changed=another)
