"""Pending workloads, indexed by id, leaf queue and waiting time."""

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.order.pending_queue import PendingQueue
from jupyter_gq.scheduling.order.sorted_workloads import SortedWorkloads
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.request_class import ClassKey
from jupyter_gq.scheduling.workloads.seniority import Seniority, seniority


def wait_order(workload: Workload) -> tuple[float, str]:
    """Return a sort key that puts the workload with the longest wait first."""
    return (workload.waits_since, workload.id)


class PendingIndex:
    """The workloads that wait in queues.

    `by_queue` also holds the replicas that running elastic workloads could still get.
    """

    def __init__(self, *, by_wait: bool) -> None:
        """Make an empty index.

        `by_wait` is filled only if the argument of that name is true (only reservations need it).
        """
        #: Pending workloads by id.
        self.by_id: dict[str, Workload] = {}
        #: Pending workloads and wanted replicas of each leaf queue; a queue without any is absent.
        self.by_queue: dict[str, PendingQueue] = {}
        #: Pending workloads of each leaf queue, by seniority; a queue without any is absent.
        self.by_seniority: dict[str, SortedWorkloads[Seniority]] = {}
        #: Pending workloads that need devices, by pool, the longest wait first.
        self.by_wait: dict[str, SortedWorkloads[tuple[float, str]]] = {}
        self._keeps_waits = by_wait
        self._classes: dict[ClassKey, ClassKey] = {}

    def add(self, workload: Workload, pool: str) -> None:
        """Add a pending workload whose queue uses the devices of `pool`."""
        self.by_id[workload.id] = workload
        self.enqueue(workload)
        if workload.queue not in self.by_seniority:
            self.by_seniority[workload.queue] = SortedWorkloads(seniority)
        self.by_seniority[workload.queue].add(workload)
        if self._keeps_waits and gang.needs_devices(workload):
            self.by_wait.setdefault(pool, SortedWorkloads(wait_order)).add(workload)

    def remove(self, workload: Workload, pool: str) -> None:
        """Remove a pending workload; both arguments must be equal to those with which it was added."""
        del self.by_id[workload.id]
        self.dequeue(workload)
        self.by_seniority[workload.queue].remove(workload)
        if not self.by_seniority[workload.queue]:
            del self.by_seniority[workload.queue]
        if self._keeps_waits and gang.needs_devices(workload):
            self.by_wait[pool].remove(workload)

    def enqueue(self, workload: Workload) -> None:
        """Add a workload or a wanted replica to its queue in `by_queue`."""
        if workload.queue not in self.by_queue:
            self.by_queue[workload.queue] = PendingQueue(self._classes)
        self.by_queue[workload.queue].add(workload)

    def dequeue(self, workload: Workload) -> None:
        """Remove a workload or a wanted replica, unchanged since `enqueue`, from its queue in `by_queue`."""
        queue = self.by_queue[workload.queue]
        queue.remove(workload)
        if not queue.classes:
            del self.by_queue[workload.queue]
