"""Make room: find few victims, in a given order, such that a pending workload fits once they are gone.

Every step that takes something back uses this search: reclaim, preemption, idle notebooks, and the explanation of what
blocks a workload. The caller gives the candidates in the order in which they should go, and may refuse each of them
just before it would go.

Rules
-----
Search order: candidates are released in the order given until the workload fits; then those that turn out not to be
needed stay. If that finds nothing, places are cleared one by one, since the rules may let only a few candidates go,
which must then hold devices together. For a workload that must stand in one domain of a topology, a domain is cleared
in the same way: the one that costs least. If that finds nothing either, and few candidates are there, small sets of
them are tried.

Bounded search: the first two searches release each candidate at most a few times. If at most `MOST_CANDIDATES` could
go, all sets of up to `MOST_VICTIMS` of them are tried, the smallest sets first: at most 2,516 sets. So with so few
candidates, each workload finds its place if so few victims can make it. No set is tried for a workload that would not
fit even without all of the candidates.

Minimal result: without any one of the victims the workload does not fit where it was placed nor, for small sets,
anywhere, or the others may not go (see `rights`).

Surplus first: replicas of elastic work go before the rest of it, and none of them stays if that goes.

All or nothing: on success the workload is nominated for its place and the victims are released; on failure nothing has
changed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import combinations

from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.workload import Request, Workload, devices_of
from jupyter_gq.scheduling.admit.start import grows_unfairly, try_nominate
from jupyter_gq.scheduling.placement import Domain, View
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.quota.accounts import first_exceeded_limit
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.replicas import Replica

from .rights import Rights

#: Returns the candidates in their order. The result may be lazy and may omit candidates that are not allowed any more.
Candidates = Callable[[], Iterable[Workload]]

_Search = Callable[["_Trial", Workload, Iterable[Workload]], bool]

#: For up to so many victims, each is tried for being left alone by placing the workload again without it.
THOROUGH = 16
#: So many candidates at most, and so many victims of them, are tried in all combinations.
MOST_CANDIDATES = 16
MOST_VICTIMS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The limits of a search in which not every candidate may be evicted."""

    rights: Rights
    #: Candidates that are released before all others, as far as they may be evicted. Small sets have no opening: it is
    #: empty if `everything` is given.
    opening: Sequence[Workload] = ()
    #: Returns all candidates that could go once others have gone, or more than `MOST_CANDIDATES` of them; None: small
    #: sets are not tried.
    everything: Callable[[], Sequence[Workload]] | None = None


def make_room(
    allocations: Allocations, workload: Workload, candidates: Candidates, limits: Limits | None = None
) -> list[Workload] | None:
    """Nominate the workload by releasing few candidates, none of them needlessly, and return the released ones.

    None means that the search has found no such candidates, and then nothing has changed. `candidates` is called again
    for each kind of search. `limits`: which candidates may be evicted; None: all may.
    """
    for search in _searches(allocations, workload, limited=limits is not None):
        trial = _Trial(allocations, limits)
        if search(trial, workload, candidates()):
            return _reprieve_unneeded(trial, workload)
        trial.undo()
    if limits is None or limits.everything is None:
        return None
    trial = _Trial(allocations, limits)
    return _reprieve_unneeded(trial, workload) if _set_by_set(trial, workload, limits.everything(), limits) else None


def _searches(allocations: Allocations, workload: Workload, *, limited: bool) -> Sequence[_Search]:
    """Return the kinds of search to try for the workload, in order.

    A workload that must stand in one domain is searched for domain by domain and, if it exceeds a limit, also candidate
    by candidate. Any other is searched for candidate by candidate and, if `limited`, then place by place. Without
    limits, the first search tries all candidates together, so it needs no second.
    """
    if assemble.required_domains(allocations.ledger, workload) is None:
        return (_one_after_another, _place_by_place) if limited else (_one_after_another,)
    if allocations.first_exceeded_limit(workload, now=False) is None:
        return (_domain_by_domain,)
    # The workload needs more than room: under its limits it may need victims that stand anywhere.
    return (_domain_by_domain, _one_after_another)


class _Trial:
    """The victims that one search has released so far, and the state of the ledger before them."""

    def __init__(self, allocations: Allocations, limits: Limits | None) -> None:
        """Release the opening of the limits, as far as its candidates may be evicted."""
        self.allocations = allocations
        self.released: list[Workload] = []
        self.gone: set[str] = set()
        self.rights = None if limits is None else limits.rights
        self._mark = allocations.ledger.mark()
        for candidate in () if limits is None else limits.opening:
            self.release(candidate)

    def release(self, candidate: Workload, *, allowed: bool = False) -> bool:
        """Release a candidate with its surplus replicas and return True.

        Returns False, without change, if one of them may not be evicted; `allowed`: the candidate may be, as things
        stand. If the candidate was released before, with another candidate, nothing changes and the result is True.
        """
        if candidate.id in self.gone:
            return True
        count, mark = len(self.released), self.allocations.ledger.mark()
        surplus = self._surplus_of(candidate)
        is_known = allowed and not surplus
        for each in (*surplus, candidate):
            if self.rights is not None and not is_known and not self.rights.allows(each):
                self.undo_to(mark, count)
                return False
            self.allocations.release(each)
            self.released.append(each)
            self.gone.add(each.id)
        return True

    def _surplus_of(self, candidate: Workload) -> list[Replica]:
        return [each for each in self.allocations.replicas.surplus_of(candidate) if each.id not in self.gone]

    def undo(self) -> None:
        """Undo all releases of this trial, those of the opening included."""
        self.undo_to(self._mark, 0)

    def undo_to(self, mark: int, count: int) -> None:
        """Undo all releases but the first `count`, after which the ledger was at `mark`."""
        self.allocations.ledger.rollback(mark)
        for candidate in self.released[count:]:
            self.allocations.restore_usage(candidate)
            self.gone.discard(candidate.id)
        del self.released[count:]


def _one_after_another(trial: _Trial, workload: Workload, candidates: Iterable[Workload]) -> bool:
    """Release candidates in the order given until the workload fits and is nominated; tell whether it was nominated.

    Each candidate must be allowed to go at the moment when it is given. After False the candidates stay released, and
    the caller must undo the trial.
    """
    allocations, ledger = trial.allocations, trial.allocations.ledger
    known: int | None = None
    may_fit = False
    for candidate in candidates:
        if not trial.release(candidate, allowed=True):
            continue
        if ledger.changes != known:
            known, may_fit = ledger.changes, _may_fit(allocations, workload)
        if may_fit and try_nominate(allocations, workload):
            return True
    return False


def _place_by_place(trial: _Trial, workload: Workload, candidates: Iterable[Workload]) -> bool:
    """Release candidates one device or node after another, the cheapest first, until the workload is nominated.

    Tell whether it was nominated. After False, candidates may stay released, and the caller must undo the trial. This
    search helps if so few candidates may be evicted that they must hold devices together.
    """
    allocations = trial.allocations
    staying = [candidate for candidate in candidates if candidate.id not in trial.gone]
    for needed, there in _places_by_cost(allocations, workload, staying):
        if not _clear(trial, workload, needed) and not _clear(trial, workload, there):
            continue
        if _may_fit(allocations, workload) and try_nominate(allocations, workload):
            return True
    return False


def _clear(trial: _Trial, workload: Workload, place: Iterable[Workload]) -> bool:
    """Release candidates of one place until one more task fits, and return True.

    Returns False, without change, if none fits.
    """
    allocations = trial.allocations
    ledger, pool = allocations.ledger, allocations.account(workload).queue.pool
    request = assemble.leading_request(workload)
    mark, count = ledger.mark(), len(trial.released)
    before = ledger.slots(pool, request, View.FUTURE)
    for candidate in place:
        if trial.release(candidate) and ledger.slots(pool, request, View.FUTURE) > before:
            return True
    trial.undo_to(mark, count)
    return False


def _set_by_set(trial: _Trial, workload: Workload, candidates: Sequence[Workload], limits: Limits) -> bool:
    """Try all small sets of candidates until the workload is nominated after the release of one; tell whether it was.

    Each set is tried in the orders of `Rights.best_orders` until one is allowed. Among sets of one size, those whose
    last member in the order given comes first go first. A set is not tried if no
    set with one member less may be evicted: one of these would have to go before the last member. Returns False at once
    if there are more than `MOST_CANDIDATES` candidates, or if the workload does not fit without all of them.
    """
    if len(candidates) > MOST_CANDIDATES or not _may_fit_without(trial.allocations, workload, candidates):
        return False
    allocations = trial.allocations
    pool = allocations.account(workload).queue.pool
    lacks = gang.smallest(workload) - allocations.ledger.total(pool, View.FUTURE)
    refused: set[frozenset[str]] = set()
    for chosen in _small_sets(candidates):
        names = frozenset(each.id for each in chosen)
        is_refused = len(names) > 1 and all(names - {name} in refused for name in names)
        if not is_refused and sum(gang.held(each) for each in chosen) < lacks:
            continue
        for order in () if is_refused else limits.rights.best_orders(chosen):
            is_refused = not all(trial.release(victim) for victim in order)
            if not is_refused and _may_fit(allocations, workload) and try_nominate(allocations, workload):
                return True
            trial.undo()
            if not is_refused:
                break
        if is_refused:
            refused.add(names)
    return False


def _may_fit_without(allocations: Allocations, workload: Workload, candidates: Sequence[Workload]) -> bool:
    """Return False if the workload certainly does not fit even if all candidates go. Nothing is changed."""
    mark = allocations.ledger.mark()
    for candidate in candidates:
        allocations.release(candidate)
    may_fit = _may_fit(allocations, workload)
    allocations.ledger.rollback(mark)
    for candidate in candidates:
        allocations.restore_usage(candidate)
    return may_fit


def _small_sets(candidates: Sequence[Workload]) -> Iterator[tuple[Workload, ...]]:
    """Yield all sets of up to `MOST_VICTIMS` candidates, smaller ones first, each in the order given."""
    for count in range(1, MOST_VICTIMS + 1):
        for last, candidate in enumerate(candidates):
            for others in combinations(candidates[:last], count - 1):
                yield (*others, candidate)


def _domain_by_domain(trial: _Trial, workload: Workload, candidates: Iterable[Workload]) -> bool:
    """Release candidates of one domain until the workload is nominated there; tell whether it was nominated.

    The domain whose last victim in the order given comes first is tried first, then the one with fewest victims.
    """
    allocations = trial.allocations
    there = _by_domain(allocations, workload, candidates)
    mark, count = allocations.ledger.mark(), len(trial.released)
    found: list[tuple[int, int, Domain]] = []
    for domain, members in there.items():
        for rank, candidate in members:
            if trial.release(candidate) and _may_fit_within(allocations, workload, domain):
                found.append((rank, len(trial.released), domain))
                break
        trial.undo_to(mark, count)
    for *_, domain in sorted(found):
        for _, candidate in there[domain]:
            if not trial.release(candidate) or not _may_fit_within(allocations, workload, domain):
                continue
            if try_nominate(allocations, workload):
                return True
        trial.undo_to(mark, count)
    return False


def _by_domain(
    allocations: Allocations, workload: Workload, candidates: Iterable[Workload]
) -> dict[Domain, list[tuple[int, Workload]]]:
    """Return the candidates on each domain that could hold the workload, with their positions in the order given.

    Domains without candidates are left out.
    """
    domains = allocations.ledger.domains
    allowed = assemble.required_domains(allocations.ledger, workload) or []
    found: dict[Domain, list[tuple[int, Workload]]] = {domain: [] for domain in allowed}
    for rank, candidate in enumerate(candidates):
        if allowed:
            around = {domains.around(node, allowed[0].topology, allowed[0].levels[-1]) for node in _nodes(candidate)}
            for domain in sorted(each for each in around if each in found):
                found[domain].append((rank, candidate))
    return {domain: members for domain, members in found.items() if members}


def _nodes(workload: Workload) -> set[str]:
    return {task.node for task in workload.placement}


def _may_fit_within(allocations: Allocations, workload: Workload, domain: Domain) -> bool:
    pool = allocations.account(workload).queue.pool
    return assemble.may_fit_within(allocations.ledger, pool, workload, View.FUTURE, domain)


def _places_by_cost(
    allocations: Allocations, workload: Workload, candidates: Sequence[Workload]
) -> Iterator[tuple[list[Workload], list[Workload]]]:
    """Yield, for each device or node, the candidates that would have to go for one more task; the cheapest first.

    A place is examined only once no other one can be cheaper, if examining others before cannot change the result (see
    `_are_apart`). The second list of each entry has all candidates of the place. A place is a node if a task needs
    several devices or if host resources count, and a device otherwise. Places where no more task can fit are left out.
    """
    request = assemble.leading_request(workload)
    by_device = request.devices == 1 and not allocations.ledger.layout.counts_host_resources
    places: dict[str, list[Workload]] = {}
    for candidate in candidates:
        held = {d for task in candidate.placement for d in task.devices} if by_device else _nodes(candidate)
        for name in held:
            places.setdefault(name, []).append(candidate)
    order = {candidate.id: rank for rank, candidate in enumerate(candidates)}
    least = {name: 1 if by_device else _fewest_needed(allocations, workload, name, places[name]) for name in places}
    known: dict[str, list[Workload]] = {}
    if not _are_apart(allocations, request, places):
        known = {name: _needed_for_one_task(allocations, workload, places[name], least[name]) for name in places}
    #: The cost of each place: how many candidates have to go, and which of them is the last in the order given. For a
    #: place that is not known yet, the cost is a lower bound.
    costs = [(count, order[places[name][min(count, len(places[name])) - 1].id], name) for name, count in least.items()]
    costs = [cost for cost in costs if cost[2] not in known]
    costs += [(len(needed), max(order[c.id] for c in needed), name) for name, needed in known.items() if needed]
    heapify(costs)
    while costs:
        *_, name = heappop(costs)
        if name in known:
            yield known[name], places[name]
            continue
        known[name] = needed = _needed_for_one_task(allocations, workload, places[name], least[name])
        if needed:
            heappush(costs, (len(needed), max(order[c.id] for c in needed), name))


def _are_apart(allocations: Allocations, request: Request, places: Mapping[str, Sequence[Workload]]) -> bool:
    """Tell whether the candidates of one place change nothing for any other place.

    Each of them must hold one place only, without replicas elsewhere, and the request must be for whole devices, since
    tasks with several fractions are only counted for all places together.
    """
    surplus_of = allocations.replicas.surplus_of
    candidates = [candidate for there in places.values() for candidate in there]
    return (
        request.milli_per_device == ONE_GPU
        and len({candidate.id for candidate in candidates}) == len(candidates)
        and not any(isinstance(candidate, Replica) or surplus_of(candidate) for candidate in candidates)
    )


def _fewest_needed(allocations: Allocations, workload: Workload, node: str, there: Sequence[Workload]) -> int:
    """Return a lower bound of how many candidates on the node must go for one more task, at least 1.

    A task with whole devices needs those that no candidate holds and, beyond that, all that some candidates hold.
    """
    request = assemble.leading_request(workload)
    if request.milli_per_device != ONE_GPU:
        return 1
    devices = allocations.ledger.layout.devices_on(node, allocations.account(workload).queue.pool)
    held = [devices & devices_of(candidate.placement) for candidate in there]
    lacks = request.devices - len(devices.difference(*held))
    count = 0
    for most in sorted(map(len, held), reverse=True):
        if lacks <= 0:
            break
        lacks -= most
        count += 1
    return max(1, count)


def _needed_for_one_task(
    allocations: Allocations, workload: Workload, candidates: Sequence[Workload], least: int
) -> list[Workload]:
    """Return candidates whose release makes room for one more task of the workload; none of them can be spared.

    Returns [] if even all of them do not suffice. `least` is a lower bound of their number. `allocations` is the same
    afterwards.
    """
    request = assemble.leading_request(workload)
    ledger, pool = allocations.ledger, allocations.account(workload).queue.pool
    mark = ledger.mark()
    before = ledger.slots(pool, request, View.FUTURE)
    needed: list[Workload] = []
    enough = False
    for candidate in candidates:
        allocations.release(candidate)
        needed.append(candidate)
        enough = ledger.slots(pool, request, View.FUTURE) > before
        if enough:
            break
    for candidate in list(reversed(needed)):
        if enough and len(needed) > least and allocations.undo_release(candidate):
            if ledger.slots(pool, request, View.FUTURE) > before:
                needed.remove(candidate)
            else:
                allocations.release(candidate)
    ledger.rollback(mark)
    for candidate in needed:
        allocations.restore_usage(candidate)
    return needed if enough else []


def _may_fit(allocations: Allocations, workload: Workload) -> bool:
    """Return False if the workload certainly does not fit once others have stopped; True means that it may fit."""
    pool = allocations.account(workload).queue.pool
    return assemble.may_fit(allocations.ledger, pool, workload, View.FUTURE)


def _reprieve_unneeded(trial: _Trial, workload: Workload) -> list[Workload]:
    """Undo the release of victims that are not needed, and return the others.

    The workload may get another place by that. Victims away from the chosen place are taken back first; then the
    workload is placed without one victim at a time.
    """
    released = trial.released
    kept = list(released)
    for position, victim in reversed(list(enumerate(released))):
        del kept[position]
        if _is_tied(victim, kept) or not _take_back_unneeded(trial, workload, victim, kept):
            kept.insert(position, victim)
    if 1 < len(kept) <= THOROUGH:
        for victim in list(reversed(kept)):
            others = [each for each in kept if each is not victim]
            if not _is_tied(victim, others) and _place_without(trial, workload, victim, others):
                kept = others
    return kept


def _is_tied(victim: Workload, released: Sequence[Workload]) -> bool:
    """Tell whether the victim is a replica of a workload that is itself among `released`, and so goes as a whole."""
    return isinstance(victim, Replica) and any(each.id == victim.whole.id for each in released)


def _take_back_unneeded(trial: _Trial, workload: Workload, victim: Workload, others: Sequence[Workload]) -> bool:
    """Undo the release of the victim if the place, limits, shares and the rights to the `others` allow it to stay.

    Tell whether the victim stays. The workload keeps its place.
    """
    allocations = trial.allocations
    if not allocations.undo_release(victim):
        return False
    account = allocations.account(workload)
    within_limits = first_exceeded_limit(account, 0, fixed=not workload.preemptible, now=False) is None
    if within_limits and not grows_unfairly(allocations, workload) and _may_others_go(trial, victim, others):
        return True
    allocations.release(victim)
    return False


def _place_without(trial: _Trial, workload: Workload, victim: Workload, others: Sequence[Workload]) -> bool:
    """Nominate the workload for another place that does not need the victim gone; tell whether there is one.

    False also if the `others` may not go without the victim. If the result is False, nothing changes.
    """
    allocations = trial.allocations
    place = allocations.withdraw(workload)
    if allocations.undo_release(victim):
        if try_nominate(allocations, workload):
            if _may_others_go(trial, victim, others):
                return True
            allocations.withdraw(workload)
        allocations.release(victim)
    allocations.nominate_again(workload, place)
    return False


def _may_others_go(trial: _Trial, victim: Workload, others: Sequence[Workload]) -> bool:
    return trial.rights is None or trial.rights.may_stay(victim, others)
