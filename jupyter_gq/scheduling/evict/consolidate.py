"""Consolidate: move running work together, so that one who waits fits into room that was scattered.

Rules
-----
1. Only for a workload that its queue may start (limits; the quota, where it is not preemptible) and that then starts:
   each move brings one more to run, so moves end when nobody waits whom they could help.
2. Who moves is preemptible training that has run for longer than `Policy.moved_after`, and than protects it from
   preemption in its queue. All tasks of all who move have a new place, on devices that are free, or that the moves
   free. Nobody is stopped for good. Of elastic work a task above its smallest gang moves by itself, and only to devices
   that are free now: it starts there while it stops here, in queues without a limit, for it is counted twice meanwhile.
   Its smallest gang moves only when there is nothing else of it.
3. The place of the one who waits and the places of those who move are written down (see `evicting`), and kept until
   they run there.
4. Few moves, cheapest first: first one device (node) alone, by the number of moves, then who loses least. Then
   several together.
5. The search is bounded: `MOST_MOVED` for one workload, `MOST_PLACES` looked at, `MOST_PROBES` in a cycle. What cannot
   be helped is found out before anything is tried: less is free in sum than it needs.
"""

from collections.abc import Iterable, Iterator, Sequence

from jupyter_gq.domain.workload import Kind, Request, TaskPlacement, Workload
from jupyter_gq.scheduling.admit.held_devices import lifted_for, passing
from jupyter_gq.scheduling.admit.start import try_promise, try_start
from jupyter_gq.scheduling.admit.turns import take_turns
from jupyter_gq.scheduling.placement import View
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.disruption import disruption
from jupyter_gq.scheduling.workloads.replicas import Replica

from . import notices
from .eviction import move, move_part

#: So many may move for one workload.
MOST_MOVED = 16
#: So many devices (nodes) are looked at for one workload, those with the most free room first.
MOST_PLACES = 64
#: So many releases and placements are tried in one cycle.
MOST_PROBES = 4000


def consolidate(books: Books) -> None:
    """Promise room to those who wait, in their turn, by moving others."""
    if not books.policy.consolidate:
        return
    search = _Search(books)
    held = sum(gang.smallest(hold.workload) for hold in books.holds.values())

    def enough(workload: Workload) -> bool:
        """A bound before the search: what is held counts, for it does not bind the one for whom it is held."""
        return books.ledger.total(books.account(workload).queue.pool, View.FUTURE) + held >= gang.smallest(workload)

    turn = take_turns(books, enough, by_pool=True)
    while (workload := turn.next()) is not None:
        if search.help(workload):
            turn.done()
        else:
            turn.pass_over()


def may_move(books: Books, workload: Workload) -> bool:
    """Rule 2, without the new place."""
    if not workload.preemptible or workload.kind is not Kind.TRAINING or workload.started_at is None:
        return False
    account = books.account(workload)
    if isinstance(workload, Replica):
        queues = [each.queue for each in account.chain]
        if any((queue.limit, queue.cpu_limit, queue.memory_limit) != (None, None, None) for queue in queues):
            return False
    elif books.units.before(workload):
        return False
    least = max(books.policy.moved_after, books.index.min_runtimes.of(account, account))
    return books.now > workload.started_at + least


class _Search:
    """The search for all who wait in one cycle."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._probes = MOST_PROBES
        #: What could not be helped since the last success.
        self._hopeless: set[tuple[object, ...]] = set()
        self._helped = False
        #: Who could move: its place in the order of disruption.
        self._rank: dict[str, int] = {}
        self._held: dict[tuple[str, bool], dict[str, dict[str, Workload]]] = {}
        #: By pool, request and what binds it, for each device (node): whose moves would give room for one task.
        self._known_ways: dict[tuple[str, Request, frozenset[str]], dict[str, list[list[Workload]]]] = {}

    def help(self, workload: Workload) -> bool:
        """Promise it room, by moving others if need be; False changes nothing."""
        books, account = self._books, self._books.account(workload)
        if not account.known or books.obstacle(workload, now=False):
            return False
        if self._helped and try_start(books, workload):
            return True
        like = (workload.request, workload.min_members, workload.groups, workload.topology)
        shape = (self._pool(workload), *like, lifted_for(books, workload))
        if shape in self._hopeless:  # asked before anything is moved on trial
            return False
        with passing(books, workload):
            return self._move_for(workload, shape)

    def _move_for(self, workload: Workload, shape: tuple[object, ...]) -> bool:
        books, pool = self._books, self._pool(workload)
        if books.ledger.total(pool, View.FUTURE) < gang.smallest(workload):
            self._hopeless.add(shape)
            return False
        for chosen in self._choices(workload):
            if self._try(workload, chosen) is not None:
                self._carry_out(workload, self._fewest(workload, chosen))
                self._helped = True
                self._hopeless.clear()
                return True
        self._hopeless.add(shape)
        return False

    def _fewest(self, workload: Workload, chosen: Sequence[Workload]) -> list[Workload]:
        """Those of `chosen` without whom it does not go, each tried in its turn."""
        kept = list(chosen)
        for each in reversed(chosen):
            without = [other for other in kept if other is not each]
            if without and self._try(workload, without) is not None:
                kept = without
        return kept

    def _carry_out(self, workload: Workload, chosen: Sequence[Workload]) -> None:
        places = self._try(workload, chosen, keep=True) or {}
        self._forget(self._books.promised[workload.id])
        for each in chosen:
            if each.id in places:
                nodes = sorted({task.node for task in places[each.id]})
                if isinstance(each, Replica):
                    move_part(self._books, each, places[each.id], workload, notices.moved(each, workload, nodes))
                else:
                    move(self._books, each, places[each.id], workload, notices.moved(each, workload, nodes))
                self._forget([*each.placement, *places[each.id]])

    def _choices(self, workload: Workload) -> Iterator[list[Workload]]:
        """Sets of workloads to move, in the order of rule 4."""
        places = self._places(workload)
        if workload.min_members == 1:
            yield from (needed for _, needed in places)
        together: dict[str, Workload] = {}
        cleared: set[str] = set()
        for name, needed in places:
            added = {each.id: each for each in needed if each.id not in together}
            if not added or name in cleared or len(together) + len(added) > MOST_MOVED:
                continue
            cleared.add(name)
            together |= added
            if len(cleared) > 1 or workload.min_members > 1:
                yield list(together.values())

    def _places(self, workload: Workload) -> list[tuple[str, list[Workload]]]:
        """Devices (nodes, if a task needs several) with those who would have to move for one task, cheapest first."""
        key = (self._pool(workload), workload.request, frozenset(self._books.lifted))
        known = self._known_ways.setdefault(key, {})
        found: list[tuple[int, int, str, list[Workload]]] = []
        for name, there in self._most_promising(workload):
            if name not in known:
                known[name] = self._ways(workload, there)
            for needed in known[name]:
                found.append((len(needed), max(self._rank[each.id] for each in needed), name, needed))
        return [(name, needed) for *_, name, needed in sorted(found, key=lambda entry: entry[:3])]

    def _most_promising(self, workload: Workload) -> list[tuple[str, list[Workload]]]:
        """Who could move, by device (node): where the most is free, there the least has to move."""
        books, pool = self._books, self._pool(workload)
        by_device = workload.request.devices == 1
        there = self._there(pool, by_device)
        self._probes -= len(there) // 4
        free = {name: books.ledger.amount(name, View.FUTURE) for name in there} if by_device else self._free(pool)
        best = sorted(there, key=lambda name: (-free[name], name))[:MOST_PLACES]
        return [(name, [each for each in there[name].values() if each.id not in books.evicted]) for name in best]

    def _there(self, pool: str, by_device: bool) -> dict[str, dict[str, Workload]]:
        """Those of the pool who could move, in their order, by device (node)."""
        if (pool, by_device) not in self._held:
            places: dict[str, dict[str, Workload]] = {}
            for candidate in self._movable(pool):
                for task in candidate.placement:
                    for device in task.devices:
                        places.setdefault(device if by_device else task.node, {})[candidate.id] = candidate
            self._held[pool, by_device] = places
        return self._held[pool, by_device]

    def _movable(self, pool: str) -> list[Workload]:
        books = self._books
        leaves = books.index.holders.by_leaf[True].get(pool, {})
        holders = (each for ranked in leaves.values() for each in ranked.members)
        found = sorted((each for each in holders if may_move(books, each)), key=disruption)
        self._rank |= {each.id: rank for rank, each in enumerate(found)}
        return found

    def _free(self, pool: str) -> dict[str, int]:
        amount = self._books.ledger.amount
        return {
            node.name: sum(amount(device.id, View.FUTURE) for device in node.devices if device.pool == pool)
            for node in self._books.index.config.nodes
        }

    def _forget(self, changed: Iterable[TaskPlacement]) -> None:
        """What was found out about these nodes and devices is no longer so."""
        names = {name for task in changed for name in (task.node, *task.devices)}
        for known in self._known_ways.values():
            for name in names & known.keys():
                del known[name]

    def _pool(self, workload: Workload) -> str:
        return self._books.account(workload).queue.pool

    def _ways(self, workload: Workload, there: Sequence[Workload]) -> list[list[Workload]]:
        """Those of whom one alone is enough for one task more; if there are none, the first few who are together."""
        ledger = self._books.ledger
        pool, request = self._pool(workload), workload.request
        mark, before = ledger.mark(), ledger.slots(pool, request, View.FUTURE)

        def enough() -> bool:
            self._probes -= 1
            return self._probes > 0 and ledger.slots(pool, request, View.FUTURE) > before

        alone: list[list[Workload]] = []
        for candidate in there:
            ledger.release(candidate)
            if enough():
                alone.append([candidate])
            ledger.rollback(mark)
        if alone:
            return alone
        needed: list[Workload] = []
        for candidate in there[:MOST_MOVED]:
            ledger.release(candidate)
            needed.append(candidate)
            if enough():
                break
        else:
            needed = []
        for candidate in list(reversed(needed[:-1])):
            inner = ledger.mark()
            if ledger.take_again(candidate, promised=False) and enough():
                needed.remove(candidate)
            else:
                ledger.rollback(inner)
        ledger.rollback(mark)
        return [needed] if needed else []

    def _try(
        self, workload: Workload, chosen: Sequence[Workload], *, keep: bool = False
    ) -> dict[str, tuple[TaskPlacement, ...]] | None:
        """The new places of those of `chosen` who have to move; None when it does not go.

        `keep`: on success the workload is promised its room, and the ledger keeps the new places.
        """
        books, ledger = self._books, self._books.ledger
        if self._probes <= 0 and not keep:
            return None
        self._probes -= 1 + 2 * len(chosen)
        mark = ledger.mark()
        for each in chosen:
            ledger.release(each)
        enough = assemble.may_fit(ledger, self._pool(workload), workload, View.FUTURE)
        if not enough or not try_promise(books, workload):
            ledger.rollback(mark)
            return None
        leaving = [each for each in reversed(chosen) if not ledger.take_again(each, promised=False)]
        places = self._new_places(leaving)
        if places is None or not keep:
            books.withdraw(workload)
            ledger.rollback(mark)
        return places

    def _new_places(self, leaving: Sequence[Workload]) -> dict[str, tuple[TaskPlacement, ...]] | None:
        """Room for all tasks of all of them, the largest first; None when one finds none."""
        books = self._books
        places: dict[str, tuple[TaskPlacement, ...]] = {}
        largest_first = sorted(leaving, key=lambda w: (-w.request.milli, -gang.held(w), w.id))
        for each in largest_first:
            whole = gang.as_it_stands(each)
            view = View.NOW if isinstance(each, Replica) else View.FUTURE
            place = assemble.place(books.ledger, self._pool(each), whole, view)
            if place is None or len(place) < len(each.placement):
                return None
            places[each.id] = place
        return places
