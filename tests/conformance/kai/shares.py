"""The tables of share division and of the reclaim decision, through our own division and our own reclaim rule.

Rules
-----
1. The division is the same arithmetic for every resource, so tables of other resources go through it too.
2. The reclaim decision is asked of `may_reclaim` and of the limits and quotas on the way up (`first_exceeded_limit`),
   GPUs only: our queues share nothing else.
3. A table of one way to take has columns for every resource. Our rule is asked of each, as the division is: the taker
   has to be within its quota in all of them, the giver above its share in any.
"""

from collections.abc import Iterable
from fractions import Fraction

from jupyter_gq.domain.amount import MiB, MilliGpu
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.queue import Queue
from jupyter_gq.scheduling.quota.accounts import Account, Accounts, add_usage, first_exceeded_limit
from jupyter_gq.scheduling.quota.fair_share import QueueClaim, divide
from jupyter_gq.scheduling.quota.past_usage import NO_PAST, Past
from jupyter_gq.scheduling.quota.reclaim_rights import may_reclaim

from .translate import POOL, VERY_MUCH, WITHOUT_BOUND, milli
from .verdict import Case, Difference, Untranslatable

GPU = "GPU"
#: What a request calls its amount of each resource.
COLUMN = {GPU: "gpus", "CPU": "cpu_milli", "Memory": "memory"}


def decide(case: Case) -> list[Difference]:
    """The differences of one case of share division or reclaim decision."""
    kind = case["kind"]
    if kind in {"set_resource_share", "set_resources_share", "divide_over_quota"}:
        return _divided(case)
    if kind == "hierarchy":
        return _hierarchy(case)
    if kind in {"can_reclaim", "reclaimable"}:
        return _answer(case, _may_reclaim(case))
    if kind == "strategy":
        return _answer(case, _strategy(case))
    raise Untranslatable(f"cases of the kind {kind!r} are not known")


def _answer(case: Case, ours: bool) -> list[Difference]:
    wanted = bool(case["expected"]["result"])
    return [] if ours == wanted else [Difference(what="may reclaim", expected=str(wanted), ours=str(ours))]


def _claim(queue: Case, resource: str) -> QueueClaim:
    raw = queue["resources"][resource]
    return QueueClaim(
        quota=VERY_MUCH if raw["deserved"] == WITHOUT_BOUND else milli(raw["deserved"]),
        limit=None if _is_unset(raw) else milli(raw["limit"]),
        demand=milli(raw["request"]),
        weight=round(1000 * raw["over_quota_weight"]),
        priority=int(queue["priority"]),
        past=Fraction(str(raw.get("usage", 0))),
    )


def _divided(case: Case) -> list[Difference]:
    """`divide_over_quota` begins with what is deserved already given: our division gives that first."""
    found: list[Difference] = []
    queues = sorted(case["queues"], key=lambda queue: (queue["created"], queue["id"]))
    for resource, total in case["total"].items():
        given = sum(milli(queue["resources"][resource]["fair_share"]) for queue in queues)
        claims = [_claim(queue, resource) for queue in queues]
        shares = divide(milli(total) + given, claims, Fraction(str(case.get("k_value") or 0)))
        for queue, share in zip(queues, shares, strict=True):
            found += _share(case, queue["id"], resource, share)
        if "remaining" in case["expected"]:
            left = max(0, milli(total) + given - sum(shares))
            wanted = milli(case["expected"]["remaining"])
            if left != wanted:
                found.append(Difference(what=f"{resource} left", expected=str(wanted), ours=str(left)))
    return found


def _share(case: Case, queue: str, resource: str, ours: int) -> list[Difference]:
    wanted = case["expected"]["fair_share"].get(queue, {}).get(resource)
    if wanted is None or milli(wanted) == ours:
        return []
    return [Difference(what=f"{resource} of {queue}", expected=str(milli(wanted)), ours=str(ours))]


def _accounts(queues: Iterable[Case], *, limits: bool, nodes: Iterable[Node] = (), past: Past = NO_PAST) -> Accounts:
    """The books of a table's queues, with the use and the fair shares that it states."""
    rows = list(queues)
    accounts = Accounts((_queue(row, limits=limits) for row in rows), nodes, past)
    for row in rows:
        raw = row["resources"][GPU]
        account = accounts.of(row["id"])
        account.used = account.lasting = milli(raw["allocated"])
        account.fixed_used = account.fixed_lasting = milli(raw["allocated_non_preemptible"])
        account.fair_share = milli(raw["fair_share"])
    return accounts


def _is_unset(raw: Case) -> bool:
    """No limit is set: a limit of 0 beside a quota or use is one that the table leaves out."""
    return raw["limit"] == WITHOUT_BOUND or (raw["limit"] == 0 and bool(raw["deserved"] or raw["allocated"]))


def _queue(row: Case, *, limits: bool, resource: str = GPU) -> Queue:
    raw = row["resources"][resource]
    bounded = limits and not _is_unset(raw)
    return Queue(
        name=row["id"],
        pool=POOL,
        parent=row["parent"],
        quota=VERY_MUCH if raw["deserved"] == WITHOUT_BOUND else milli(raw["deserved"]),
        limit=milli(raw["limit"]) if bounded else None,
        over_quota_weight=round(1000 * raw["over_quota_weight"]),
        priority=int(row["priority"]),
    )


def _hierarchy(case: Case) -> list[Difference]:
    """Through the books, as a cycle does; the demand is that of the leaves."""
    count = int(case["total"][GPU])
    devices = (Device(id=f"box/{i}", index=i, model="A100", memory=MiB(100), pool=POOL) for i in range(count))
    past = Past(
        counts=Fraction(str(case.get("k_value") or 0)),
        parts={row["id"]: Fraction(str(row["resources"][GPU].get("usage", 0))) for row in case["queues"]},
    )
    accounts = _accounts(case["queues"], limits=True, nodes=[Node(name="box", devices=tuple(devices))], past=past)
    for row in case["queues"]:
        if not row["children"]:
            accounts.demand(accounts.of(row["id"]), milli(row["resources"][GPU]["request"]))
    accounts.divide()
    return [d for row in case["queues"] for d in _share(case, row["id"], GPU, accounts.of(row["id"]).fair_share)]


def _may_reclaim(case: Case) -> bool:
    """May the reclaimer take anything, and each of these victims in turn? Limits are not what the table is about."""
    accounts = _accounts(case["queues"], limits=False)
    reclaimer = case["reclaimer"]
    taker, amount = accounts.of(reclaimer["queue"]), milli(reclaimer["gpus"])
    if first_exceeded_limit(taker, amount, fixed=not reclaimer["preemptible"], now=False) is not None:
        return False
    if taker.lasting + amount > taker.fair_share:
        return False
    margin = Fraction(str(case.get("saturation_multiplier") or 1))
    for queue, victims in (case.get("victims") or {}).items():
        giver = accounts.of(queue)
        for victim in victims:
            if not may_reclaim(taker, giver, amount, gives=milli(victim["gpus"]), margin=margin):
                return False
            add_usage(giver, -milli(victim["gpus"]), fixed=False)
    return True


def _strategy(case: Case) -> bool:
    """One of the two ways to take, between two siblings. Keeping fair shares asks nothing of the one that takes."""
    remaining = case["reclaimee_remaining"]
    if case["strategy"] == "MaintainFairShareStrategy":
        taker = Account(Queue(name="taker", pool=POOL))
        taker.fair_share = VERY_MUCH
        return any(may_reclaim(taker, _giver(case, name), MilliGpu(1), gives=0) for name in remaining)
    takers = {name: _side(case["reclaimer_queue"], name) for name in remaining}
    wanted = {name: milli(case["reclaimer_resources"].get(COLUMN[name], 0)) for name in remaining}
    for name, taker in takers.items():
        if taker.lasting + wanted[name] > taker.queue.quota:
            return False
        taker.fair_share = max(taker.fair_share, taker.queue.quota)
    return any(may_reclaim(takers[name], _giver(case, name), wanted[name], gives=0) for name in remaining)


def _giver(case: Case, resource: str) -> Account:
    giver = _side(case["reclaimee_queue"], resource)
    giver.lasting = milli(case["reclaimee_remaining"][resource])
    return giver


def _side(row: Case, resource: str) -> Account:
    raw = row["resources"][resource]
    account = Account(_queue({**row, "id": row["name"], "parent": None}, limits=True, resource=resource))
    account.lasting = milli(raw["allocated"])
    account.fair_share = milli(raw["fair_share"])
    if account.queue.limit is not None:  # as our division sees to it
        account.fair_share = min(account.fair_share, account.queue.limit)
    return account
