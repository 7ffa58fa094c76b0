"""Who may take from whom across queues: rules 1 to 4 of `reclaim`, asked for one victim at a time."""

from fractions import Fraction

from jupyter_gq.scheduling.workloads.gang import Rest

from .accounts import Account

ONCE = Fraction(1)


def may_take(
    taker: Account, giver: Account, milli: int, *, gives: int, started: bool = True, margin: Fraction = ONCE
) -> bool:
    """Rules 1 to 4 for one more victim of `gives` in the leaf `giver`, for `milli` more in the leaf `taker`.

    What has started is not taken because of what its queue is only promised.
    """
    takers, givers = _parted(taker, giver)
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


def may_take_rest(taker: Account, giver: Account, needed: Rest) -> bool:
    """Rule 3 for processors and memory."""
    takers, givers = _parted(taker, giver)
    if not takers or not givers:
        return False
    return any(
        need and all(_within(each, which, need) for each in takers) and is_above_rest(givers, which)
        for which, need in enumerate(needed)
    )


def _within(account: Account, which: int, more: int) -> bool:
    quota = account.rest_quota[which]
    return quota is None or account.rest_lasting[which] + more <= quota


def is_above_rest(path: tuple[Account, ...], which: int) -> bool:
    """Each of these queues that has a quota of it, and one at least, is above that."""
    said = [each for each in path if each.rest_quota[which] is not None]
    return bool(said) and not any(_within(each, which, 0) for each in said)


def _is_further(giver: Account, left: int, taker: Account, milli: int, margin: Fraction) -> bool:
    """The giver, with what is left to it, is still further above its fair share than the taker then is (rule 2)."""
    if not giver.fair_share:
        return True
    return margin * (taker.lasting + milli) * giver.fair_share < left * taker.fair_share


def _using(giver: Account, started: bool) -> int:
    return giver.lasting - giver.pledged if started else giver.lasting


def _parted(taker: Account, giver: Account) -> tuple[tuple[Account, ...], tuple[Account, ...]]:
    """The two paths from the leaves up to where they part."""
    shared = 0
    for ours, theirs in zip(reversed(taker.chain), reversed(giver.chain), strict=False):
        if ours is not theirs:
            break
        shared += 1
    return taker.chain[: len(taker.chain) - shared], giver.chain[: len(giver.chain) - shared]
