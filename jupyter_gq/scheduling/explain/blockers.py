"""Who is in the way of somebody who waits: for the explanation only, nothing is changed.

Rules
-----
1. Those are asked first whom the one who waits could best ask: over quota, then what can be paused, then what loses
   least. What this cycle placed is among them; an idle notebook that is being warned is not, for who comes after the
   one it is for, waits for that one.
2. Few of them are tried in that order; if that is not enough, whole nodes, beginning with theirs; then all.
3. Those for whom devices of the place are held are in the way as well (see `reservations`).
4. Like requests without a limit above them have the same in their way, whatever their queue.
"""

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.admit.held_devices import passing
from jupyter_gq.scheduling.admit.reservations import holders_of
from jupyter_gq.scheduling.evict.victim_search import make_room
from jupyter_gq.scheduling.evict.victims import is_there, placed_in_this_cycle
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads.disruption import disruption
from jupyter_gq.scheduling.workloads.request_class import ClassKey

#: So many holders are tried one by one before whole nodes are.
FEW = 64
#: So many nodes more than the workload has tasks.
MORE_NODES = 8


class InTheWay:
    """The searches of one cycle; ask only when everything has been decided."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._holders: dict[str, _Asked] = {}
        self._found: dict[tuple[str, ClassKey], list[Workload]] = {}

    def of(self, workload: Workload, like: ClassKey) -> list[Workload]:
        """A small set of those who hold, or were promised, what it would need; empty when nobody's going helps.

        `like` is its class.
        """
        account = self._books.account(workload)
        if not workload.preemptible or any(each.queue.limit is not None for each in account.chain):
            return self._search(workload)
        key = (account.queue.pool, like)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._search(workload)
        return found

    def _search(self, workload: Workload) -> list[Workload]:
        books, holders = self._books, self._holders_in(self._books.account(workload).queue.pool)
        with passing(books, None):
            mark = books.ledger.mark()
            for candidates in self._candidates(workload, holders):
                found = make_room(books, workload, lambda tried=candidates: tried)  # type: ignore[misc]
                if found is not None:
                    place = books.promised[workload.id]
                    books.undo_room(workload, found, mark)
                    return [*found, *holders_of(books, workload, place)]
        return []

    def _candidates(self, workload: Workload, holders: "_Asked") -> Iterator[Iterable[Workload]]:
        few = list(islice(holders, FEW + 1))
        yield few
        if len(few) > FEW:
            yield self._on_whole_nodes(workload, holders)
            yield holders

    def _on_whole_nodes(self, workload: Workload, holders: Iterable[Workload]) -> list[Workload]:
        """All who hold something on the nodes of those who come first; the last ones of a node follow its first."""
        books, nodes = self._books, dict[str, None]()
        for holder in holders:
            nodes.update((task.node, None) for task in holder.placement)
            if len(nodes) >= workload.min_members + MORE_NODES:
                break
        there = {w.id: w for node in nodes for w in books.index.holders.on_node.get(node, {}).values()}
        there.update((w.id, w) for w in placed_in_this_cycle(books) if any(t.node in nodes for t in w.placement))
        rank = {node: number for number, node in enumerate(nodes)}
        found = [w for w in there.values() if is_there(books, w)]
        found.sort(key=lambda w: (min(rank[t.node] for t in w.placement if t.node in rank), disruption(w)))
        return found

    def _holders_in(self, pool: str) -> "_Asked":
        if pool not in self._holders:
            self._holders[pool] = _Asked(self._in_order(pool))
        return self._holders[pool]

    def _in_order(self, pool: str) -> Iterator[Workload]:
        """Rule 1. What accounts say is read at once: searches change it for a moment."""
        books = self._books
        placed = [w for w in placed_in_this_cycle(books) if pool in books.pools_of(w)]
        lists: dict[tuple[bool, bool], list[list[Workload]]] = {}
        for preemptible, pools in books.index.holders.by_leaf.items():
            for queue, leaf in pools.get(pool, {}).items():
                rank = (books.accounts.of(queue).over_quota == 0, not preemptible)
                lists.setdefault(rank, []).append(leaf.members)
        for workload in sorted(placed, key=disruption):
            rank = (books.account(workload).over_quota == 0, not workload.preemptible)
            lists.setdefault(rank, []).append([workload])
        awaited = {notebook.id for notebooks in books.awaited.values() for notebook in notebooks}
        return (
            holder
            for rank in sorted(lists)
            for holder in merge(*lists[rank], key=disruption)
            if holder.id not in awaited and is_there(books, holder)
        )


class _Asked:
    """An iterable that goes through its source once, however often it is asked."""

    def __init__(self, source: Iterator[Workload]) -> None:
        self._source = source
        self._seen: list[Workload] = []

    def __iter__(self) -> Iterator[Workload]:
        yield from self._seen
        count = len(self._seen)
        while True:
            if count == len(self._seen):
                following = next(self._source, None)
                if following is None:
                    return
                self._seen.append(following)
            yield self._seen[count]
            count += 1
