"""The pending workloads with their reasons. Reasons are written on access, since most cycles nobody reads them all."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from jupyter_gq.domain.reasons import Explanation
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.decision import Pending
from jupyter_gq.scheduling.workloads.request_class import ClassKey

#: Writes an explanation from what the cycle found out; it depends on nothing that changes afterwards.
Why = Callable[[], Explanation]


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueEntries:
    """The pending workloads of one leaf queue, as the cycle left them."""

    #: All workloads that were pending before the cycle, in their order.
    members: Sequence[Workload]
    #: Ids of those that the cycle admitted.
    admitted: Collection[str]
    class_of: Callable[[Workload], ClassKey]
    #: Reasons by class of requests.
    why: Mapping[ClassKey, Why]
    #: Reasons of workloads that do not share that of their class, by id.
    own: Mapping[str, Why]

    def entries(self) -> Iterator[Pending]:
        """Yield an entry for each workload that was not admitted, in their order, with positions from 1.

        Explanations are written here; workloads of one class share theirs.
        """
        written: dict[ClassKey, Explanation] = {}
        position = 0
        for workload in self.members:
            if workload.id in self.admitted:
                continue
            position += 1
            own = self.own.get(workload.id)
            if own is None:
                key = self.class_of(workload)
                if key not in written:
                    written[key] = self.why[key]()
            yield Pending(workload=workload.id, position=position, why=written[key] if own is None else own())


class PendingList(Sequence[Pending]):
    """A list with one entry for each pending workload, by queue and in its order, written at the first access."""

    def __init__(self, queues: Sequence[QueueEntries], count: int) -> None:
        """Keep the queues for later; `count` is the number of entries, so that the length needs no explanation."""
        self._queues = queues
        self._count = count
        self._written: tuple[Pending, ...] | None = None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Pending]:
        return iter(self._entries())

    @overload
    def __getitem__(self, index: int) -> Pending: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Pending]: ...
    def __getitem__(self, index: int | slice) -> Pending | Sequence[Pending]:
        return self._entries()[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self._entries())

    def __repr__(self) -> str:
        return repr(self._entries())

    def _entries(self) -> tuple[Pending, ...]:
        if self._written is None:
            self._written = tuple(entry for queue in self._queues for entry in queue.entries())
        return self._written
