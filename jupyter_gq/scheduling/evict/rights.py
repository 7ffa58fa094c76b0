"""The rights of one workload: which candidates may be evicted for it. Asked for each one, by usage at that moment.

Rules
-----
Rights are those of `evict.reclaim` for work of other queues. Work of the workload's own queue may be evicted if
its priority is lower.

Without a GPU: no quota of GPUs guarantees anything to work that needs none. Such work takes only from queues above
their fair shares, or what a quota of CPU or memory guarantees.

Within the quotas of CPU and memory: a claim on GPUs counts only if the workload lifts none of its queues above a quota
of CPU or memory. Otherwise the victims could take their CPU or memory back, so each would stop the other in turns.

Above first: a candidate ranks `ABOVE` if each of its queues, up to where the paths part, is above its fair share. A
queue within its fair share gives only if candidates of that rank are not enough, since it could take back elsewhere
what it gives.

Rights grow: a victim under the same root as the workload leaves more of the fair shares above both to the workload. So
candidates that were refused are asked again after each such victim, and such a victim is evicted even if its devices
are not needed, as long as other victims may be evicted only because of it.

See docs/decisions/0073-take-first-from-queues-above-their-shares.md.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

from jupyter_gq.domain.amount import HostResource
from jupyter_gq.domain.queue_tree import common_end
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.quota.reclaim_rights import (
    are_above_deserved,
    are_above_fair_share,
    may_reclaim,
    may_reclaim_host,
    stays_within_host_quotas,
)
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.workloads import gang

#: Ranks of candidates: of queues above their fair shares, and of queues within them.
ABOVE, WITHIN = 0, 1
#: With more victims than that, a victim stays only if fair shares alone show that the others may be evicted without it.
MOST_REPLAYED = 16


class Rights:
    """The claims of a workload on the work of others. `most` is the highest rank of candidates that may be evicted."""

    def __init__(self, policy: Policy, allocations: Allocations, workload: Workload) -> None:
        """Begin with the rights of a pending workload or wanted replica; candidates of any rank may be evicted."""
        self.most = WITHIN
        #: Whether a candidate was refused for nothing but its rank.
        self.refused_by_rank = False
        self._allocations = allocations
        self._workload = workload
        self._account = allocations.account(workload)
        self._milli = gang.smallest(workload)
        self._host = gang.smallest_host(workload)
        self._margin = Fraction(policy.reclaim_margin)

    def rank(self, victim: Workload) -> int | None:
        """Return `ABOVE` or `WITHIN` for a candidate that may be evicted as things stand, and None for any other.

        A candidate that ranks above `most` may not be evicted either. If only its rank forbids that, `refused_by_rank`
        becomes True.
        """
        found = self._rank(victim)
        if found is None or found <= self.most:
            return found
        self.refused_by_rank = True
        return None

    def allows(self, victim: Workload) -> bool:
        """Tell whether a candidate may be evicted as things stand; sets `refused_by_rank` as `rank` does."""
        return self.rank(victim) is not None

    def may_grow_by(self, victim: Workload) -> bool:
        """Tell whether the eviction of a candidate leaves more to the workload: both have the same root queue."""
        return self._allocations.account(victim).chain[-1] is self._account.chain[-1]

    def could_allow(self, victim: Workload) -> bool:
        """Return False if a candidate certainly may not go, whatever else goes before it; True means that it might.

        Sets `refused_by_rank` as `rank` does.
        """
        if victim.queue == self._workload.queue:
            return victim.priority < self._workload.priority
        if self._counts_host() and any(self._host):
            return True
        giver, started = self._allocations.account(victim), _has_started(victim)
        if not are_above_deserved(self._account, giver, started=started):
            return False
        if self.most == ABOVE and not are_above_fair_share(self._account, giver, started=started):
            self.refused_by_rank = True
            return False
        return True

    def best_orders(self, victims: Sequence[Workload]) -> list[list[Workload]]:
        """Return the orders in which the eviction of all victims is worth a trial: one to five, the best one first.

        Without limits and quotas of CPU and memory there is one order, and it is allowed if any order is. With them,
        all orders returned may be refused although another one is allowed. In each order, the victims that share most
        queues with the workload go first. Ties go from small to large by GPUs; in the further orders, victims to whose
        GPUs there is a right go first, or last, or the order is from small to large by CPU, or by memory.
        """
        best = sorted(victims, key=lambda victim: (-self._shared(victim), gang.held(victim)))
        if not self._counts_host():
            return [best]
        gives_gpus = {
            victim.id: are_above_deserved(
                self._account, self._allocations.account(victim), started=_has_started(victim)
            )
            for victim in victims
        }

        def by(key: Callable[[Workload], int]) -> list[Workload]:
            return sorted(best, key=lambda victim: (-self._shared(victim), key(victim)))

        orders = [best]
        for order in (
            by(lambda victim: not gives_gpus[victim.id]),
            by(lambda victim: gives_gpus[victim.id]),
            by(lambda victim: gang.held_host(victim)[HostResource.CPU]),
            by(lambda victim: gang.held_host(victim)[HostResource.MEMORY]),
        ):
            if order not in orders:
                orders.append(order)
        return orders

    def may_stay(self, victim: Workload, gone: Sequence[Workload]) -> bool:
        """Tell whether the victims `gone` may be evicted without `victim`, whose release has been undone.

        The workload must be nominated. With many victims, False may also mean that this was not examined.
        """
        if not self.may_grow_by(victim) or not gone:
            return True
        above_both = common_end(self._allocations.account(victim).chain, self._account.chain)
        shares_suffice = not self._counts_host() and all(each.lasting <= each.fair_share for each in above_both)
        return shares_suffice or (len(gone) <= MOST_REPLAYED and self._are_lawful(gone))

    def _rank(self, victim: Workload) -> int | None:
        if victim.queue == self._workload.queue:
            return ABOVE if victim.priority < self._workload.priority else None
        giver, started = self._allocations.account(victim), _has_started(victim)
        gives, milli = gang.held(victim), self._milli
        lasts = not self._counts_host() or stays_within_host_quotas(self._account, giver, self._host)
        if lasts and may_reclaim(self._account, giver, milli, gives=gives, started=started, margin=self._margin):
            if are_above_fair_share(self._account, giver, started=started):
                return ABOVE
            if milli:
                return WITHIN
        if self._counts_host() and may_reclaim_host(self._account, giver, self._host, started=started):
            return ABOVE
        return None

    def _counts_host(self) -> bool:
        return self._allocations.accounts.counts_host

    def _shared(self, victim: Workload) -> int:
        """Return how many queues are on the paths of both the victim and the workload."""
        return len(common_end(self._allocations.account(victim).chain, self._account.chain))

    def _are_lawful(self, gone: Sequence[Workload]) -> bool:
        """Tell whether exactly these victims may be evicted, one after the other.

        The usage of queues is changed for this trial only.
        """
        allocations = self._allocations
        nominee = allocations.nominee_at_place(self._workload.id)
        allocations.drop_usage(nominee)
        for victim in gone:
            allocations.restore_usage(victim)
        lawful = any([self._is_lawful(order) for order in self.best_orders(gone)])
        for victim in gone:
            allocations.drop_usage(victim)
        allocations.restore_usage(nominee)
        return lawful

    def _is_lawful(self, order: Sequence[Workload]) -> bool:
        """Tell whether the victims may be evicted in this order.

        The usage of the victims must be counted, and is counted again at the return.
        """
        gone: list[Workload] = []
        for victim in order:
            if not self.allows(victim):
                break
            self._allocations.drop_usage(victim)
            gone.append(victim)
        for victim in gone:
            self._allocations.restore_usage(victim)
        return len(gone) == len(order)


def _has_started(victim: Workload) -> bool:
    return victim.state is not State.PENDING
