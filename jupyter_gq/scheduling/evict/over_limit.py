"""A limit that was lowered under running work: the queue comes back under it.

Rules
-----
1. First goes what its queues hold above their own quotas, then the rest; each time in the order of disruption.
   Of processors and memory of nodes those quotas count that are said; where none is, nothing is above.
2. Only preemptible work gives way. Work that is not preemptible was entitled when it started and is left alone; the
   queue then stays above its limit until that ends.
3. Nobody goes who holds nothing of what there is too much of.
4. A lowered *quota* needs nothing here: what is over it can be reclaimed.
"""

from collections.abc import Sequence

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.quota.accounts import Account
from jupyter_gq.scheduling.quota.limits import Broken, broken_above, broken_limits
from jupyter_gq.scheduling.quota.reclaim_rights import is_above_rest
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.state.units import GivenUp
from jupyter_gq.scheduling.workloads.disruption import disruption
from jupyter_gq.scheduling.workloads.replicas import Replica

from . import notices
from .eviction import evict
from .victims import staying_units


def obey_limits(books: Books) -> None:
    """Evict from every queue that will be above a limit."""
    if not any(any(broken_limits(account)) for account in books.accounts):
        return
    gone: set[str] = set()
    for entitled in (False, True):
        for victim in sorted((unit for unit in staying_units(books) if unit.preemptible), key=disruption):
            broken = None if victim.id in gone else _broken_by(books, victim, entitled=entitled)
            if broken is not None:
                for unit in (*books.units.before(victim), victim):
                    gone.add(unit.id)
                    books.release(unit)
                    _tell_to_go(books, unit, broken)


def _broken_by(books: Books, victim: Workload, *, entitled: bool) -> Broken | None:
    """A limit for which it has to go; `entitled`: also within the quotas of its queues."""
    chain = books.account(victim).chain
    broken = broken_above(chain[0], victim)
    return next((each for each in broken if entitled or _over_quota_below(each, chain)), None)


def _over_quota_below(broken: Broken, chain: Sequence[Account]) -> bool:
    """From the leaf up to that queue, each is above its quota."""
    path = tuple(chain[: chain.index(broken.account) + 1])
    if broken.which is None:
        return all(each.lasting > each.deserved for each in path)
    return is_above_rest(path, broken.which)


def _tell_to_go(books: Books, victim: Workload, broken: Broken) -> None:
    if isinstance(victim, Replica):
        books.give_up(
            GivenUp(
                part=victim,
                reason=EvictReason.QUOTA_LOWERED,
                by=None,
                sentence=lambda part: notices.over_limit(part, broken),
            )
        )
    else:
        evict(books, victim, EvictReason.QUOTA_LOWERED, None, notices.over_limit(victim, broken))
