"""Fractions by HAMi: its device plugin and scheduler get the amount and the device, its library enforces the amount.

HAMi counts what it enforces, so the memory of a suspended share would not be free for it: nothing is suspended.
"""

from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.devices.limits import memory_quota
from jupyter_gq.domain.pod_pool import PodPool
from jupyter_gq.domain.share_level import ShareLevel

from .allocation import Allocation, amount_variables, device_variables, place_additions

#: HAMi's webhook leaves pods alone that name another scheduler.
SCHEDULER = "hami-scheduler"


class Hami:
    """The provider HAMi; see the module."""

    name = "hami"
    level: ShareLevel | None = ShareLevel.INTERCEPT
    needs_agent = True
    counts_slots = False
    holds_devices = False

    def needs_reservation(self, pool: PodPool, *, whole: bool) -> bool:
        """Return False: HAMi counts its devices itself."""
        return False

    def additions(self, allocation: Allocation) -> PodAdditions:
        """Return additions with the number of devices and, where known, their UUIDs.

        For a part of each device they have its memory in MiB and its compute in per cent too.
        """
        pool = allocation.pool
        assert pool is not None
        added = place_additions(allocation)
        vendor = pool.resource.partition("/")[0]
        added.scheduler_name = SCHEDULER
        added.resources = {pool.resource: str(len(allocation.slots))}
        uuids = ",".join(device.id for device in allocation.devices)
        if uuids:
            added.annotations[f"{vendor}/use-gpuuuid"] = uuids
        if allocation.whole:
            added.environment = dict(amount_variables(allocation))
            return added
        # Inside, the devices are numbered anew by HAMi: names would hide them.
        caps = device_variables(allocation)
        added.environment = {key: value for key, value in caps.items() if key != "CUDA_VISIBLE_DEVICES"}
        quota = min(memory_quota(device, allocation.milli_per_device) for device in allocation.devices)
        added.resources |= {
            f"{vendor}/gpumem": str(quota),
            f"{vendor}/gpucores": str(max(1, allocation.milli_per_device // 10)),
        }
        return added
