"""Tell somebody to go: every eviction, suspension and move of a cycle is written into the books here.

What goes has been released on trial before. Parts of elastic work are given up, and the rest of it goes on.
"""

from collections.abc import Callable, Sequence

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.admit.start import try_admit
from jupyter_gq.scheduling.decision import Evict, Suspend
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.state.units import GivenUp
from jupyter_gq.scheduling.workloads.replicas import Replica, whole_workload

#: Makes the sentence for a victim's owner, from the victim and the one for whom it goes.
Sentence = Callable[[Workload, Workload], str]


def evict(books: Books, workload: Workload, reason: EvictReason, by: str | None, sentence: str) -> None:
    """Write down that a released workload really goes."""
    books.leave(workload, Evict(workload=workload.id, reason=reason, by=by, sentence=sentence))
    books.units.drop(workload)


def evict_whole(books: Books, workload: Workload, reason: EvictReason, sentence: str) -> None:
    """Take everything back that it holds or was to get, for nobody in particular, and write it down."""
    core, *parts = books.units.of(workload)
    for part in reversed(parts):
        books.release(part)
        if part.id in books.admitted:
            books.retract(part)
        elif part.id in books.promised:
            books.break_promise(part)
        elif isinstance(part, Replica):
            books.give_up(GivenUp(part=part, reason=reason, by=None, sentence=lambda _: sentence))
    books.release(core)
    evict(books, core, reason, None, sentence)


def suspend(books: Books, notebook: Workload, by: str | None, sentence: str) -> None:
    """As `evict`, without loss. It keeps its quota."""
    books.recharge(notebook)
    books.leave(notebook, Suspend(workload=notebook.id, by=by, sentence=sentence))


def move(books: Books, workload: Workload, place: tuple[TaskPlacement, ...], by: Workload, sentence: str) -> None:
    """Write down that it stops, to go on at `place`, which the ledger keeps for it. Its queue uses what it did."""
    evict(books, workload, EvictReason.CONSOLIDATED, by.id, sentence)
    books.moving[workload.id] = place
    books.kept |= {workload.id, by.id}


def move_part(books: Books, part: Replica, place: tuple[TaskPlacement, ...], by: Workload, sentence: str) -> None:
    """Write down that it stops here and starts there, where the ledger holds the devices for it already."""
    books.charges.hold(part, later=False)  # twice now, once when it has stopped here
    books.give_up(GivenUp(part=part, reason=EvictReason.CONSOLIDATED, by=by.id, sentence=lambda _: sentence))
    moved = books.units.moved(part, place)
    books.admitted[moved.id] = moved
    books.kept.add(by.id)


def take_from(books: Books, victims: Sequence[Workload], by: Workload, reason: EvictReason, sentence: Sentence) -> bool:
    """Carry out what a search found: evict, or undo what this cycle did. True when something was undone.

    `by` has been promised its place; when nobody has to stop for it, it may start at once.
    """
    undone = stops = False
    for victim in victims:
        if victim.id in books.admitted:
            books.retract(victim)
            undone = True
        elif victim.id in books.promised:
            books.break_promise(victim)
            undone = True
        else:
            _tell_to_go(books, victim, by, reason, sentence)
            stops = True
    if undone and not stops:
        place = books.withdraw(by)
        if not try_admit(books, by):
            books.promise_at(by, place)
    return undone


def _tell_to_go(books: Books, victim: Workload, by: Workload, reason: EvictReason, sentence: Sentence) -> None:
    name = whole_workload(by).id
    if isinstance(victim, Replica):
        books.give_up(GivenUp(part=victim, reason=reason, by=name, sentence=lambda part: sentence(part, by)))
    else:
        evict(books, victim, reason, name, sentence(victim, by))
