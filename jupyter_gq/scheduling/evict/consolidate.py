"""Consolidate: move running work together, so that a pending workload fits into room that was scattered.

Rules
-----
Only to start work: moves are made only for a workload that its queue may start (limits; the quota, if it is not
preemptible) and that then starts. So each set of moves brings one more workload to run, and moves end when they could
help no pending workload.

Deserved work first: nothing moves for other work before deserved work has got what it may evict. See `deserved`.

Not for what was just stopped: for work above the quota of its queue that went back to its queue within
`Policy.moved_after`, nothing moves. Else one eviction could lead to several moves. See
docs/decisions/0284-move-nothing-for-work-that-was-just-stopped.md.

What moves: preemptible training work that has run for longer than `Policy.moved_after` and is not protected from
preemption in its queue. All tasks of everything that moves have a new place, on devices that are free or that the moves
free. No work is stopped for good. A gang that has lost tasks does not move, since it would start with too few.

Elastic work: a surplus replica moves by itself, and only to devices that are free now, since it starts there while it
stops here. For the same reason it moves only in queues without a limit: meanwhile it counts twice. A smallest gang
moves only if its workload has no surplus replicas.

Reserved places: the places of the pending workload and of everything that moves are recorded, and kept until they run
there. In the same cycle, work that may take such a place from running work may take it from them as well (see
`victims`). Otherwise it would do so one cycle later, and the move would be in vain.

Few moves, cheapest first: first one device or node alone, by the number of moves, then by what the moves disrupt. Then
several together.

Bounded search: at most `MOST_MOVED` moves for one workload, `MOST_PLACES` places for one workload, and `MOST_PROBES`
trials in a cycle. If less is free in sum than the workload needs, nothing is tried.

See docs/decisions/0014-move-work-only-if-all-get-a-place.md and
docs/decisions/0301-let-work-with-a-right-take-the-new-place-of-a-mover.md.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Kind, Request, TaskPlacement, Workload
from jupyter_gq.scheduling.admit.job_order import job_order
from jupyter_gq.scheduling.admit.start import try_nominate, try_place
from jupyter_gq.scheduling.placement import View
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.quota.accounts import is_entitled
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions, ReplicaEviction
from jupyter_gq.scheduling.state.reservations import Reservations
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.disruption import by_disruption
from jupyter_gq.scheduling.workloads.replicas import Replica
from jupyter_gq.scheduling.workloads.request_class import WorkloadTest, any_workload

from . import notices

#: At most so many workloads and replicas move for one workload.
MOST_MOVED = 16
#: At most so many devices or nodes are considered for one workload, those with the most free room first.
MOST_PLACES = 64
#: At most so many releases and placements are tried in one cycle.
MOST_PROBES = 4000

Place = tuple[TaskPlacement, ...]


def consolidate(
    inputs: CycleInputs,
    allocations: Allocations,
    reservations: Reservations,
    evictions: Evictions,
    whom: WorkloadTest = any_workload,
) -> None:
    """Give pending workloads of which `whom` is true a place by moving other work, in the job order.

    Does nothing if the policy forbids moves.
    """
    if not inputs.policy.consolidate:
        return
    search = _Search(inputs, allocations, reservations, evictions)
    reserved = sum(map(gang.smallest, reservations.owners()))

    def promising(workload: Workload) -> bool:
        """Return False if the workload needs more than is free or being freed, even with all reserved devices."""
        pool = allocations.account(workload).queue.pool
        return allocations.ledger.total(pool, View.FUTURE) + reserved >= gang.smallest(workload)

    # `whom` depends on the queue, so it cannot be asked once for the classes of a whole pool.
    order = job_order(inputs.index, allocations, evictions, promising, by_pool=True)
    while (workload := order.next()) is not None:
        if _was_just_stopped(inputs, allocations, workload) or (whom(workload) and search.help(workload)):
            order.done()
        else:
            order.skip_class()


def may_move(inputs: CycleInputs, allocations: Allocations, workload: Workload) -> bool:
    """Tell whether preemptible training work may move: it has run for longer than `moved_after` and its min runtime.

    Always False for a workload with surplus replicas, for a gang that has lost tasks, and for a replica in a queue with
    a limit on its path.
    """
    if not workload.preemptible or workload.kind is not Kind.TRAINING or workload.started_at is None:
        return False
    if workload.stale_since is not None:
        return False
    account = allocations.account(workload)
    if isinstance(workload, Replica):
        queues = [each.queue for each in account.chain]
        if any((queue.limit, queue.cpu_limit, queue.memory_limit) != (None, None, None) for queue in queues):
            return False
    elif allocations.replicas.surplus_of(workload):
        return False
    least = max(inputs.policy.moved_after, inputs.index.min_runtimes.of(account, account))
    return inputs.now > workload.started_at + least


def _was_just_stopped(inputs: CycleInputs, allocations: Allocations, workload: Workload) -> bool:
    """Tell whether work that its queue is not guaranteed went back to the queue within `moved_after`."""
    if workload.requeued_at is None or inputs.now > workload.requeued_at + inputs.policy.moved_after:
        return False
    return not is_entitled(allocations.account(workload), gang.smallest(workload))


class _Search:
    """The search for moves on behalf of all pending workloads of one cycle."""

    def __init__(
        self, inputs: CycleInputs, allocations: Allocations, reservations: Reservations, evictions: Evictions
    ) -> None:
        self._inputs = inputs
        self._allocations = allocations
        self._reservations = reservations
        self._evictions = evictions
        self._probes = MOST_PROBES
        #: Shapes of workloads that could not be helped since the last success.
        self._hopeless: set[tuple[object, ...]] = set()
        self._helped = False
        #: Position in the order of disruption of everything that may move, by id.
        self._rank: dict[str, int] = {}
        #: What may move, by pool and whether places are devices, then by place and id.
        self._movable_at: dict[tuple[str, bool], dict[str, dict[str, Workload]]] = {}
        #: For each pool, request and set of lifted reservations, by place: sets of moves that make room for one task.
        self._known_moves: dict[tuple[str, Request, Hashable], dict[str, list[list[Workload]]]] = {}

    def help(self, workload: Workload) -> bool:
        """Give the workload a place by moving other work; tell whether it got one.

        After an earlier success the workload is first admitted or nominated without moves, if it fits. False changes no
        allocation.
        """
        allocations = self._allocations
        if not allocations.account(workload).known or allocations.first_exceeded_limit(workload, now=False):
            return False
        if self._helped and try_place(allocations, workload):
            return True
        like = (workload.request, workload.min_members, workload.groups, workload.topology)
        # What is lifted must be asked before anything is moved on trial.
        shape = (self._pool(workload), *like, self._reservations.lifted_for(workload))
        if shape in self._hopeless:
            return False
        with allocations.lifting_reservations(workload):
            return self._move_for(workload, shape)

    def _move_for(self, workload: Workload, shape: tuple[object, ...]) -> bool:
        """Nominate the workload, and decide as few moves of other work as possible; return False if none were found.

        A failure is remembered under `shape` until the next success; nothing else has changed then.
        """
        if self._allocations.ledger.total(self._pool(workload), View.FUTURE) < gang.smallest(workload):
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
        """Return `chosen` without the moves that turn out not to be needed; the last one is tried first."""
        kept = list(chosen)
        for each in reversed(chosen):
            without = [other for other in kept if other is not each]
            if without and self._try(workload, without) is not None:
                kept = without
        return kept

    def _carry_out(self, workload: Workload, chosen: Sequence[Workload]) -> None:
        """Nominate the workload and decide the moves of those of `chosen` that lose their devices by it."""
        places = self._try(workload, chosen, keep=True) or {}
        self._forget_moves(self._allocations.nominated[workload.id])
        for each in chosen:
            if each.id in places:
                self._move(each, places[each.id], workload)
                self._forget_moves([*each.placement, *places[each.id]])

    def _move(self, mover: Workload, place: Place, preemptor: Workload) -> None:
        """Decide that one mover stops for the preemptor and goes on at `place`.

        A replica stops while its successor starts at once; any other workload is migrated.
        """
        sentence = notices.describe_move(mover, preemptor, sorted({task.node for task in place}))
        self._reservations.recorded.add(preemptor.id)
        if isinstance(mover, Replica):
            self._evictions.evict_replica(
                ReplicaEviction(
                    replica=mover,
                    reason=EvictReason.CONSOLIDATED,
                    by=preemptor.id,
                    sentence=lambda _: sentence,
                )
            )
            self._allocations.admit_successor(mover, place)
        else:
            self._evictions.migrate(mover, place, preemptor.id, sentence)
            self._reservations.recorded.add(mover.id)

    def _choices(self, workload: Workload) -> Iterator[list[Workload]]:
        """Yield sets of work to move, cheapest first: for a single task, each set that clears one place.

        After that, the sets of several places are added together one by one, up to `MOST_MOVED` members, and each sum
        is yielded.
        """
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
        """Return places and the work that must leave each to make room for one task, cheapest first.

        A place is a device or, if a task needs several devices, a node.
        """
        key = (self._pool(workload), workload.request, self._reservations.lifted_for())
        known = self._known_moves.setdefault(key, {})
        found: list[tuple[int, int, str, list[Workload]]] = []
        for name, there in self._most_promising(workload):
            if name not in known:
                known[name] = self._moves_for_one_task(workload, there)
            for needed in known[name]:
                found.append((len(needed), max(self._rank[each.id] for each in needed), name, needed))
        return [(name, needed) for *_, name, needed in sorted(found, key=lambda entry: entry[:3])]

    def _most_promising(self, workload: Workload) -> list[tuple[str, list[Workload]]]:
        """Return the places with the most free room and, for each, the work that may move from it and is not stopping.

        At most `MOST_PLACES` places are returned. The call uses up one probe for every four places that it looks at.
        """
        pool, by_device = self._pool(workload), workload.request.devices == 1
        there = self._movable_by_place(pool, by_device)
        self._probes -= len(there) // 4
        amount, stopping = self._allocations.ledger.amount, self._evictions.stopping
        free = {name: amount(name, View.FUTURE) for name in there} if by_device else self._free_by_node(pool)
        best = sorted(there, key=lambda name: (-free[name], name))[:MOST_PLACES]
        return [(name, [each for each in there[name].values() if each.id not in stopping]) for name in best]

    def _movable_by_place(self, pool: str, by_device: bool) -> dict[str, dict[str, Workload]]:
        """Return the work that may move, by place and id.

        A place is a device of the pool if `by_device`, otherwise a node.
        """
        if (pool, by_device) not in self._movable_at:
            places: dict[str, dict[str, Workload]] = {}
            for candidate in self._movable(pool):
                for task in candidate.placement:
                    for device in task.devices:
                        places.setdefault(device if by_device else task.node, {})[candidate.id] = candidate
            self._movable_at[pool, by_device] = places
        return self._movable_at[pool, by_device]

    def _movable(self, pool: str) -> list[Workload]:
        """Return the preemptible workloads and replicas of the pool that may move, the least disruption first.

        Their positions in this order are kept in `_rank`.
        """
        inputs, allocations = self._inputs, self._allocations
        leaves = inputs.index.holders.by_leaf[True].get(pool, {})
        holders = (each for ranked in leaves.values() for each in ranked.members)
        found = list(by_disruption(each for each in holders if may_move(inputs, allocations, each)))
        self._rank |= {each.id: rank for rank, each in enumerate(found)}
        return found

    def _free_by_node(self, pool: str) -> dict[str, int]:
        amount = self._allocations.ledger.amount
        return {
            node.name: sum(amount(device.id, View.FUTURE) for device in node.devices if device.pool == pool)
            for node in self._inputs.index.config.nodes
        }

    def _forget_moves(self, changed: Iterable[TaskPlacement]) -> None:
        """Forget the known moves at nodes and devices that have changed."""
        names = {name for task in changed for name in (task.node, *task.devices)}
        for known in self._known_moves.values():
            for name in names & known.keys():
                del known[name]

    def _pool(self, workload: Workload) -> str:
        return self._allocations.account(workload).queue.pool

    def _moves_for_one_task(self, workload: Workload, there: Sequence[Workload]) -> list[list[Workload]]:
        """Return the sets of work of `there` whose moving makes room for one more task; the ledger is rolled back.

        Candidates that are enough alone come each as a set. Otherwise there is at most one set, without needless
        members. The result is empty if the first `MOST_MOVED` together are not enough, or if no probes are left.
        """
        ledger = self._allocations.ledger
        pool, request = self._pool(workload), workload.request
        mark, before = ledger.mark(), ledger.slots(pool, request, View.FUTURE)

        def is_enough() -> bool:
            self._probes -= 1
            return self._probes > 0 and ledger.slots(pool, request, View.FUTURE) > before

        alone: list[list[Workload]] = []
        for candidate in there:
            ledger.release(candidate)
            if is_enough():
                alone.append([candidate])
            ledger.rollback(mark)
        if alone:
            return alone
        needed: list[Workload] = []
        for candidate in there[:MOST_MOVED]:
            ledger.release(candidate)
            needed.append(candidate)
            if is_enough():
                break
        else:
            needed = []
        for candidate in list(reversed(needed[:-1])):
            inner = ledger.mark()
            if ledger.undo_release(candidate, nominated=False) and is_enough():
                needed.remove(candidate)
            else:
                ledger.rollback(inner)
        ledger.rollback(mark)
        return [needed] if needed else []

    def _try(self, workload: Workload, chosen: Sequence[Workload], *, keep: bool = False) -> dict[str, Place] | None:
        """Return the new places of those of `chosen` that must move so that the workload fits.

        None means that the workload does not fit that way, that a mover finds no place, or that no probes are left.
        `keep`: on success the workload stays nominated, and the ledger keeps the new places.
        """
        allocations, ledger = self._allocations, self._allocations.ledger
        if self._probes <= 0 and not keep:
            return None
        self._probes -= 1 + 2 * len(chosen)
        mark = ledger.mark()
        for each in chosen:
            ledger.release(each)
        enough = assemble.may_fit(ledger, self._pool(workload), workload, View.FUTURE)
        if not enough or not try_nominate(allocations, workload):
            ledger.rollback(mark)
            return None
        movers = [each for each in reversed(chosen) if not ledger.undo_release(each, nominated=False)]
        places = self._new_places(movers)
        if places is None or not keep:
            allocations.withdraw(workload)
            ledger.rollback(mark)
        return places

    def _new_places(self, movers: Sequence[Workload]) -> dict[str, Place] | None:
        """Place all tasks of each mover anew in the ledger, the largest mover first, and return the places by id.

        Returns None if a mover cannot place all its tasks. What was placed until then stays in the ledger, so the
        caller must roll back.
        """
        places: dict[str, Place] = {}
        for each in sorted(movers, key=lambda w: (-w.request.milli, -gang.held(w), w.id)):
            whole = gang.as_it_stands(each)
            view = View.NOW if isinstance(each, Replica) else View.FUTURE
            place = assemble.place(self._allocations.ledger, self._pool(each), whole, view)
            if place is None or len(place) < len(each.placement):
                return None
            places[each.id] = place
        return places
