"""Find the work that blocks a pending workload. Only explanations use it, and nothing is changed by it.

Rules
-----
Whom to ask: an idle notebook that could not be suspended comes first, since it would have given its share. Then comes
work whose owner the waiting user could best ask: over quota, then preemptible, then work that loses least. What this
cycle placed is included, as is work that moves, at its new place. An idle notebook that has been warned is not, since
workloads behind the one that it is for wait for that one.

Small searches first: a few holders are tried in that order. If they are not enough, all work on whole nodes is,
beginning with the nodes of those few; then everything.

Reservations: owners of reservations block as well, if the workload may not pass and would not fit beside what is
reserved for them (see `admit.reservations`). Suspended notebooks are asked last, for their devices and for the CPU and
memory that they keep.

Shared answers: workloads with like requests that may pass the same reservations have the same blockers, whatever their
queue. Bound ones, which are not preemptible or have a limit above them, do so only if they exceed no limit.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from itertools import chain, islice

from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.admit.reservations import owners_on_devices, owners_on_nodes
from jupyter_gq.scheduling.evict.victim_search import make_room
from jupyter_gq.scheduling.evict.victims import is_present
from jupyter_gq.scheduling.placement import View
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.state.findings import Findings
from jupyter_gq.scheduling.state.reservations import Reservations
from jupyter_gq.scheduling.workloads.borrowers import may_borrow
from jupyter_gq.scheduling.workloads.disruption import by_disruption, loss
from jupyter_gq.scheduling.workloads.request_class import ClassKey

Place = tuple[TaskPlacement, ...]

#: So many holders are tried one by one before whole nodes are.
FEW = 64
#: So many nodes more than the workload has tasks are searched.
MORE_NODES = 8


class BlockerSearch:
    """The searches for blockers in one cycle. Use it only after everything has been decided."""

    def __init__(
        self,
        index: ClusterIndex,
        allocations: Allocations,
        reservations: Reservations,
        evictions: Evictions,
        findings: Findings,
    ) -> None:
        self._index = index
        self._allocations = allocations
        self._reservations = reservations
        self._evictions = evictions
        self._findings = findings
        #: Workloads that stop in order to go on elsewhere, at their new places.
        self._moving = {name: replace(index.workloads[name], placement=to) for name, to in evictions.migrations.items()}
        self._holders: dict[str, _CachedIterable] = {}
        #: Answers by pool and class, whether the workloads are bound, and the pending owners that they may not pass.
        self._found: dict[tuple[str, ClassKey, bool, frozenset[str]], list[Workload]] = {}

    def find(self, workload: Workload, key: ClassKey) -> list[Workload]:
        """Return a small set of workloads and replicas whose end would let the workload start; empty if there is none.

        Work that this cycle placed and owners of reservations may be among them. `key` is the class of the workload.
        """
        account, binding = self._allocations.account(workload), self._binding(workload)
        is_bound = not workload.preemptible or any(each.queue.limit is not None for each in account.chain)
        if is_bound and self._allocations.first_exceeded_limit(workload, now=False) is not None:
            return self._find_for_bound(workload, binding)
        like = (account.queue.pool, key, is_bound, binding)
        found = self._found.get(like)
        if found is None:
            found = self._find_for_bound(workload, binding) if is_bound else self._search(workload, binding)
            self._found[like] = found
        return found

    def _binding(self, workload: Workload) -> frozenset[str]:
        """Return the ids of the pending owners whose reservations the workload may not pass."""
        may_pass, by_owner = self._reservations.may_pass, self._reservations.by_owner
        return frozenset(name for name, each in by_owner.items() if not may_pass(workload, each))

    def _find_for_bound(self, workload: Workload, binding: frozenset[str]) -> list[Workload]:
        """Search beside all reservations at first, and then without them.

        Owners of reservations are named rather than suspended notebooks.
        """
        may_fit = self._allocations.any_reservations and self._index.holders.lenders.leave_room_for(
            self._allocations.account(workload).queue.pool, workload
        )
        beside = self._search(workload) if may_fit else []
        if beside and not _any_suspended(beside):
            return beside
        found = self._search(workload, binding)
        return beside if beside and _any_suspended(found) else found

    def _search(self, workload: Workload, binding: frozenset[str] | None = None) -> list[Workload]:
        """Return the least disruptive work whose end would let the workload start; an empty list if none would.

        If `binding` is None, all reservations stay that bind the workload. Otherwise all are lifted, and the owners of
        those that are in the way are returned as well. The allocations change on trial only.
        """
        allocations = self._allocations
        holders = self._holders_in(allocations.account(workload).queue.pool)
        with allocations.lifting_reservations(workload if binding is None else None):
            mark = allocations.ledger.mark()
            for candidates in self._candidates(workload, holders):
                found = make_room(allocations, workload, lambda tried=candidates: tried)  # type: ignore[misc]
                if found is not None:
                    place = allocations.nominated[workload.id]
                    allocations.undo_search(workload, found, mark)
                    break
            else:
                return []
        return found if binding is None else [*found, *self._in_the_way(workload, place, binding, found)]

    def owners_in_the_way(self, workload: Workload, place: Place) -> list[Workload]:
        """Return the owners of a minimal set of reservations without which the workload would have a place.

        `place` is where it would have one if nothing were reserved.
        """
        return self._in_the_way(workload, place, self._binding(workload), ())

    def fits_without(self, workload: Workload, ended: Iterable[Workload]) -> bool:
        """Tell whether the workload would have a place once some work has `ended` and all that is stopping has stopped.

        Reservations that are not lifted bind it.
        """
        ledger = self._allocations.ledger
        mark = ledger.mark()
        for each in ended:
            ledger.release(each)
        place = assemble.place(ledger, self._allocations.account(workload).queue.pool, workload, View.FUTURE)
        ledger.rollback(mark)
        return place is not None

    def _in_the_way(
        self, workload: Workload, place: Place, binding: frozenset[str], ended: Sequence[Workload]
    ) -> list[Workload]:
        """Return the owners of a minimal set of reservations without which the workload fits when others have `ended`.

        The workload would then fit at `place` if nothing were reserved. Reservations there are lifted, and each is put
        back if the workload still fits anywhere: those of suspended notebooks first, so they are named last.
        """
        ledger, found = self._allocations.ledger, list[Workload]()
        owners, gone = self._owners_at(workload, place, binding), {each.id for each in ended}
        with self._allocations.lifting_reservations(workload):
            mark = ledger.mark()
            for owner, reserved in owners:
                ledger.unreserve_devices(owner, reserved)
            for owner, reserved in (each for each in owners if each[0].id not in gone):
                before = ledger.mark()
                ledger.reserve_devices(owner, reserved)
                if not self.fits_without(workload, ended):
                    ledger.rollback(before)
                    found.append(owner)
            ledger.rollback(mark)
        return found

    def _owners_at(self, workload: Workload, place: Place, binding: frozenset[str]) -> list[tuple[Workload, Place]]:
        """Return the owners of reservations at `place` that bind the workload, and what is reserved for each.

        Suspended notebooks come first.
        """
        reservations, lenders = self._reservations, self._index.holders.lenders
        owners = owners_on_devices(lenders, reservations, workload, place)
        lending = () if may_borrow(workload) else [each for each in owners if each.id in reservations.lent]
        waiting = [each for each in owners_on_nodes(reservations, place) if each.id in binding]
        reserved = [(each, each.placement) for each in lending]
        return reserved + [(each, reservations.by_owner[each.id].place) for each in waiting]

    def _candidates(self, workload: Workload, holders: "_CachedIterable") -> Iterator[Iterable[Workload]]:
        """Yield the candidates of one search after another: a few holders, then work on whole nodes, then all holders.

        If there are at most `FEW` holders, yield only the first collection, which then has all of them.
        """
        few = list(islice(holders, FEW + 1))
        yield few
        if len(few) > FEW:
            yield self._on_whole_nodes(workload, holders)
            yield holders

    def _on_whole_nodes(self, workload: Workload, holders: Iterable[Workload]) -> list[Workload]:
        """Return all work on the nodes of the first holders, node by node, the work that loses least first."""
        nodes = dict[str, None]()
        for holder in holders:
            nodes.update((task.node, None) for task in holder.placement)
            if len(nodes) >= workload.min_members + MORE_NODES:
                break
        on_node, placed = self._index.holders.on_node, self._placed()
        there = {w.id: w for node in nodes for w in on_node.get(node, {}).values()}
        there.update((w.id, w) for w in placed if any(task.node in nodes for task in w.placement))
        rank = {node: number for number, node in enumerate(nodes)}
        found = by_disruption(w for w in there.values() if self._is_present(w))
        in_order = sorted(found, key=lambda w: min(rank[task.node] for task in w.placement if task.node in rank))
        return list(map(_as_if_it_ended, in_order))

    def _holders_in(self, pool: str) -> "_CachedIterable":
        if pool not in self._holders:
            self._holders[pool] = _CachedIterable(self._in_order(pool))
        return self._holders[pool]

    def _in_order(self, pool: str) -> Iterator[Workload]:
        """Return all work with devices of the pool in the order in which to ask for it, without awaited idle notebooks.

        The accounts are read at once, since searches change them on trial.
        """
        index, allocations = self._index, self._allocations
        placed = [w for w in self._placed() if pool in index.pools_of(w)]
        lists: dict[tuple[bool, bool], list[list[Workload]]] = {}
        for preemptible, pools in index.holders.by_leaf.items():
            for queue, leaf in pools.get(pool, {}).items():
                rank = (allocations.accounts.of(queue).over_quota == 0, not preemptible)
                lists.setdefault(rank, []).append(leaf.members)
        for workload in placed:
            rank = (allocations.account(workload).over_quota == 0, not workload.preemptible)
            lists.setdefault(rank, []).append([workload])
        awaited = {each.id for notebooks in self._findings.awaited_notebooks.values() for each in notebooks}
        suspended = index.holders.lenders.by_id.values() if allocations.ledger.layout.counts_host_resources else ()
        lenders = sorted((w for w in suspended if pool in index.pools_of(w)), key=loss)
        refused = self._findings.refused_notebooks
        first = [notebook for notebook in by_disruption(refused.values()) if pool in index.pools_of(notebook)]
        in_order = (holder for rank in sorted(lists) for holder in merge(*lists[rank], key=loss))
        ranked = (holder for holder in in_order if holder.id not in refused)
        return (
            _as_if_it_ended(holder)
            for holder in chain(first, ranked, lenders)
            if holder.id not in awaited and self._is_present(holder)
        )

    def _placed(self) -> list[Workload]:
        """Return the workloads and replicas that this cycle placed, and those that move, at their new places."""
        return [*self._allocations.placed(), *self._moving.values()]

    def _is_present(self, listed: Workload) -> bool:
        """Tell whether a listed workload or replica has, or is to get, the devices that it is listed with."""
        moves = self._moving.get(listed.id) is listed
        return moves or is_present(self._allocations, self._evictions, listed)


def _any_suspended(blockers: Iterable[Workload]) -> bool:
    return any(each.state is State.SUSPENDED for each in blockers)


def _as_if_it_ended(holder: Workload) -> Workload:
    """Return the holder so that its release frees its CPU and memory too, which a suspended notebook keeps."""
    return replace(holder, suspendable=False) if holder.suspendable else holder


class _CachedIterable:
    """An iterable that reads its source only once, however often it is iterated over."""

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
