"""What a unit costs its queues: the accounts' half of every decision.

Rules
-----
1. GPUs count always; processors and memory of nodes only where some queue says something of them.
2. What has a place, or is promised one, counts with all that stands there: who moves takes along what it holds above
   its smallest gang. Who is asked about without a place counts with its smallest gang.
"""

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.gang import NO_REST, Rest

from .accounts import Accounts, Obstacle, charge, obstacle, pledge


class Charges:
    """Enters units into the accounts of their queues; `sign` -1 takes back."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def hold(self, unit: Workload, sign: int = 1, *, now: bool = True, later: bool = True) -> None:
        """It holds what it has now, and will go on holding it."""
        account, rest = self._accounts.of(unit.queue), self._held_rest(unit, sign)
        charge(account, sign * gang.held(unit), fixed=not unit.preemptible, now=now, later=later, rest=rest)

    def promise(self, unit: Workload, sign: int = 1) -> None:
        """It is to hold what its placement says, once others have stopped."""
        account, rest = self._accounts.of(unit.queue), self._held_rest(unit, sign)
        pledge(account, sign * gang.held(unit), fixed=not unit.preemptible, rest=rest)

    def obstacle(self, unit: Workload, *, now: bool) -> Obstacle | None:
        """The first promise of its queues that forbids to start it, now or once all that stops has."""
        account = self._accounts.of(unit.queue)
        milli = gang.held(unit) if unit.placement else gang.smallest(unit)
        return obstacle(account, milli, fixed=not unit.preemptible, now=now, rest=self._needed_rest(unit))

    def _needed_rest(self, unit: Workload) -> Rest:
        if not self._accounts.counts_rest:
            return NO_REST
        return gang.held_rest(unit) if unit.placement else gang.smallest_rest(unit)

    def _held_rest(self, unit: Workload, sign: int) -> Rest:
        return _times(gang.held_rest(unit), sign) if self._accounts.counts_rest else NO_REST


def _times(rest: Rest, sign: int) -> Rest:
    return (sign * rest[0], sign * rest[1])
