"""The judge's own search: whether a workload finds a place, and which victims would make room for it.

As in `tests.property.arithmetic`, nothing here calls the scheduling core. Every place and every set of victims, of up
to four, is tried.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product

from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Request, TaskGroup, TopologyConstraint, Workload
from tests.builders import groups_of
from tests.property.arithmetic import Books, held, smallest
from tests.property.free import Free, free_soon, lenders_to, staying_at

#: The search for victims tries sets of up to so many.
MOST_VICTIMS = 4


def fits_soon(snapshot: Snapshot, books: Books, workload: Workload) -> bool:
    """Whether the smallest gang has a place once everything that is stopping has stopped, found by trying all."""
    return fits_without(snapshot, books, workload, ())


def fits_without(snapshot: Snapshot, books: Books, taker: Workload, gone: Sequence[Workload]) -> bool:
    """Whether the smallest gang may start and fits once these have gone, which the books do not count any more."""
    return not books.is_forbidden(taker, soon=True) and has_place_without(snapshot, books, taker, gone)


def has_place_without(snapshot: Snapshot, books: Books, taker: Workload, gone: Sequence[Workload]) -> bool:
    """Whether the smallest gang has a place once these have gone, whatever the limits of its queues are."""
    free = free_soon(snapshot)
    for other, place in books.kept:
        if other.id != taker.id:
            free.take(other, place)
    for victim in gone:
        free.give_back(victim, victim.placement)
    others = ((other, place) for other, place in books.kept if other.id != taker.id)
    free.take_lent(lenders_to(snapshot, taker), [*staying_at(snapshot), *others], gone)
    tasks = [group for group in groups_of(taker) for _ in range(group.min_members)]
    pool = books.tallies[taker.queue].queue.pool
    return any(_place_all(nodes, free, pool, tasks) for nodes in _where_it_may_stand(snapshot, taker, pool))


def _where_it_may_stand(snapshot: Snapshot, taker: Workload, pool: str) -> Iterator[dict[str, list[Node]]]:
    """The nodes of each task group, for each choice of the domains in which the workload and its groups must stand.

    Tasks without devices leave the nodes alone that have devices of other pools only, unless there are no others.
    """
    groups, without_devices = groups_of(taker), [n for n in snapshot.nodes if _is_for_pool(n, pool)] or snapshot.nodes
    for around in _domains(snapshot, taker.topology):
        choices = [[set(around) & set(nodes) for nodes in _domains(snapshot, group.topology)] for group in groups]
        for chosen in product(*choices):
            named = zip(groups, chosen, strict=True)
            yield {
                group.name: [
                    node
                    for node in (snapshot.nodes if group.request.devices else without_devices)
                    if node.name in nodes
                ]
                for group, nodes in named
            }


def _is_for_pool(node: Node, pool: str) -> bool:
    return not node.devices or any(device.pool == pool for device in node.devices)


def _domains(snapshot: Snapshot, constraint: TopologyConstraint | None) -> list[list[str]]:
    """The names of the nodes of each domain in one of which the constraint requires all tasks to stand."""
    if constraint is None or constraint.required is None:
        return [[node.name for node in snapshot.nodes]]
    levels = next(topology.levels for topology in snapshot.topologies if topology.name == constraint.topology)
    down = levels[: levels.index(constraint.required) + 1]
    found: dict[tuple[str, ...], list[str]] = {}
    for node in snapshot.nodes:
        if all(level in node.labels for level in down):
            found.setdefault(tuple(node.labels[level] for level in down), []).append(node.name)
    return list(found.values())


def _place_all(nodes: dict[str, list[Node]], free: Free, pool: str, tasks: Sequence[TaskGroup]) -> bool:
    if not tasks:
        return True
    (group, *others), request = tasks, tasks[0].request
    for node in nodes[group.name]:
        if not free.has_room(node.name, request) or not _has_labels(node, request):
            continue
        there = [d for d in node.devices if d.pool == pool and (not request.models or d.model in request.models)]
        suits = [d.id for d in there if free.devices.get(d.id, 0) >= request.milli_per_device]
        seen: set[tuple[tuple[int, str], ...]] = set()
        for chosen in combinations(suits, request.devices):
            alike = tuple((free.devices[d.id], d.model) for d in there if d.id in chosen)
            if alike in seen:
                continue
            seen.add(alike)
            if _place_all(nodes, free.without(node.name, chosen, request), pool, others):
                return True
    return False


def _has_labels(node: Node, request: Request) -> bool:
    return all(node.labels.get(key) == value for key, value in request.node_labels)


def is_guaranteed(books: Books, workload: Workload) -> bool:
    """Whether the leaf queue deserves the smallest gang, if work of lower priority that may go does not count.

    Work without a GPU is guaranteed what all its queues guarantee of CPU and memory.
    """
    leaf, more = books.path(workload.queue)[0], smallest(workload)
    if not more[0]:
        return books.is_guaranteed_host(workload)
    lower = [w for w in candidates(books, workload) if w.queue == workload.queue]
    return leaf.lasting[0] - sum(held(w)[0] for w in lower) + more[0] <= leaf.deserved


def candidates(books: Books, taker: Workload) -> list[Workload]:
    """Everything that may ever go for the taker: rigid work, smallest gangs of elastic work, and the replicas above.

    Replicas come before the gang that they belong to.
    """
    found = []
    for workload in books.snapshot.workloads:
        if not workload.preemptible or workload.state is not State.RUNNING or not any(held(workload)):
            continue
        if workload.queue == taker.queue and workload.priority >= taker.priority:
            continue
        core, surplus = _parts_of(workload)
        found += surplus
        if books.has_run_long_enough(workload, taker):
            found.append(core)
    return found


def _parts_of(workload: Workload) -> tuple[Workload, list[Workload]]:
    """The smallest gang, and each task above it as a workload of its own, the last one first."""
    if not workload.elastic:
        return workload, []
    left, seen = [], []
    for task in workload.placement:
        least = next(group.min_members for group in groups_of(workload) if group.name == task.group)
        (left if sum(t.group == task.group for t in left) < least else seen).append(task)
    surplus = [replace(workload, id=f"{workload.id}/{number}", placement=(task,)) for number, task in enumerate(seen)]
    return replace(workload, placement=tuple(left)), surplus[::-1]


def victims_for(
    snapshot: Snapshot,
    books: Books,
    taker: Workload,
    only: Callable[[Workload, Workload], bool] | None = None,
) -> list[Workload] | None:
    """Up to four candidates that may go one after the other, after which the taker fits; None if there are none.

    `only` restricts the candidates further, as things stand when the turn of each comes.
    """
    everything, tried = candidates(books, taker), set[frozenset[str]]()

    def search(gone: list[Workload]) -> list[Workload] | None:
        if fits_without(snapshot, books, taker, gone):
            return gone
        for victim in everything if len(gone) < MOST_VICTIMS else ():
            chosen = frozenset(each.id for each in (*gone, victim))
            if chosen in tried or victim in gone or not _is_next(everything, gone, victim):
                continue
            if not books.may_take(taker, victim) or (only is not None and not only(taker, victim)):
                continue
            tried.add(chosen)
            books.add_usage(victim, held(victim), sign=-1, now=False)
            found = search([*gone, victim])
            books.add_usage(victim, held(victim), now=False)
            if found is not None:
                return found
        return None

    return search([]) if has_place_without(snapshot, books, taker, everything) else None


def _is_next(everything: list[Workload], gone: list[Workload], victim: Workload) -> bool:
    """Whether the replicas that go before this candidate have gone."""
    whole = victim.id.split("/")[0]
    for each in everything:
        if each is victim:
            return True
        if each.id.split("/")[0] == whole and each not in gone:
            return False
    return True


def may_go_together(books: Books, taker: Workload, victims: Sequence[Workload]) -> bool:
    """Whether these victims may go one after the other, in some order."""
    if not victims:
        return True
    for victim in victims:
        if books.may_take(taker, victim):
            books.add_usage(victim, held(victim), sign=-1, now=False)
            rest = may_go_together(books, taker, [each for each in victims if each is not victim])
            books.add_usage(victim, held(victim), now=False)
            if rest:
                return True
    return False
