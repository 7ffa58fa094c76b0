"""Allocations: what a task holds on its node, and what a pod must carry to get exactly that."""

from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.devices.limits import memory_quota, share_environment
from jupyter_gq.domain.amount import ONE_GPU, MilliGpu, format_gpus
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.pod_pool import PodPool

_BYTES = 1024 * 1024
#: Variables of a container that shall see no device, whatever its image says.
NOTHING_VISIBLE = {"NVIDIA_VISIBLE_DEVICES": "void"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Allocation:
    """The devices or shares that one task holds."""

    node: str
    #: Pool of the node; None = the node is in no pool, which is right only for tasks without a GPU.
    pool: PodPool | None
    #: Slots as the core counts them; empty = no GPU.
    slots: tuple[str, ...] = ()
    milli_per_device: MilliGpu = ONE_GPU
    #: The devices behind the slots, in the same order; empty if a provider chooses them.
    devices: tuple[Device, ...] = ()
    #: The smallest device that the task may get, if its devices are not known.
    model: Device | None = None

    @property
    def whole(self) -> bool:
        """True if the task holds whole devices."""
        return self.milli_per_device >= ONE_GPU


def place_additions(allocation: Allocation) -> PodAdditions:
    """Return what every pod carries for its place: node, tolerations, and annotations that name slots and devices."""
    pool = allocation.pool
    annotations = {}
    if allocation.slots:
        annotations[names.SLOTS] = ",".join(allocation.slots)
    if allocation.devices:
        annotations[names.DEVICES] = ",".join(device.id for device in allocation.devices)
    # Tasks without a GPU need the tolerations too: their node is offered because its pool tolerates the taints.
    tolerations = [dict(each) for each in pool.tolerations] if pool is not None else []
    return PodAdditions(node=allocation.node or None, annotations=annotations, tolerations=tolerations)


def additions_without_gpu(allocation: Allocation) -> PodAdditions:
    """Return the additions for a task without a GPU, whose variables hide all devices."""
    return place_additions(allocation).model_copy(
        update={"environment": {**share_environment((), ONE_GPU), **NOTHING_VISIBLE}}
    )


def amount_variables(allocation: Allocation) -> Mapping[str, str]:
    """Return the environment variables that tell a program its number of GPUs and, if known, its GPU memory.

    The devices are left out, because the device plugin names them.
    """
    count = len(allocation.slots)
    environment = {"JUPYTER_GQ_GPUS": format_gpus(allocation.milli_per_device * count)}
    if allocation.model is not None and allocation.model.memory:
        quota = memory_quota(allocation.model, allocation.milli_per_device)
        environment |= {"JUPYTER_GQ_MEMORY_MIB": str(quota), "GQ_GPU_MEMORY_BYTES": str(quota * _BYTES)}
    return environment


def device_variables(allocation: Allocation) -> dict[str, str]:
    """Return the environment variables that name the devices to a program and cap the memory of frameworks.

    `NVIDIA_VISIBLE_DEVICES` is left out: how the container's runtime is told depends on the pool.
    """
    environment = share_environment(allocation.devices, allocation.milli_per_device)
    return {name: value for name, value in environment.items() if name != "NVIDIA_VISIBLE_DEVICES"}
