"""Fractions by reservation: a reservation pod holds the whole device, and each share's pod names the device.

Works with the stock device plugin, as long as no sharing is configured in it.

See docs/decisions/0050-enforce-shares-by-caps-and-a-device-check.md.
"""

from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.domain.pod_pool import Hold, PodPool, Visibility
from jupyter_gq.domain.share_level import ShareLevel

from .allocation import NOTHING_VISIBLE, Allocation, amount_variables, device_variables, place_additions

#: Kind under which the NVIDIA device plugin describes its devices to CDI.
_CDI = "k8s.device-plugin.nvidia.com/gpu"
#: Runtime class whose runtime reads the variable, also if the default runtime does not.
_RUNTIME_CLASS = "nvidia"
#: The container runtime's list of devices, where it reads one from mounts.
_MOUNTS = "/var/run/nvidia-container-devices"


class ReservationProvider:
    """The provider by reservation pods; see the module."""

    name = "reservation"
    level: ShareLevel | None = None
    needs_agent = True
    counts_slots = True
    holds_devices = False

    def needs_reservation(self, pool: PodPool, *, whole: bool) -> bool:
        """Return True for shares, and for whole devices if the pool reserves them all."""
        return not whole or pool.hold is Hold.ALWAYS

    def additions(self, allocation: Allocation) -> PodAdditions:
        """Return additions that name devices held by reservation pods, in the way of the pool's visibility.

        For whole devices that no reservation pod holds, they have a number for the device plugin.
        """
        pool = allocation.pool
        assert pool is not None
        added = place_additions(allocation)
        if not allocation.devices:
            # The variable of the runtime would compete with the device plugin's own.
            added.resources = {pool.resource: str(len(allocation.slots))}
            added.environment = dict(amount_variables(allocation))
            return added
        added.runtime_class = _RUNTIME_CLASS
        added.environment = device_variables(allocation)
        uuids = [device.id for device in allocation.devices]
        match pool.visibility:
            case Visibility.ENV:
                added.environment["NVIDIA_VISIBLE_DEVICES"] = ",".join(uuids)
            case Visibility.ENV_CDI:
                added.environment["NVIDIA_VISIBLE_DEVICES"] = ",".join(f"{_CDI}={uuid}" for uuid in uuids)
            case Visibility.VOLUME_MOUNT:
                added.environment |= NOTHING_VISIBLE
                _mount(added, uuids)
            case Visibility.CDI_ANNOTATION:
                added.environment |= NOTHING_VISIBLE
                added.annotations["cdi.k8s.io/gq"] = ",".join(f"{_CDI}={uuid}" for uuid in uuids)
        return added


def _mount(added: PodAdditions, uuids: list[str]) -> None:
    added.volumes = [{"name": "gq-device", "hostPath": {"path": "/dev/null"}}]
    added.volume_mounts = [{"name": "gq-device", "mountPath": f"{_MOUNTS}/{uuid}"} for uuid in uuids]
