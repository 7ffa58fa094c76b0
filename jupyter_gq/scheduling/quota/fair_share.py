"""Fair shares: divide an amount of GPUs among sibling queues.

Rules
-----
1. Deserved first. Each queue gets its deserved quota, as far as it wants that much and its limit allows, even if the
   sum is more than there is: a quota is a promise.
2. Surplus. What is left goes to the highest priority first, and inside one priority by weight, in whole GPUs. Weight 0
   gets none.
3. Rounding. What a queue does not want goes round again. What rounding left over goes GPU by GPU to the largest
   remainder, ties in the order given.
4. Past usage bends the parts of the surplus rule, if the policy asks for it. With w the part by weight among the queues
   that want more, u the part of everything that the queue has used, and k how much that counts, the part is
   w + k (w - u), but not negative.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from jupyter_gq.domain.amount import ONE_GPU, MilliGpu

NOTHING = Fraction(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueClaim:
    """The claim of one queue to a part of the divided amount: its quota, limit, demand and weight."""

    #: Deserved quota.
    quota: int
    #: The most that the queue may have; None = no limit.
    limit: int | None = None
    #: What the queue holds and what waits in it.
    demand: int
    #: Part of the surplus, relative to the siblings.
    weight: int = 1
    #: Surplus goes to higher priorities first.
    priority: int = 0
    #: Past use, as a part of all that could have been used.
    past: Fraction = NOTHING

    @property
    def wanted(self) -> int:
        """The demand, as far as the limit allows."""
        return self.demand if self.limit is None else min(self.demand, self.limit)


def divide(total: int, claims: Sequence[QueueClaim], past_counts: Fraction = NOTHING) -> list[MilliGpu]:
    """Return the fair share of each claim, in the order given.

    Each gets its quota as far as it wants that much, even if the sum exceeds `total`. What is left goes to higher
    priorities first, and then by weight (see the rules on surplus and rounding). `past_counts` is the factor k of the
    past-usage rule; 0 leaves past usage out.
    """
    fair_shares = [min(claim.quota, claim.wanted) for claim in claims]
    surplus = total - sum(fair_shares)
    bands = sorted({claim.priority for claim in claims}, reverse=True)
    remainders: dict[int, dict[int, Fraction]] = {}
    for band in bands:
        members = [index for index, claim in enumerate(claims) if claim.priority == band]
        surplus, remainders[band] = _by_weight(surplus, claims, fair_shares, members, past_counts)
    for band in bands:
        surplus = _by_remainder(surplus, claims, fair_shares, remainders[band])
    return [MilliGpu(amount) for amount in fair_shares]


def _by_weight(
    surplus: int, claims: Sequence[QueueClaim], fair_shares: list[int], members: list[int], past_counts: Fraction
) -> tuple[int, dict[int, Fraction]]:
    """Divide the surplus by weight among the queues of one priority, in rounds, until no queue leaves anything over.

    A part is rounded down to whole GPUs, but a queue that wants no more than its part gets exactly what it wants. Adds
    to `fair_shares`. Returns the surplus that is left, and the remainder that rounding left to each queue.
    """
    remainders: dict[int, Fraction] = {}
    again = True
    while again and surplus > 0:
        again = False
        parts = _parts({i: claims[i] for i in members if claims[i].wanted > fair_shares[i]}, past_counts)
        whole = sum(parts.values())
        to_divide = surplus
        for i, part in parts.items():
            fair = Fraction(to_divide * part) / whole
            wanted = claims[i].wanted - fair_shares[i]
            if wanted <= fair:
                given = wanted
                remainders.pop(i, None)
                again = again or wanted < fair
            else:
                given = int(fair // ONE_GPU) * ONE_GPU
                remainders[i] = fair - given
            fair_shares[i] += given
            surplus -= given
    return surplus, remainders


def _parts(wanting: Mapping[int, QueueClaim], past_counts: Fraction) -> dict[int, Fraction] | dict[int, int]:
    """Return the relative part of each queue that gets any surplus: its weight, bent by past usage if that counts.

    The parts need not add up to 1. Queues with a part of 0 are left out.
    """
    weights = {i: claim.weight for i, claim in wanting.items() if claim.weight > 0}
    if not past_counts:
        return weights
    whole = sum(weights.values())
    bent = {
        i: _bend_by_past_usage(Fraction(weight, whole), wanting[i].past, past_counts) for i, weight in weights.items()
    }
    return {i: part for i, part in bent.items() if part > 0}


def _bend_by_past_usage(part: Fraction, past: Fraction, past_counts: Fraction) -> Fraction:
    """Return the part w + k (w - u) of the past-usage rule, for w = `part`, u = `past` and k = `past_counts`."""
    return part + past_counts * (part - past)


def _by_remainder(
    surplus: int, claims: Sequence[QueueClaim], fair_shares: list[int], remainders: dict[int, Fraction]
) -> int:
    """Add at most one GPU to the fair share of each queue with a remainder, the largest remainder first.

    Ties go in the order given, and no queue gets more than it wants. Returns the surplus that is left.
    """
    for i in sorted(remainders, key=lambda i: (-remainders[i], i)):
        if surplus <= 0:
            break
        given = min(ONE_GPU, surplus, claims[i].wanted - fair_shares[i])
        fair_shares[i] += given
        surplus -= given
    return surplus
