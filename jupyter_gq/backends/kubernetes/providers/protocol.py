"""What a share provider has to say."""

from typing import Protocol

from jupyter_gq.client.pods import PodAdditions
from jupyter_gq.domain.pod_pool import PodPool

from .allocation import Allocation


class ShareProvider(Protocol):
    """How pods get whole devices and fractions in a pool. Pure: it makes nothing."""

    #: As a pool names it.
    name: str
    #: How strongly a fraction is enforced, as it is shown to its owner.
    level: str
    #: The agent of the node must have told its devices before a share can go there.
    needs_agent: bool
    #: The node's device plugin offers as many devices as there are slots.
    counts_slots: bool
    #: Pods of its own, which are none of ours, hold the devices that it shares.
    holds_devices: bool

    def needs_reservation(self, pool: PodPool, *, whole: bool) -> bool:
        """Each slot needs a pod of ours that holds its device before the work's own pod is made."""
        ...

    def additions(self, allocation: Allocation) -> PodAdditions:
        """What the pod of a task must carry to get its devices."""
        ...
