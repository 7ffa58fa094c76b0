"""Divide an amount of GPUs among sibling queues.

Rules
-----
1. Each gets its deserved quota first, as far as it wants that much and its limit allows, even if the sum is more
   than there is: a quota is a promise.
2. What is left goes to the highest priority first; inside one priority by weight, in whole GPUs; weight 0 gets none.
3. What a queue does not want goes round again; what rounding left over goes GPU by GPU to the largest remainder,
   ties in the order given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from jupyter_gq.domain.amount import ONE_GPU, MilliGpu


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """What one queue may want of the amount that is divided."""

    #: Deserved quota.
    quota: int
    #: Never more than that; None = no limit.
    limit: int | None = None
    #: What it holds and what waits in it.
    demand: int
    #: Part of the surplus, relative to its siblings.
    weight: int = 1
    #: Surplus goes to higher ones first.
    priority: int = 0

    @property
    def wanted(self) -> int:
        """Its demand as far as its limit allows."""
        return self.demand if self.limit is None else min(self.demand, self.limit)


def divide(total: int, claims: Sequence[Claim]) -> list[MilliGpu]:
    """The fair share of each claim, in the order given."""
    shares = [min(claim.quota, claim.wanted) for claim in claims]
    surplus = total - sum(shares)
    bands = sorted({claim.priority for claim in claims}, reverse=True)
    remainders: dict[int, dict[int, Fraction]] = {}
    for band in bands:
        members = [index for index, claim in enumerate(claims) if claim.priority == band]
        surplus, remainders[band] = _by_weight(surplus, claims, shares, members)
    for band in bands:
        surplus = _by_remainder(surplus, claims, shares, remainders[band])
    return [MilliGpu(share) for share in shares]


def _by_weight(
    surplus: int, claims: Sequence[Claim], shares: list[int], members: list[int]
) -> tuple[int, dict[int, Fraction]]:
    """Rule 2 for one priority, in rounds until nobody gives anything back."""
    remainders: dict[int, Fraction] = {}
    again = True
    while again and surplus > 0:
        again = False
        hungry = [i for i in members if claims[i].weight > 0 and claims[i].wanted > shares[i]]
        weights = sum(claims[i].weight for i in hungry)
        to_divide = surplus
        for i in hungry:
            fair = Fraction(to_divide * claims[i].weight, weights)
            wanted = claims[i].wanted - shares[i]
            if wanted <= fair:
                given = wanted
                remainders.pop(i, None)
                again = again or wanted < fair
            else:
                given = int(fair // ONE_GPU) * ONE_GPU
                remainders[i] = fair - given
            shares[i] += given
            surplus -= given
    return surplus, remainders


def _by_remainder(surplus: int, claims: Sequence[Claim], shares: list[int], remainders: dict[int, Fraction]) -> int:
    """Rule 3: at most one GPU each, largest remainder first."""
    for i in sorted(remainders, key=lambda i: (-remainders[i], i)):
        if surplus <= 0:
            break
        given = min(ONE_GPU, surplus, claims[i].wanted - shares[i])
        shares[i] += given
        surplus -= given
    return surplus
