"""Make room: find few victims, in a given order, such that a waiting workload fits once they are gone.

One search for everybody who takes something back: reclaim, preemption, idle notebooks, and the explanation of who is
in the way. The caller gives the candidates in the order in which they should go and may refuse each of them when its
turn comes.

Rules
-----
1. Candidates are added in the order given until the workload fits; then those that turn out not to be needed stay.
   Where that finds nothing (the rules may let only a few go, who must then lie together), place by place.
   A workload that has to stand in one domain of a topology gets one cleared for it, in the same way: the one whose
   clearing costs least.
2. The result is minimal: without any one of them the workload does not fit where it was placed, nor, for small sets,
   anywhere.
3. Parts of elastic work go before the rest of it, and none of them stays when that goes.
4. On success the workload is promised its place and the victims are released in the books; on failure nothing changed.
"""

from collections.abc import Callable, Iterable, Sequence

from jupyter_gq.domain.workload import Request, Workload
from jupyter_gq.scheduling.admit.start import try_promise
from jupyter_gq.scheduling.placement import Domain, View
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.quota.accounts import obstacle
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads.replicas import Replica

#: May this one go, as things stand now?
Allowed = Callable[[Workload], bool]

#: The candidates in their order; may be lazy, and may leave out who is not allowed any more.
Candidates = Callable[[], Iterable[Workload]]

_Search = Callable[["_Trial", Workload, Iterable[Workload]], bool]

#: Up to so many victims, each is tried for being left alone by placing anew without it.
THOROUGH = 16


def make_room(
    books: Books, workload: Workload, candidates: Candidates, allowed: Allowed | None = None
) -> list[Workload] | None:
    """The victims; None when there is no way (rule 3). `candidates` is asked anew for each search."""
    for search in _searches(books, workload, limited=allowed is not None):
        trial = _Trial(books, allowed or _anybody)
        if search(trial, workload, candidates()):
            return _spare(books, workload, trial.released)
        trial.undo()
    return None


def _searches(books: Books, workload: Workload, *, limited: bool) -> Sequence[_Search]:
    """`limited`: not anybody may go. Where anybody may, all of them together have been tried by the first."""
    if assemble.required_domains(books.ledger, workload) is None:
        return (_one_after_another, _place_by_place) if limited else (_one_after_another,)
    if books.obstacle(workload, now=False) is None:
        return (_domain_by_domain,)
    return (_domain_by_domain, _one_after_another)  # it is not only room that it needs: who goes may stand anywhere


def _anybody(_: Workload) -> bool:
    return True


class _Trial:
    """Victims released so far, with the way back."""

    def __init__(self, books: Books, allowed: Allowed) -> None:
        self.books = books
        self.released: list[Workload] = []
        self.gone: set[str] = set()
        self._allowed = allowed
        self._mark = books.ledger.mark()

    def release(self, candidate: Workload) -> bool:
        """Count it as gone, if the rules let it go when its turn comes; nothing when it is gone with another."""
        if candidate.id in self.gone:
            return True
        count, mark = len(self.released), self.books.ledger.mark()
        for unit in (*self._parts_before(candidate), candidate):
            if not self._allowed(unit):
                self.undo_to(mark, count)
                return False
            self.books.release(unit)
            self.released.append(unit)
            self.gone.add(unit.id)
        return True

    def _parts_before(self, candidate: Workload) -> list[Replica]:
        return [part for part in self.books.units.before(candidate) if part.id not in self.gone]

    def undo(self) -> None:
        """As if nothing had been tried."""
        self.undo_to(self._mark, 0)

    def undo_to(self, mark: int, count: int) -> None:
        """Back to when `count` had been released and the ledger was at `mark`."""
        self.books.ledger.rollback(mark)
        for candidate in self.released[count:]:
            self.books.recharge(candidate)
            self.gone.discard(candidate.id)
        del self.released[count:]


def _one_after_another(trial: _Trial, workload: Workload, candidates: Iterable[Workload]) -> bool:
    """In the order given, wherever they are: nobody goes who loses more than the last one that is needed."""
    for candidate in candidates:
        if trial.release(candidate) and _may_fit(trial.books, workload) and try_promise(trial.books, workload):
            return True
    return False


def _place_by_place(trial: _Trial, workload: Workload, candidates: Iterable[Workload]) -> bool:
    """Clear the cheapest places first: for when only so many may be taken that they must lie together."""
    books = trial.books
    for place in _places_by_cost(books, workload, list(candidates)):
        mark, count = books.ledger.mark(), len(trial.released)
        if not all(trial.release(candidate) for candidate in place):
            trial.undo_to(mark, count)
        elif _may_fit(books, workload) and try_promise(books, workload):
            return True
    return False


def _domain_by_domain(trial: _Trial, workload: Workload, candidates: Iterable[Workload]) -> bool:
    """Clear one domain: the one whose last victim in the order given comes first, then the one with the fewest."""
    books = trial.books
    there = _by_domain(books, workload, candidates)
    mark = books.ledger.mark()
    found: list[tuple[int, int, Domain]] = []
    for domain, members in there.items():
        for rank, candidate in members:
            if trial.release(candidate) and _may_fit_within(books, workload, domain):
                found.append((rank, len(trial.released), domain))
                break
        trial.undo_to(mark, 0)
    for *_, domain in sorted(found):
        for _, candidate in there[domain]:
            if trial.release(candidate) and _may_fit_within(books, workload, domain) and try_promise(books, workload):
                return True
        trial.undo_to(mark, 0)
    return False


def _by_domain(
    books: Books, workload: Workload, candidates: Iterable[Workload]
) -> dict[Domain, list[tuple[int, Workload]]]:
    """Who holds something in each domain that could take the workload, with his place in the order."""
    domains = books.ledger.domains
    allowed = assemble.required_domains(books.ledger, workload) or []
    found: dict[Domain, list[tuple[int, Workload]]] = {domain: [] for domain in allowed}
    for rank, candidate in enumerate(candidates):
        if allowed:
            around = {domains.around(node, allowed[0].topology, allowed[0].levels[-1]) for node in _nodes(candidate)}
            for domain in sorted(each for each in around if each in found):
                found[domain].append((rank, candidate))
    return {domain: members for domain, members in found.items() if members}


def _nodes(workload: Workload) -> set[str]:
    return {task.node for task in workload.placement}


def _may_fit_within(books: Books, workload: Workload, domain: Domain) -> bool:
    pool = books.account(workload).queue.pool
    return assemble.may_fit_within(books.ledger, pool, workload, View.FUTURE, domain)


def _places_by_cost(books: Books, workload: Workload, candidates: Sequence[Workload]) -> list[list[Workload]]:
    """For each device (node, if a task needs several) the candidates that would have to go for one task of it."""
    request = assemble.leading_request(workload)
    by_device = request.devices == 1 and not books.ledger.layout.counts_room
    places: dict[str, list[Workload]] = {}
    for candidate in candidates:
        held = {d for task in candidate.placement for d in task.devices} if by_device else _nodes(candidate)
        for name in held:
            places.setdefault(name, []).append(candidate)
    order = {candidate.id: rank for rank, candidate in enumerate(candidates)}
    found: list[tuple[int, int, str, list[Workload]]] = []
    for name, there in places.items():
        needed = _needed_there(books, workload, request, there)
        if needed:
            found.append((len(needed), max(order[c.id] for c in needed), name, needed))
    return [needed for *_, needed in sorted(found, key=lambda entry: entry[:3])]


def _needed_there(books: Books, workload: Workload, request: Request, there: Sequence[Workload]) -> list[Workload]:
    """A minimal set of them whose going gives room for one more task; empty when not even all do."""
    ledger, pool = books.ledger, books.account(workload).queue.pool
    mark = ledger.mark()
    before = ledger.slots(pool, request, View.FUTURE)
    needed: list[Workload] = []
    enough = False
    for candidate in there:
        books.release(candidate)
        needed.append(candidate)
        enough = ledger.slots(pool, request, View.FUTURE) > before
        if enough:
            break
    for candidate in list(reversed(needed)):
        if enough and books.unrelease(candidate):
            if ledger.slots(pool, request, View.FUTURE) > before:
                needed.remove(candidate)
            else:
                books.release(candidate)
    ledger.rollback(mark)
    for candidate in needed:
        books.recharge(candidate)
    return needed if enough else []


def _may_fit(books: Books, workload: Workload) -> bool:
    """A cheap bound before anything is placed."""
    return assemble.may_fit(books.ledger, books.account(workload).queue.pool, workload, View.FUTURE)


def _spare(books: Books, workload: Workload, released: list[Workload]) -> list[Workload]:
    """Leave alone who is not needed: first those away from the chosen place, then by trying without them."""
    kept: list[Workload] = []
    for victim in reversed(released):
        if _is_tied(victim, kept) or not _leave_alone(books, workload, victim):
            kept.append(victim)
    kept.reverse()
    if 1 < len(kept) <= THOROUGH:
        for victim in list(reversed(kept)):
            if not _is_tied(victim, kept) and _fits_without(books, workload, victim):
                kept.remove(victim)
    return kept


def _is_tied(victim: Workload, released: Sequence[Workload]) -> bool:
    """It is a part of something that goes as a whole."""
    return isinstance(victim, Replica) and any(each.id == victim.whole.id for each in released)


def _leave_alone(books: Books, workload: Workload, victim: Workload) -> bool:
    """Let `victim` stay if neither the place nor a limit needs it gone; the workload keeps its place."""
    if not books.unrelease(victim):
        return False
    if obstacle(books.account(workload), 0, fixed=not workload.preemptible, now=False) is None:
        return True
    books.release(victim)
    return False


def _fits_without(books: Books, workload: Workload, victim: Workload) -> bool:
    """Try another place that does not need `victim` gone, and take it if there is one."""
    place = books.withdraw(workload)
    if books.unrelease(victim):
        if try_promise(books, workload):
            return True
        books.release(victim)
    books.promise_at(workload, place)
    return False
