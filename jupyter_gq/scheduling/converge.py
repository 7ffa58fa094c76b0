"""A limit that was lowered under running work: the queue comes back under it, newest and least loss first.

Only preemptible work gives way. Work that is not preemptible was entitled when it started and is left alone; the queue
then stays above its limit until that ends. A lowered *quota* needs nothing here: what is over it can be reclaimed.
"""

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload

from . import explain
from .books import Books
from .disruption import disruption, staying_units
from .parts import Part
from .quota import Account
from .units import GivenUp


def obey_limits(books: Books) -> None:
    """Evict from every queue that will be above its limit."""
    broken = [account for account in books.accounts if _above(account)]
    if not broken:
        return
    for victim in sorted((unit for unit in staying_units(books) if unit.preemptible), key=disruption):
        chain = books.account(victim).chain
        account = next((each for each in chain if _above(each)), None)
        if account is not None:
            books.release(victim)
            _tell_to_go(books, victim, account)


def _tell_to_go(books: Books, victim: Workload, account: Account) -> None:
    if isinstance(victim, Part):
        books.give_up(
            GivenUp(
                part=victim,
                reason=EvictReason.QUOTA_LOWERED,
                by=None,
                sentence=lambda part: explain.over_limit(part, account),
            )
        )
    else:
        books.evict(victim, EvictReason.QUOTA_LOWERED, None, explain.over_limit(victim, account))


def _above(account: Account) -> bool:
    return account.queue.limit is not None and account.lasting > account.queue.limit
