"""Pending workloads that take no part in a cycle: held, backing off, or of a backend that cannot be observed."""

from collections.abc import Collection, Iterator

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload


class WithheldIndex:
    """The pending workloads that take no part in a cycle; no other index knows them."""

    def __init__(self, unobserved: Collection[Kind]) -> None:
        """Make an empty index.

        The index withholds pending workloads of the `unobserved` kinds, held ones, and those that back off.
        """
        #: Held workloads, by id, whether they back off or not.
        self.held: dict[str, Workload] = {}
        #: Workloads that back off at the time that was set last, by id, and those added since then.
        self.backing_off: dict[str, Workload] = {}
        #: Workloads of unobserved kinds that do not back off, by id.
        self.unobserved: dict[str, Workload] = {}
        self._kinds = frozenset(unobserved)
        #: Workloads with a back-off, over or not, that are not held.
        self._with_backoff: dict[str, Workload] = {}

    def __len__(self) -> int:
        return len(self.held) + len(self.backing_off) + len(self.unobserved)

    def taking_turns(self) -> Iterator[Workload]:
        """Yield the workloads that keep their place in line: all but the held ones."""
        yield from self.backing_off.values()
        yield from self.unobserved.values()

    def add(self, workload: Workload) -> bool:
        """Add the workload if it is pending and held, backs off or is of an unobserved kind; tell whether it was added.

        A workload with a back-off is withheld at first, even if the back-off is over, until the next `set_time`.
        """
        if workload.state is not State.PENDING:
            return False
        if workload.hold is not None:
            self.held[workload.id] = workload
            return True
        if workload.backoff is not None:
            self._with_backoff[workload.id] = self.backing_off[workload.id] = workload
            return True
        return self._add_unobserved(workload)

    def remove(self, workload: Workload) -> bool:
        """Remove the workload; tell whether it was withheld."""
        self._with_backoff.pop(workload.id, None)
        indexes = (self.held, self.backing_off, self.unobserved)
        return any([index.pop(workload.id, None) is not None for index in indexes])

    def set_time(self, now: Instant) -> tuple[list[Workload], list[Workload]]:
        """Set the time; return the workloads that are no longer withheld, and those that are withheld from now on."""
        ended, started = [], []
        for name, workload in self._with_backoff.items():
            backs_off = workload.is_backing_off(now)
            if backs_off and name not in self.backing_off:
                self.backing_off[name] = workload
                if self.unobserved.pop(name, None) is None:
                    started.append(workload)
            elif not backs_off and name in self.backing_off:
                del self.backing_off[name]
                if not self._add_unobserved(workload):
                    ended.append(workload)
        return ended, started

    def _add_unobserved(self, workload: Workload) -> bool:
        if workload.kind in self._kinds:
            self.unobserved[workload.id] = workload
            return True
        return False
