"""Guarantees and the right to reclaim: what is within quota, and which queue may take one victim from which other.

The rules are those of `evict.reclaim`: comparison, guarantee, fairness, and the rule for the levels below.
"""

from collections.abc import Sequence
from fractions import Fraction

from jupyter_gq.domain.amount import HostResource
from jupyter_gq.domain.queue_tree import part_paths
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.gang import HostAmounts

from .accounts import Account, is_entitled

ONCE = Fraction(1)


def is_guaranteed(account: Account, workload: Workload) -> bool:
    """Tell whether every queue from the leaf to the root stays within what it is guaranteed with the workload.

    The workload counts with its smallest gang. Work that needs no GPU is guaranteed only what quotas of CPU and memory
    guarantee: of what it needs, some queue must have a quota, and no queue may exceed one.
    """
    milli = gang.smallest(workload)
    return is_entitled(account, milli) if milli else _is_within_host_quotas(account.chain, gang.smallest_host(workload))


def is_within_quota(account: Account, workload: Workload) -> bool:
    """Tell whether this one queue stays within what it is guaranteed with the workload (see `is_guaranteed`)."""
    milli = gang.smallest(workload)
    if milli:
        return account.lasting + milli <= account.queue.quota
    return _is_within_host_quotas((account,), gang.smallest_host(workload))


def _is_within_host_quotas(path: tuple[Account, ...], needed: HostAmounts) -> bool:
    said = [
        (each, resource)
        for each in path
        for resource in HostResource
        if needed[resource] and each.host_quotas[resource] is not None
    ]
    return bool(said) and all(_within(each, resource, needed[resource]) for each, resource in said)


def may_reclaim(
    taker: Account, giver: Account, milli: int, *, gives: int, started: bool = True, margin: Fraction = ONCE
) -> bool:
    """Tell whether the rules on guarantee and fairness let the leaf `taker` reclaim one victim from the leaf `giver`.

    The victim gives `gives` milli-GPU, and the taker needs `milli`. With `started`, the victim runs already, and work
    that has not started and could be taken back instead does not count against its queue. `margin` is the policy's
    reclaim margin. False for work of the same queue.
    """
    takers, givers = part_paths(taker.chain, giver.chain)
    if not takers or not givers:
        return False
    *below, top = takers
    if any(each.lasting + milli > each.fair_share for each in below or takers):
        return False
    left = _using(givers[-1], started) - gives
    if top.lasting + milli > top.fair_share and not (below and _is_further(givers[-1], left, top, milli, margin)):
        return False
    if any(_using(each, started) <= each.deserved for each in givers):
        return False
    within_quota = takers[-1].lasting + milli <= takers[-1].deserved
    return within_quota or _using(givers[-1], started) > givers[-1].fair_share


def are_above_deserved(taker: Account, giver: Account, *, started: bool) -> bool:
    """Tell whether each queue of the giver, up to where the two paths part, is above its deserved quota.

    `started`: the victim runs already, so work that has not started and could go instead does not count as use.
    """
    _, givers = part_paths(taker.chain, giver.chain)
    return all(_using(each, started) > each.deserved for each in givers)


def are_above_fair_share(taker: Account, giver: Account, *, started: bool) -> bool:
    """Tell whether each queue of the giver, up to where the two paths part, is above its fair share.

    `started`: the victim runs already, so work that has not started and could go instead does not count as use.
    """
    _, givers = part_paths(taker.chain, giver.chain)
    return all(_using(each, started) > each.fair_share for each in givers)


def may_reclaim_host(taker: Account, giver: Account, needed: HostAmounts, *, started: bool = True) -> bool:
    """Tell whether the leaf `taker` may reclaim from the leaf `giver` because it needs CPU or memory.

    For one needed resource, the taker's queues stay within their quotas and the giver's are above theirs. `started` is
    as in `may_reclaim`.
    """
    takers, givers = part_paths(taker.chain, giver.chain)
    if not takers or not givers:
        return False
    return any(
        needed[resource]
        and all(_within(each, resource, needed[resource]) for each in takers)
        and is_above_host_quota(givers, resource, started=started)
        for resource in HostResource
    )


def stays_within_host_quotas(taker: Account, giver: Account, needed: HostAmounts) -> bool:
    """Tell whether no queue of the taker, up to where the two paths part, exceeds a quota of CPU or memory it needs."""
    takers, _ = part_paths(taker.chain, giver.chain)
    return all(
        _within(each, resource, needed[resource]) for each in takers for resource in HostResource if needed[resource]
    )


def _within(account: Account, resource: HostResource, more: int) -> bool:
    """Tell whether a queue stays within its quota of a host resource with `more`; True without such a quota."""
    quota = account.host_quotas[resource]
    return quota is None or account.host_lasting[resource] + more <= quota


def names_host_quota(account: Account, resource: HostResource) -> bool:
    """Tell whether a queue from the leaf to the root has a quota of the host resource."""
    return any(each.host_quotas[resource] is not None for each in account.chain)


def is_above_host_quota(path: Sequence[Account], resource: HostResource, *, started: bool = False) -> bool:
    """Tell whether each queue of the path with a quota of the host resource is above it.

    False if no queue of the path has such a quota. With `started`, revocable work does not count.
    """
    said = [each for each in path if each.host_quotas[resource] is not None]
    return bool(said) and all(
        not _within(each, resource, -each.revocable_host(resource) if started else 0) for each in said
    )


def _is_further(giver: Account, left: int, taker: Account, milli: int, margin: Fraction) -> bool:
    """Tell whether the giver, left with `left` milli-GPU, is further above its fair share than the taker then is.

    The taker's proportion is multiplied by `margin`. A giver without a fair share is always further above.
    """
    if not giver.fair_share:
        return True
    return margin * (taker.lasting + milli) * giver.fair_share < left * taker.fair_share


def _using(giver: Account, started: bool) -> int:
    """Return the milli-GPU that a queue uses in the end; if the victim has `started`, without what is revocable."""
    return giver.lasting - giver.revocable if started else giver.lasting
