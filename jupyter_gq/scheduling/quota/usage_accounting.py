"""Usage accounting: what a unit adds to the accounts of its queues. A unit is a workload or a replica of one.

Rules
-----
1. Resources. GPUs always count; CPU and memory of nodes only if some queue has a limit or quota of them.
2. Amount. A unit that has a place, or is nominated for one, counts with all tasks of that place, those above its
   smallest gang included. A unit without a place counts with its smallest gang.
"""

from collections.abc import Sequence

from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.gang import NO_HOST, HostAmounts

from .accounts import (
    Accounts,
    BlockingLimit,
    add_nominated_usage,
    add_unstarted_usage,
    add_usage,
    first_exceeded_limit,
)


class UsageAccounting:
    """The updates of accounts by units; `sign` -1 takes out again what `sign` 1 has added."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def add_held(self, unit: Workload, sign: int = 1, *, now: bool = True, later: bool = True) -> None:
        """Add what the unit holds to the accounts of its path: to `used` if `now`, and to `lasting` if `later`.

        A `sign` of -1 removes it.
        """
        account, host = self._accounts.of(unit.queue), self._host_of(unit, unit.placement, sign)
        add_usage(account, sign * gang.held(unit), fixed=not unit.preemptible, now=now, later=later, host=host)

    def add_admitted(self, unit: Workload, sign: int = 1, *, now: bool = True) -> None:
        """Add the holdings of a unit that this cycle admits, as `add_held` does, and count them as not started.

        A `sign` of -1 removes both.
        """
        self.add_held(unit, sign, now=now)
        account, host = self._accounts.of(unit.queue), self._host_of(unit, unit.placement, sign)
        add_unstarted_usage(account, sign * gang.held(unit), fixed=not unit.preemptible, host=host)

    def add_nominated(self, unit: Workload, place: Sequence[TaskPlacement], sign: int = 1) -> None:
        """Add what a unit will hold at the place for which it is nominated to `lasting` and `nominated_usage`.

        All accounts of its path are updated. A `sign` of -1 removes it.
        """
        account, host = self._accounts.of(unit.queue), self._host_of(unit, place, sign)
        add_nominated_usage(account, sign * gang.of_tasks(unit, place), fixed=not unit.preemptible, host=host)

    def first_exceeded_limit(self, unit: Workload, *, now: bool) -> BlockingLimit | None:
        """Return the first limit or quota, from the leaf up, that the unit would exceed; None if there is none.

        The unit counts with its placement or, if it has none, with its smallest gang. If `now` is false, work that is
        stopping counts as gone.
        """
        account = self._accounts.of(unit.queue)
        milli = gang.held(unit) if unit.placement else gang.smallest(unit)
        return first_exceeded_limit(account, milli, fixed=not unit.preemptible, now=now, host=self._needed_host(unit))

    def _needed_host(self, unit: Workload) -> HostAmounts:
        if not self._accounts.counts_host:
            return NO_HOST
        return gang.held_host(unit) if unit.placement else gang.smallest_host(unit)

    def _host_of(self, unit: Workload, tasks: Sequence[TaskPlacement], sign: int) -> HostAmounts:
        return _times(gang.host_of_tasks(unit, tasks), sign) if self._accounts.counts_host else NO_HOST


def _times(host: HostAmounts, sign: int) -> HostAmounts:
    return (sign * host[0], sign * host[1])
