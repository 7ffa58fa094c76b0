"""One scheduling cycle: what to do now, least disruptive first, and why the others wait.

1. Leave nodes that are being emptied, and obey limits that were lowered.
2. Keep the promises of earlier cycles: room freed for somebody goes to him.
3. Admit what fits on free devices, best queue first; keep room that is being freed for who comes next.
   Elastic work that runs takes part, for one task more at a time, within fair shares.
4. Consolidate. 5. Reclaim across queues. 6. Preempt inside a queue. 7. What can grow only at its start does.
   Gangs that lost tasks too long ago go back to their queues, and 3 to 6 are done once more with their room.
8. Idle notebooks. 9. Defer what cannot be launched soon. 10. Explain every workload that still waits, and count the
   new nodes that would serve it.

A pure function: same input, same output, and nothing of the input is changed.
"""

from functools import partial

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Workload

from .admit.reservations import hold_again, keep_reservations, reserve
from .admit.start import may_fit_now, may_fit_soon, start_kept, try_admit, try_promise, try_start
from .admit.turns import rounds, take_turns
from .decision import Decision
from .evict.consolidate import consolidate
from .evict.drain import leave_nodes
from .evict.over_limit import obey_limits
from .evict.preempt import preempt
from .evict.preemptors import name_beneficiaries
from .evict.reclaim import reclaim
from .evict.reprieve import spare_needless
from .evict.stale_gangs import requeue_stale
from .explain import explanations as explain
from .explain.protected_victims import note_shielded
from .idle.lending import resume, use_idle_shares
from .idle.reclaim_idle import take_idle
from .order.pending_queue import Line
from .order.queue_order import Turn
from .policy import Policy
from .scale.wanted_nodes import with_wanted_nodes
from .state.cluster_index import ClusterIndex
from .state.cycle_state import Books
from .state.instructions import decided
from .state.launch_capacity import split_by_capacity
from .workloads import gang
from .workloads.seniority import seniority


def run_cycle(snapshot: Snapshot, policy: Policy, now: Instant) -> Decision:
    """Decide. Raises `InvalidSnapshot` when the queues are not a tree."""
    return decide(Books(ClusterIndex(snapshot, policy), now))


def decide(books: Books, *, explained: bool = True) -> Decision:
    """The steps of a cycle, on fresh books; `explained`: with the tenth."""
    leave_nodes(books)
    obey_limits(books)
    admit_without_devices(books)
    resume(books)
    hold_again(books)
    keep_promises(books)
    keep_reservations(books)
    settle(books)
    if requeue_stale(books):
        settle(books)
    spare_needless(books)
    name_beneficiaries(books)
    grow(books)
    take_idle(books)
    reserve(books)
    capacity = books.index.launch_capacity
    instructions, deferred = split_by_capacity(decided(books), capacity, lambda name: books.workloads[name].kind)
    if not explained:
        return Decision(instructions=instructions, pending=(), deferred=deferred)
    note_shielded(books)
    pending = explain.pending(books, {admission.workload for admission in deferred})
    return with_wanted_nodes(
        Decision(instructions=instructions, pending=pending, deferred=deferred), books.index, books.now
    )


def settle(books: Books) -> None:
    """Admit, consolidate, reclaim, preempt. What was admitted and had to give way makes room for others: once more.

    So does what those leave over who were told to stop: that is promised in the order of admission, at the end, and
    moves may bring it together.
    """
    for _ in rounds(books):
        admit(books)
        use_idle_shares(books)
        consolidate(books)
        told = len(books.leaving)
        if not (reclaim(books) | preempt(books)):
            if len(books.leaving) > told:
                admit(books)
                consolidate(books)
            break


def grow(books: Books) -> None:
    """What starts now and cannot change later gets more than its smallest gang, once everybody has had his turn."""
    lines: dict[str, Line] = {}
    for name in books.admitted:
        for part in books.units.wanted_at_start(name):
            lines.setdefault(part.queue, Line()).add(part)
    _admit_all(books, Turn(books.accounts, lines, books.is_seeking))


def admit_without_devices(books: Books) -> None:
    """Work that needs no device waits for nobody."""
    found = [members for line in books.index.pending.lines.values() for members in line.classes.values()]
    without = [workload for members in found if not gang.needs_devices(members.members[0]) for workload in members]
    for workload in sorted(without, key=seniority):
        try_admit(books, workload)


def keep_promises(books: Books) -> None:
    """Serve first those for whom somebody has been told to stop, so that nobody snatches what was freed for them."""
    names = {w.stop.by for w in books.leaving.values() if w.stop is not None and w.stop.by is not None}
    for name in sorted(books.promised.keys() & books.kept, key=lambda name: seniority(books.waiting[name])):
        start_kept(books, books.waiting[name])
    waiting: list[Workload] = [
        books.waiting[name] for name in names if name in books.waiting and name not in books.kept
    ]
    for workload in sorted(waiting, key=seniority):
        try_start(books, workload)
    for name in sorted(names):
        freed = sum(gang.held(w) for w in books.leaving.values() if w.stop is not None and w.stop.by == name)
        for part in books.units.wanted_by(name, freed):
            try_start(books, part)


def admit(books: Books) -> None:
    """Start whatever fits, in order; who does not fit now but will, keeps that room and blocks nobody else."""
    promising = partial(may_fit_soon if books.leaving else may_fit_now, books)
    _admit_all(books, take_turns(books, promising, growth=True, by_pool=True), also_promise=bool(books.leaving))
    while lines := books.units.fresh_lines():
        _admit_all(books, Turn(books.accounts, lines, books.is_seeking), also_promise=bool(books.leaving))


def _admit_all(books: Books, turn: Turn, *, also_promise: bool = False) -> None:
    while (workload := turn.next()) is not None:
        if try_admit(books, workload) or (also_promise and try_promise(books, workload)):
            turn.done()
        else:
            turn.pass_over()
