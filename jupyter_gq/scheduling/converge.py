"""A limit that was lowered under running work: the queue comes back under it.

Rules
-----
1. First goes what its queues hold above their own quotas, then the rest; each time in the order of disruption.
2. Only preemptible work gives way. Work that is not preemptible was entitled when it started and is left alone; the
   queue then stays above its limit until that ends.
3. A lowered *quota* needs nothing here: what is over it can be reclaimed.
"""

from collections.abc import Sequence

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload

from . import notices
from .books import Books
from .disruption import disruption
from .evicting import evict
from .parts import Part
from .quota import Account
from .units import GivenUp
from .victims import staying_units


def obey_limits(books: Books) -> None:
    """Evict from every queue that will be above its limit."""
    broken = [account for account in books.accounts if _above(account)]
    if not broken:
        return
    gone: set[str] = set()
    for entitled in (False, True):
        for victim in sorted((unit for unit in staying_units(books) if unit.preemptible), key=disruption):
            chain = books.account(victim).chain
            account = next((each for each in chain if _above(each)), None)
            if victim.id not in gone and account is not None and (entitled or _over_quota_below(account, chain)):
                gone.add(victim.id)
                books.release(victim)
                _tell_to_go(books, victim, account)


def _tell_to_go(books: Books, victim: Workload, account: Account) -> None:
    if isinstance(victim, Part):
        books.give_up(
            GivenUp(
                part=victim,
                reason=EvictReason.QUOTA_LOWERED,
                by=None,
                sentence=lambda part: notices.over_limit(part, account),
            )
        )
    else:
        evict(books, victim, EvictReason.QUOTA_LOWERED, None, notices.over_limit(victim, account))


def _over_quota_below(account: Account, chain: Sequence[Account]) -> bool:
    """From the leaf up to that queue, each is above its quota."""
    return all(each.lasting > each.deserved for each in chain[: chain.index(account) + 1])


def _above(account: Account) -> bool:
    return account.queue.limit is not None and account.lasting > account.queue.limit
