"""Preempt: inside one queue, work of strictly lower priority gives way.

Rules
-----
1. Only inside the same leaf queue, only preemptible work past its least run time (see `min_runtime`), only strictly
   lower priority.
2. It leaves no queue above its fair share, but for an exchange of like for like (see `within_share`).
3. What this cycle admitted or promised goes first, then the lowest priority; inside one, who loses least.
"""

from collections.abc import Iterable

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.admit.start import may_fit_soon, try_start
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads.disruption import disruption

from . import notices
from .rounds import serve_in_rounds
from .victim_search import make_room
from .victims import Stock
from .within_share import make_room_within_share


def preempt(books: Books) -> bool:
    """Serve all who may take the place of lower priorities in their queue; the result is that of `serve_in_rounds`."""
    if not books.index.priorities.differ():
        return False
    lowest: dict[str, int] = {}

    def promising(workload: Workload) -> bool:
        queue = workload.queue
        if queue not in lowest:
            lowest[queue] = _lowest_priority(books, queue)
        return lowest[queue] < workload.priority

    return serve_in_rounds(books, _preempt_for, promising, EvictReason.PREEMPTED, notices.preempted)


def _lowest_priority(books: Books, queue: str) -> int:
    """Of those who hold something in that queue, or were admitted or promised something."""
    return min(books.index.priorities.in_queue(queue), default=0)


def _preempt_for(books: Books, workload: Workload, stock: Stock) -> list[Workload] | None:
    account = books.account(workload)
    if not account.known:
        return None
    if may_fit_soon(books, workload) and try_start(books, workload):
        return []
    members = stock.of_queue(account.queue.pool, workload.queue)
    lower = [victim for victim in members if victim.priority < workload.priority]
    lower.sort(key=lambda victim: (disruption(victim)[0], victim.priority, disruption(victim)))
    return search(books, workload, lower)


def search(books: Books, workload: Workload, candidates: Iterable[Workload]) -> list[Workload] | None:
    """Take from those of lower priority among the candidates, in their order; None when that does not help."""
    lower = [victim for victim in candidates if victim.priority < workload.priority]
    return make_room_within_share(books, workload, lambda: make_room(books, workload, lambda: lower)) if lower else None
