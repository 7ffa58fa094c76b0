"""Serve those who wait, best first, in rounds, by taking something back: what reclaim and preemption share.

A round asks each waiting workload in its turn. What was taken may open a way for one that was passed over before, so
rounds go on until one helps nobody.
"""

from collections.abc import Callable, Sequence

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.admit.held_devices import passing
from jupyter_gq.scheduling.admit.turns import rounds, take_turns
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads.request_class import Test

from .eviction import Sentence, take_from
from .victims import Stock

#: The victims for this workload (none when it simply fits), or None when it cannot be helped.
Find = Callable[[Books, Workload, Stock], Sequence[Workload] | None]


def serve_in_rounds(books: Books, find: Find, promising: Test, reason: EvictReason, sentence: Sentence) -> bool:
    """Serve all whom `find` can help, until nobody is helped any more; `sentence` tells the owner of each victim.

    `promising`: False for those whom it cannot help as things stand when a round begins. True when something that this
    cycle had admitted or promised was undone, so that others may have a turn.
    """
    undone = False
    for _ in rounds(books):
        helped = False
        turn = take_turns(books, promising, growth=True)
        workload = turn.next()
        if workload is None:
            break
        stock = Stock(books)
        while workload is not None:
            taken = None
            if not books.is_moot(workload):
                with passing(books, workload):
                    taken = find(books, workload, stock)
            if taken is None and books.is_moot(workload):
                turn.done()
            elif taken is None:
                turn.pass_over()
            else:
                helped = True
                undone |= take_from(books, taken, workload, reason, sentence)
                stock.add(workload)
                turn.done()
                for victim in taken:
                    turn.touch(books.account(victim))
            workload = turn.next()
        if not helped:
            break
    return undone
