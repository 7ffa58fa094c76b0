"""Stale gangs: what lost some of its tasks and stays below its smallest gang for too long goes back to its queue whole.

Rules
-----
1. Only what has had its smallest gang and has lost some of it: its backend says since when (`Workload.stale_since`).
2. For `Policy.stale_after` it keeps what it has. Elastic work may be given what it lacks meanwhile, all or nothing, in
   its turn among those who wait; what has been promised that much is left alone.
3. After that it goes, preemptible or not: it holds devices with which it cannot go on. It keeps its seniority.
"""

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads.replicas import Replica, is_short

from . import notices
from .eviction import evict_whole


def requeue_stale(books: Books) -> bool:
    """Evict every gang that has been stale for too long; True when there was one."""
    stale = sorted(books.index.holders.stale.values(), key=lambda workload: workload.id)
    found = [workload for workload in stale if _is_overdue(books, workload)]
    for workload in found:
        evict_whole(books, workload, EvictReason.STALE_GANG, notices.stale(workload, books.now))
    return bool(found)


def _is_overdue(books: Books, workload: Workload) -> bool:
    since = workload.stale_since
    if since is None or books.now < since + books.policy.stale_after or workload.id in books.evicted:
        return False
    units = books.units.of(workload)
    return is_short(workload) and not any(isinstance(unit, Replica) and unit.vital for unit in units)
