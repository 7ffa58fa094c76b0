"""Pending workloads that back off: for a while after a backend refused a place, no cycle considers them."""

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload


class BackoffIndex:
    """The pending workloads with a back-off, over or not."""

    def __init__(self) -> None:
        #: Workloads that back off at the time that was set last, by id, and those added since then.
        self.active: dict[str, Workload] = {}
        self._all: dict[str, Workload] = {}

    def add(self, workload: Workload) -> bool:
        """Add the workload if it is pending with a back-off; tell whether it is."""
        has_backoff = workload.state is State.PENDING and workload.backoff is not None
        if has_backoff:
            self._all[workload.id] = self.active[workload.id] = workload
        return has_backoff

    def remove(self, workload: Workload) -> bool:
        """Remove the workload, if it is there; tell whether it was active."""
        self._all.pop(workload.id, None)
        return self.active.pop(workload.id, None) is not None

    def set_time(self, now: Instant) -> tuple[list[Workload], list[Workload]]:
        """Return the workloads whose back-off is over at `now` but was active, and those of which the reverse holds."""
        ended, begun = [], []
        for name, workload in self._all.items():
            active = workload.is_backing_off(now)
            if active and name not in self.active:
                self.active[name] = workload
                begun.append(workload)
            elif not active and name in self.active:
                del self.active[name]
                ended.append(workload)
        return ended, begun
