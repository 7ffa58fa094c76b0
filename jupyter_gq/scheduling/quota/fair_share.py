"""Divide an amount of GPUs among sibling queues.

Rules
-----
1. Each gets its deserved quota first, as far as it wants that much and its limit allows, even if the sum is more
   than there is: a quota is a promise.
2. What is left goes to the highest priority first; inside one priority by weight, in whole GPUs; weight 0 gets none.
3. What a queue does not want goes round again; what rounding left over goes GPU by GPU to the largest remainder,
   ties in the order given.
4. Past use bends the parts of rule 2, if it is asked for: with w the part by weight among those who want more, u the
   part of everything that the queue has used, and k how much that counts, the part is w + k (w - u), but not negative.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from jupyter_gq.domain.amount import ONE_GPU, MilliGpu

NOTHING = Fraction(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """What one queue may want of the amount that is divided."""

    #: Deserved quota.
    quota: int
    #: Never more than that; None = no limit.
    limit: int | None = None
    #: What it holds and what waits in it.
    demand: int
    #: Replica of the surplus, relative to its siblings.
    weight: int = 1
    #: Surplus goes to higher ones first.
    priority: int = 0
    #: Past use, as a part of all that could have been used.
    past: Fraction = NOTHING

    @property
    def wanted(self) -> int:
        """Its demand as far as its limit allows."""
        return self.demand if self.limit is None else min(self.demand, self.limit)


def divide(total: int, claims: Sequence[Claim], past_counts: Fraction = NOTHING) -> list[MilliGpu]:
    """The fair share of each claim, in the order given; `past_counts` is the k of rule 4."""
    shares = [min(claim.quota, claim.wanted) for claim in claims]
    surplus = total - sum(shares)
    bands = sorted({claim.priority for claim in claims}, reverse=True)
    remainders: dict[int, dict[int, Fraction]] = {}
    for band in bands:
        members = [index for index, claim in enumerate(claims) if claim.priority == band]
        surplus, remainders[band] = _by_weight(surplus, claims, shares, members, past_counts)
    for band in bands:
        surplus = _by_remainder(surplus, claims, shares, remainders[band])
    return [MilliGpu(share) for share in shares]


def _by_weight(
    surplus: int, claims: Sequence[Claim], shares: list[int], members: list[int], past_counts: Fraction
) -> tuple[int, dict[int, Fraction]]:
    """Rule 2 for one priority, in rounds until nobody gives anything back."""
    remainders: dict[int, Fraction] = {}
    again = True
    while again and surplus > 0:
        again = False
        parts = _parts({i: claims[i] for i in members if claims[i].wanted > shares[i]}, past_counts)
        whole = sum(parts.values())
        to_divide = surplus
        for i, part in parts.items():
            fair = Fraction(to_divide * part) / whole
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


def _parts(hungry: Mapping[int, Claim], past_counts: Fraction) -> dict[int, Fraction] | dict[int, int]:
    """Rules 2 and 4: the parts of those who get any; they need not add up to 1."""
    weights = {i: claim.weight for i, claim in hungry.items() if claim.weight > 0}
    if not past_counts:
        return weights
    whole = sum(weights.values())
    bent = {i: _bent(Fraction(weight, whole), hungry[i].past, past_counts) for i, weight in weights.items()}
    return {i: part for i, part in bent.items() if part > 0}


def _bent(part: Fraction, past: Fraction, past_counts: Fraction) -> Fraction:
    return part + past_counts * (part - past)


def _by_remainder(surplus: int, claims: Sequence[Claim], shares: list[int], remainders: dict[int, Fraction]) -> int:
    """Rule 3: at most one GPU each, largest remainder first."""
    for i in sorted(remainders, key=lambda i: (-remainders[i], i)):
        if surplus <= 0:
            break
        given = min(ONE_GPU, surplus, claims[i].wanted - shares[i])
        shares[i] += given
        surplus -= given
    return surplus
