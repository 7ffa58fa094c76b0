"""The protocol of share providers."""

from typing import Protocol

from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.domain.pod_pool import PodPool
from jupyter_gq.domain.share_level import ShareLevel

from .allocation import Allocation


class ShareProvider(Protocol):
    """How pods get whole devices and fractions in a pool. Pure: a provider makes nothing."""

    #: The name that a pool uses.
    name: str
    #: Level at which the software that divides devices enforces a fraction; None = it leaves that to this product.
    level: ShareLevel | None
    #: The node's agent must have reported its devices before a share can go there.
    needs_agent: bool
    #: The node's device plugin offers as many devices as there are slots.
    counts_slots: bool
    #: Pods of the provider hold the shared devices.
    holds_devices: bool

    def needs_reservation(self, pool: PodPool, *, whole: bool) -> bool:
        """Return True if each slot needs a reservation pod of ours before the work's own pod is made."""
        ...

    def additions(self, allocation: Allocation) -> PodAdditions:
        """Return what the pod of a task must carry to get its devices: resources, variables, annotations and more."""
        ...
