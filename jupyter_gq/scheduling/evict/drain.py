"""Nodes that are being emptied: training leaves before it is made to.

Rules
-----
1. Who empties a node will end whatever is still there. So training that can be paused is told first: it has its grace,
   saves its state, and waits with its seniority. Whether there is room for it elsewhere makes no difference to that.
2. Notebooks stay until they end, and so does training that is not preemptible: they could not go on by themselves.
3. Of elastic work those tasks go that its smallest gang does not need; a gang one of whose tasks is there goes whole.
4. Nobody is asked whether he has run long enough, and nobody is spared because his room turns out not to be needed.
"""

from functools import partial

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.state.units import GivenUp
from jupyter_gq.scheduling.workloads.replicas import Replica, whole_workload

from . import notices
from .eviction import evict_whole


def leave_nodes(books: Books) -> None:
    """Tell all training to go that can be paused and stands on a node that is being emptied."""
    for node in books.index.config.draining:
        for _, unit in sorted(books.index.holders.on_node.get(node, {}).items(), reverse=True):
            if _can_leave(books, unit):
                _tell_to_go(books, unit, node)


def _can_leave(books: Books, unit: Workload) -> bool:
    if unit.kind is not Kind.TRAINING or not unit.preemptible:
        return False
    return whole_workload(unit).id not in books.evicted and unit.id not in books.units.given_up


def _tell_to_go(books: Books, unit: Workload, node: str) -> None:
    if isinstance(unit, Replica):
        books.release(unit)
        sentence = partial(notices.emptied, node=node)
        books.give_up(GivenUp(part=unit, reason=EvictReason.NODE_EMPTIED, by=None, sentence=sentence))
    else:
        evict_whole(books, unit, EvictReason.NODE_EMPTIED, notices.emptied(unit, node))
