"""Fractions by KAI-Scheduler, which chooses the device on the node that the core chose. KAI enforces nothing.

KAI needs one queue without limits, of the name below: quotas are decided by our core, not by KAI. For the same reason
its pods are not preemptible: KAI takes a priority below 100, such as that of jobs, for a permission to evict.
"""

from decimal import Decimal

from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.pod_pool import PodPool
from jupyter_gq.domain.share_level import ShareLevel

from .allocation import Allocation, amount_variables, place_additions

SCHEDULER = "kai-scheduler"
QUEUE_LABEL = "kai.scheduler/queue"
QUEUE = "jupyter-gq"
PREEMPTIBILITY_LABEL = "kai.scheduler/preemptibility"


class Kai:
    """The provider KAI-Scheduler; see the module."""

    name = "kai"
    level: ShareLevel | None = ShareLevel.ADVISORY
    needs_agent = False
    counts_slots = True
    holds_devices = True

    def needs_reservation(self, pool: PodPool, *, whole: bool) -> bool:
        """Return False: KAI makes its own reservation pods."""
        return False

    def additions(self, allocation: Allocation) -> PodAdditions:
        """Return additions with the fraction of each device, or with the number of whole devices; KAI chooses which."""
        pool = allocation.pool
        assert pool is not None
        added = place_additions(allocation)
        added.scheduler_name = SCHEDULER
        added.labels = {QUEUE_LABEL: QUEUE, PREEMPTIBILITY_LABEL: "non-preemptible"}
        added.environment = dict(amount_variables(allocation))
        if allocation.whole:
            added.resources = {pool.resource: str(len(allocation.slots))}
            return added
        added.annotations["gpu-fraction"] = str(Decimal(allocation.milli_per_device) / ONE_GPU)
        if len(allocation.slots) > 1:
            added.annotations["gpu-fraction-num-devices"] = str(len(allocation.slots))
        return added
