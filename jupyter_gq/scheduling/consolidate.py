"""Consolidate: move running work together, so that one who waits fits into room that was scattered.

Rules
-----
1. Only for a workload that its queue may start (limits; the quota, where it is not preemptible) and that then starts:
   each move brings one more to run, so moves end when nobody waits whom they could help.
2. Who moves is preemptible training that has run for `Policy.moved_after`. All tasks of all who move have a new place,
   on devices that are free, or that the moves free. Nobody is stopped for good.
3. The place of the one who waits and the places of those who move are written down (`Books.move`), and kept until they
   run there.
4. Few moves, cheapest first: first one device (node) alone, by the number of moves, then what they hold, then who
   loses least. Then several together.
5. The search is bounded: `MOST_MOVED` for one workload, `MOST_PLACES` looked at, `MOST_PROBES` in a cycle. What cannot
   be helped is found out before anything is tried: less is free in sum than it needs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from jupyter_gq.domain.workload import Kind, TaskPlacement, Workload

from . import explain, gang
from .books import Books
from .disruption import disruption
from .ordering import Turn
from .placement import View
from .quota import obstacle

#: So many may move for one workload.
MOST_MOVED = 16
#: So many devices (nodes) are looked at for one workload, those with the most free room first.
MOST_PLACES = 64
#: So many releases and placements are tried in one cycle.
MOST_PROBES = 4000


def consolidate(books: Books) -> None:
    """Promise room to those who wait, in their turn, by moving others."""
    waiting = books.unsettled() if books.policy.consolidate else ()
    if not waiting:
        return
    search = _Search(books)
    turn = Turn(books.accounts, waiting)
    while (workload := turn.next()) is not None:
        if search.help(workload):
            turn.done()
        else:
            turn.pass_over()


def may_move(books: Books, workload: Workload) -> bool:
    """Rule 2, without the new place."""
    if not workload.preemptible or workload.kind is not Kind.TRAINING or not workload.request.devices:
        return False
    return workload.started_at is not None and books.now >= workload.started_at + books.policy.moved_after


class _Search:
    """The search for all who wait in one cycle."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._probes = MOST_PROBES
        #: What could not be helped since the last success.
        self._hopeless: set[tuple[object, ...]] = set()
        self._helped = False
        self._movable: list[Workload] | None = None

    def help(self, workload: Workload) -> bool:
        """Promise it room, by moving others if need be; False changes nothing."""
        books, account = self._books, self._books.account(workload)
        milli = gang.smallest(workload)
        if not account.known or obstacle(account, milli, fixed=not workload.preemptible, now=False):
            return False
        if self._helped and books.try_start(workload):
            return True
        shape = (account.queue.pool, workload.request, workload.min_members, workload.groups, workload.topology)
        if shape in self._hopeless or books.ledger.total(account.queue.pool, View.FUTURE) < milli:
            return False
        if any(self._attempt(workload, chosen) for chosen in self._choices(workload)):
            self._helped = True
            self._hopeless.clear()
            return True
        self._hopeless.add(shape)
        return False

    def _choices(self, workload: Workload) -> Iterator[list[Workload]]:
        """Sets of workloads to move, in the order of rule 4."""
        places = self._places(workload)
        if workload.min_members == 1:
            yield from places
        together: dict[str, Workload] = {}
        for count, place in enumerate(places):
            added = {each.id: each for each in place if each.id not in together}
            if not added or len(together) + len(added) > MOST_MOVED:
                continue
            together |= added
            if count or workload.min_members > 1:
                yield list(together.values())

    def _places(self, workload: Workload) -> list[list[Workload]]:
        """For each device (node, if a task needs several) who would have to move for one task, cheapest first."""
        order = {each.id: rank for rank, each in enumerate(self._candidates())}
        found: list[tuple[int, int, int, str, list[Workload]]] = []
        for name, there in self._most_promising(workload):
            needed = self._needed(workload, there)
            if needed:
                amount = sum(gang.held(each) for each in needed)
                found.append((len(needed), amount, max(order[each.id] for each in needed), name, needed))
        return [needed for *_, needed in sorted(found, key=lambda entry: entry[:4])]

    def _candidates(self) -> list[Workload]:
        books = self._books
        if self._movable is None:
            self._movable = sorted((w for w in books.staying() if may_move(books, w)), key=disruption)
        return self._movable

    def _most_promising(self, workload: Workload) -> Iterable[tuple[str, list[Workload]]]:
        """Who could move, by device (node): where the most is free, there the least has to move."""
        books, pool = self._books, self._books.account(workload).queue.pool
        by_device = workload.request.devices == 1
        places: dict[str, dict[str, Workload]] = {}
        for candidate in self._candidates():
            if candidate.id in books.evicted or pool not in books.pools_of(candidate):
                continue
            for task in candidate.placement:
                for device in task.devices:
                    name = device if by_device else task.node
                    places.setdefault(name, {})[candidate.id] = candidate
        free = {name: books.ledger.amount(name, View.FUTURE) for name in places} if by_device else self._free(pool)
        best = sorted(places, key=lambda name: (-free[name], name))[:MOST_PLACES]
        return [(name, list(places[name].values())) for name in best]

    def _free(self, pool: str) -> dict[str, int]:
        amount = self._books.ledger.amount
        return {
            node.name: sum(amount(device.id, View.FUTURE) for device in node.devices if device.pool == pool)
            for node in self._books.snapshot.nodes
        }

    def _needed(self, workload: Workload, there: Sequence[Workload]) -> list[Workload]:
        """Few of them, the first first, without whom one more task fits; empty when not even without all."""
        books, ledger = self._books, self._books.ledger
        pool, request = books.account(workload).queue.pool, workload.request
        mark, before = ledger.mark(), ledger.slots(pool, request, View.FUTURE)
        needed: list[Workload] = []
        enough = False
        for candidate in there:
            if self._probes <= 0 or len(needed) == MOST_MOVED:
                break
            self._probes -= 1
            ledger.release(candidate)
            needed.append(candidate)
            enough = ledger.slots(pool, request, View.FUTURE) > before
            if enough:
                break
        for candidate in reversed(needed[:-1] if enough else []):
            inner = ledger.mark()
            if ledger.take_again(candidate, promised=0):
                if ledger.slots(pool, request, View.FUTURE) > before:
                    needed.remove(candidate)
                else:
                    ledger.rollback(inner)
        ledger.rollback(mark)
        return needed if enough else []

    def _attempt(self, workload: Workload, chosen: Sequence[Workload]) -> bool:
        """Move these, or those of them that are needed; False changes nothing."""
        books, ledger = self._books, self._books.ledger
        if self._probes <= 0:
            return False
        self._probes -= 1 + 2 * len(chosen)
        mark = ledger.mark()
        for each in chosen:
            ledger.release(each)
        pool = books.account(workload).queue.pool
        enough = ledger.slots(pool, workload.request, View.FUTURE) >= workload.min_members
        if not enough or not books.try_promise(workload):
            ledger.rollback(mark)
            return False
        leaving = [each for each in reversed(chosen) if not ledger.take_again(each, promised=0)]
        places = self._new_places(leaving)
        if places is None:
            books.withdraw(workload)
            ledger.rollback(mark)
            return False
        for each in leaving:
            place = places[each.id]
            nodes = sorted({task.node for task in place})
            books.move(each, place, workload, explain.moved(each, workload, nodes))
        return True

    def _new_places(self, leaving: Sequence[Workload]) -> dict[str, tuple[TaskPlacement, ...]] | None:
        """Room for all tasks of all of them, the largest first; None when one finds none."""
        books = self._books
        places: dict[str, tuple[TaskPlacement, ...]] = {}
        largest_first = sorted(leaving, key=lambda w: (-w.request.milli, -gang.held(w), w.id))
        for each in largest_first:
            whole = replace(each, min_members=len(each.placement))
            place = gang.place(books.ledger, books.account(each).queue.pool, whole, View.FUTURE)
            if place is None or len(place) < len(each.placement):
                return None
            places[each.id] = place
        return places
