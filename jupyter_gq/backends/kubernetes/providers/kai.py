"""Fractions by KAI-Scheduler, which chooses the device of the node that the core chose. It enforces nothing.

It needs one queue without limits, named as below: who may have how much is decided here, not there. For the same
reason its pods are not preemptible: KAI takes a priority below 100, such as that of jobs, for a permission to evict.
"""

from decimal import Decimal

from jupyter_gq.client.pods import PodAdditions
from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.pod_pool import PodPool

from .allocation import Allocation, common, told

SCHEDULER = "kai-scheduler"
QUEUE_LABEL = "kai.scheduler/queue"
QUEUE = "jupyter-gq"
PREEMPTIBILITY_LABEL = "kai.scheduler/preemptibility"


class Kai:
    """See the module."""

    name = "kai"
    level = "advisory"
    needs_agent = False
    counts_slots = True
    holds_devices = True

    def needs_reservation(self, pool: PodPool, *, whole: bool) -> bool:
        """Never: KAI makes its own."""
        return False

    def additions(self, allocation: Allocation) -> PodAdditions:
        """The fraction of a device, or a count of whole ones."""
        pool = allocation.pool
        assert pool is not None
        added = common(allocation)
        added.scheduler_name = SCHEDULER
        added.labels = {QUEUE_LABEL: QUEUE, PREEMPTIBILITY_LABEL: "non-preemptible"}
        added.environment = dict(told(allocation))
        if allocation.whole:
            added.resources = {pool.resource: str(len(allocation.slots))}
            return added
        added.annotations["gpu-fraction"] = str(Decimal(allocation.milli_per_device) / ONE_GPU)
        if len(allocation.slots) > 1:
            added.annotations["gpu-fraction-num-devices"] = str(len(allocation.slots))
        return added
