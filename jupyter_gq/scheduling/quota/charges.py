"""Charges: what a unit adds to the accounts of its queues.

Rules
-----
1. Resources. GPUs always count; processors and memory of nodes only if some queue names a limit or quota of them.
2. Amount. A unit that has a place, or is promised one, counts with everything that stands there: work that moves takes
   along what it holds above its smallest gang. A unit without a place counts with its smallest gang.
"""

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.gang import NO_HOST, HostAmounts

from .accounts import Accounts, Obstacle, charge, obstacle, pledge


class Charges:
    """Enters units into the accounts of their queues; `sign` -1 takes them out again."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def hold(self, unit: Workload, sign: int = 1, *, now: bool = True, later: bool = True) -> None:
        """Charge what the unit holds, to `used` (now) and to `lasting` (later)."""
        account, host = self._accounts.of(unit.queue), self._held_host(unit, sign)
        charge(account, sign * gang.held(unit), fixed=not unit.preemptible, now=now, later=later, host=host)

    def promise(self, unit: Workload, sign: int = 1) -> None:
        """Charge to `lasting` what the unit will hold once others have stopped."""
        account, host = self._accounts.of(unit.queue), self._held_host(unit, sign)
        pledge(account, sign * gang.held(unit), fixed=not unit.preemptible, host=host)

    def obstacle(self, unit: Workload, *, now: bool) -> Obstacle | None:
        """Return the first promise of the unit's queues that forbids to start it, or None.

        With `now`, present usage counts; otherwise only what is left once all that stops has stopped.
        """
        account = self._accounts.of(unit.queue)
        milli = gang.held(unit) if unit.placement else gang.smallest(unit)
        return obstacle(account, milli, fixed=not unit.preemptible, now=now, host=self._needed_host(unit))

    def _needed_host(self, unit: Workload) -> HostAmounts:
        if not self._accounts.counts_host:
            return NO_HOST
        return gang.held_host(unit) if unit.placement else gang.smallest_host(unit)

    def _held_host(self, unit: Workload, sign: int) -> HostAmounts:
        return _times(gang.held_host(unit), sign) if self._accounts.counts_host else NO_HOST


def _times(host: HostAmounts, sign: int) -> HostAmounts:
    return (sign * host[0], sign * host[1])
