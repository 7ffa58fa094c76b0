"""What can go or come by itself in one cycle: workloads, and parts of elastic ones (see `parts`).

Rules
-----
1. The facts say which parts there are when the cycle begins; here is what the cycle changes about them. Nothing of the
   facts is changed but the lines of those who wait, and that is taken back (`forget`).
2. Parts go before the rest of their workload, and nobody keeps a part of what goes.
3. A part that was not given yet is wanted only as long as its workload has its place.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.decision import Shrink
from jupyter_gq.scheduling.order.pending_queue import Line
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.replicas import Replica, wanted_replicas, without

from .pending_index import PendingIndex
from .replica_index import ReplicaIndex

Parts = dict[str, Replica]


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenUp:
    """A part that was told to go while the rest goes on."""

    part: Replica
    reason: EvictReason
    by: str | None
    #: Makes the sentence for its owner, from the part with what is left of its workload.
    sentence: Callable[[Replica], str]


class Units:
    """The parts of one cycle."""

    def __init__(self, index: ReplicaIndex, pending: PendingIndex) -> None:
        self._index = index
        self._pending = pending
        #: Where this cycle changed something: what there is now of each workload, and what it could still have.
        self._parts: dict[str, Parts] = {}
        self._wanted: dict[str, Parts] = {}
        self._promised: Parts = {}
        self.given_up: dict[str, GivenUp] = {}
        #: What is left of those who gave something up.
        self._left: dict[str, Workload] = {}
        #: Wanted by what this cycle admitted: not yet in the lines, and in them.
        self._fresh: list[Replica] = []
        self._lined_up: list[Replica] = []

    # --- questions

    def now(self, workload: Workload) -> Workload:
        """What is left of it."""
        return self._left.get(workload.id, workload)

    def of(self, workload: Workload) -> list[Workload]:
        """Its smallest gang and its parts; the last one goes first."""
        core = self._index.cores.get(workload.id, workload)
        return [core, *self._there(workload.id).values()]

    def before(self, unit: Workload) -> list[Replica]:
        """The parts that have to go before this unit can go, the first one first."""
        return [] if isinstance(unit, Replica) else list(reversed(self._there(unit.id).values()))

    def promised(self, name: str) -> Replica | None:
        """The part of that id that was promised a place, or was once."""
        return self._promised.get(name)

    def is_wanted(self, part: Replica) -> bool:
        """Its workload could still have it, and still has its place."""
        return part.id in self._wished(part.whole.id)

    def wanted_by(self, name: str, freed: int) -> Iterator[Replica]:
        """What that workload could still have, for which so many milli-GPU are being freed."""
        for part in list(self._wished(name).values()):
            if freed <= 0:
                return
            freed -= gang.smallest(part)
            yield part

    def wanted_at_start(self, name: str) -> list[Replica]:
        """What a workload that this cycle admitted could still have, if it cannot change once it runs."""
        return [part for part in self._wished(name).values() if not part.elastic]

    def in_use(self) -> bool:
        """Somebody could still have more."""
        return bool(self._index.wanted or self._wanted)

    # --- changes

    def want(self, workload: Workload) -> None:
        """Note what it could have above these tasks; elastic work may take its turn for that."""
        parts = wanted_replicas(workload)
        if parts:
            self._wanted[workload.id] = {part.id: part for part in parts}
            self._fresh += [part for part in parts if part.elastic]

    def join(self, part: Replica, placement: tuple[TaskPlacement, ...], *, promised: bool) -> None:
        """It is, or will be, one of the parts of its workload."""
        name = part.whole.id
        del self._own(self._wanted, self._index.wanted, name)[part.id]
        self._own(self._parts, self._index.surplus, name)[part.id] = replace(part, placement=placement)
        if promised:
            self._promised[part.id] = part
        elif part.vital:
            whole = self.now(part.whole)
            self.want(replace(whole, placement=(*whole.placement, *placement)))

    def part(self, part: Replica) -> None:
        """Undo `join`: its workload could have it once more."""
        name = part.whole.id
        del self._own(self._parts, self._index.surplus, name)[part.id]
        self._own(self._wanted, self._index.wanted, name)[part.id] = replace(part, placement=())

    def drop(self, workload: Workload) -> None:
        """It goes, and wants nothing more."""
        self._parts[workload.id] = {}
        self._wanted[workload.id] = {}

    def give_up(self, given_up: GivenUp) -> None:
        """It goes while the rest goes on."""
        part, whole = given_up.part, given_up.part.whole
        self._left[whole.id] = without(self.now(whole), part.placement)
        del self._own(self._parts, self._index.surplus, whole.id)[part.id]
        self.given_up[part.id] = given_up

    def moved(self, part: Replica, place: tuple[TaskPlacement, ...]) -> Replica:
        """The part that goes on there instead of one that was given up here."""
        there = replace(part, id=f"{part.id}+", state=State.PENDING, placement=place)
        self._own(self._parts, self._index.surplus, part.whole.id)[there.id] = there
        return there

    def keep(self, part: Replica) -> None:
        """Undo `give_up`."""
        whole = self.now(part.whole)
        self._left[whole.id] = replace(whole, placement=(*whole.placement, *part.placement))
        self._own(self._parts, self._index.surplus, whole.id)[part.id] = part
        del self.given_up[part.id]

    def shrinks(self) -> list[Shrink]:
        """What a workload gives up for one cause, together; the sentence says what is left at last."""
        found: dict[tuple[str, EvictReason, str | None], Shrink] = {}
        for each in self.given_up.values():
            left = self.now(each.part.whole)
            key = (left.id, each.reason, each.by)
            before = found[key].placement if key in found else ()
            found[key] = Shrink(
                workload=left.id,
                placement=(*before, *each.part.placement),
                reason=each.reason,
                by=each.by,
                sentence=each.sentence(replace(each.part, whole=left)),
            )
        return list(found.values())

    # --- those who take their turn

    def fresh_lines(self) -> dict[str, Line]:
        """Those wanted that came up since this was asked last, as lines of their own; from now on they are in all."""
        found: dict[str, Line] = {}
        for part in self._fresh:
            if self.is_wanted(part):
                found.setdefault(part.queue, Line()).add(part)
                self._pending.enqueue(part)
                self._lined_up.append(part)
        self._fresh = []
        return found

    def forget(self) -> None:
        """The lines are again as they were before the cycle."""
        for part in self._lined_up:
            self._pending.dequeue(part)
        self._lined_up = []

    # --- inside

    def _there(self, name: str) -> Parts:
        return self._parts[name] if name in self._parts else self._index.surplus.get(name, {})

    def _wished(self, name: str) -> Parts:
        return self._wanted[name] if name in self._wanted else self._index.wanted.get(name, {})

    @staticmethod
    def _own(changed: dict[str, Parts], facts: dict[str, Parts], name: str) -> Parts:
        """The parts of that workload, to be changed in this cycle only."""
        if name not in changed:
            changed[name] = dict(facts.get(name, {}))
        return changed[name]
