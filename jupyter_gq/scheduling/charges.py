"""What a unit costs its queues: the accounts' half of every decision.

Rules
-----
1. GPUs count always; processors and memory of nodes only where some queue says something of them.
2. What is to start counts with its smallest gang; what stands somewhere, with what it holds.
"""

from jupyter_gq.domain.workload import Workload

from . import gang
from .gang import NO_REST, Rest
from .quota import Accounts, Obstacle, charge, obstacle, pledge


class Charges:
    """Enters units into the accounts of their queues; `sign` -1 takes back."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def start(self, unit: Workload) -> None:
        """It starts."""
        account = self._accounts.of(unit.queue)
        charge(account, gang.smallest(unit), fixed=not unit.preemptible, rest=self._smallest_rest(unit))

    def promise(self, unit: Workload, sign: int = 1) -> None:
        """It is to start, once others have stopped."""
        account, rest = self._accounts.of(unit.queue), self._smallest_rest(unit, sign)
        pledge(account, sign * gang.smallest(unit), fixed=not unit.preemptible, rest=rest)

    def hold(self, unit: Workload, sign: int = 1, *, now: bool = True, later: bool = True) -> None:
        """It holds what it has now, and will go on holding it."""
        account, rest = self._accounts.of(unit.queue), self._held_rest(unit, sign)
        charge(account, sign * gang.held(unit), fixed=not unit.preemptible, now=now, later=later, rest=rest)

    def keep_promise(self, unit: Workload, sign: int = 1) -> None:
        """It is to hold what it has been promised, with the place that it was promised."""
        account, rest = self._accounts.of(unit.queue), self._held_rest(unit, sign)
        pledge(account, sign * gang.held(unit), fixed=not unit.preemptible, rest=rest)

    def obstacle(self, unit: Workload, *, now: bool) -> Obstacle | None:
        """The first promise of its queues that forbids to start it, now or once all that stops has."""
        account, rest = self._accounts.of(unit.queue), self._smallest_rest(unit)
        return obstacle(account, gang.smallest(unit), fixed=not unit.preemptible, now=now, rest=rest)

    def _smallest_rest(self, unit: Workload, sign: int = 1) -> Rest:
        return _times(gang.smallest_rest(unit), sign) if self._accounts.counts_rest else NO_REST

    def _held_rest(self, unit: Workload, sign: int) -> Rest:
        return _times(gang.held_rest(unit), sign) if self._accounts.counts_rest else NO_REST


def _times(rest: Rest, sign: int) -> Rest:
    return (sign * rest[0], sign * rest[1])
