"""Pending workloads, indexed by id, leaf queue and waiting time."""

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.order.pending_queue import Line
from jupyter_gq.scheduling.order.sorted_workloads import Ranked
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.request_class import ClassKey
from jupyter_gq.scheduling.workloads.seniority import Seniority, seniority


def wait_order(workload: Workload) -> tuple[float, str]:
    """Return a sort key that puts the workload with the longest wait first."""
    return (workload.waits_since, workload.id)


class PendingIndex:
    """The workloads that wait in queues.

    `lines` also holds the replicas that running elastic workloads could still get: they take their turn there.
    """

    def __init__(self, *, by_wait: bool) -> None:
        """Index workloads by waiting time as well if `by_wait` is true; only reservations need that."""
        #: Pending workloads by id.
        self.by_id: dict[str, Workload] = {}
        #: Lines of pending workloads and wanted replicas, by leaf queue; a queue without any has none.
        self.lines: dict[str, Line] = {}
        #: Pending workloads of each leaf queue, by seniority; a queue without any has none.
        self.by_seniority: dict[str, Ranked[Seniority]] = {}
        #: Pending workloads that need devices, by pool, the longest wait first.
        self.by_wait: dict[str, Ranked[tuple[float, str]]] = {}
        self._keeps_waits = by_wait
        self._classes: dict[ClassKey, ClassKey] = {}

    def add(self, workload: Workload, pool: str) -> None:
        """Add a pending workload whose queue uses the devices of `pool`."""
        self.by_id[workload.id] = workload
        self.enqueue(workload)
        if workload.queue not in self.by_seniority:
            self.by_seniority[workload.queue] = Ranked(seniority)
        self.by_seniority[workload.queue].add(workload)
        if self._keeps_waits and gang.needs_devices(workload):
            self.by_wait.setdefault(pool, Ranked(wait_order)).add(workload)

    def remove(self, workload: Workload, pool: str) -> None:
        """Undo `add`; both arguments must be those of the call."""
        del self.by_id[workload.id]
        self.dequeue(workload)
        self.by_seniority[workload.queue].remove(workload)
        if not self.by_seniority[workload.queue]:
            del self.by_seniority[workload.queue]
        if self._keeps_waits and gang.needs_devices(workload):
            self.by_wait[pool].remove(workload)

    def enqueue(self, workload: Workload) -> None:
        """Add a workload or a wanted replica to the line of its queue."""
        if workload.queue not in self.lines:
            self.lines[workload.queue] = Line(self._classes)
        self.lines[workload.queue].add(workload)

    def dequeue(self, workload: Workload) -> None:
        """Undo `enqueue`; `workload` must be unchanged since then."""
        line = self.lines[workload.queue]
        line.remove(workload)
        if not line.classes:
            del self.lines[workload.queue]
