"""Devices of a node, as its agent describes them, or else as its labels do.

Rules
-----
1. Slices. A slice of a GPU (MIG) is a device of its own, and never divided further. An agent sees whole GPUs: the
   properties of a slice come from the labels of GPU feature discovery.
2. Unknown memory is 0 here, and shown to nobody.
"""

from collections.abc import Mapping, Sequence

from jupyter_gq.backends.kubernetes.api.views import NodeView
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.cluster import NEVER_SHARED, SHARE_LABEL, UNKNOWN_MODEL, Device
from jupyter_gq.domain.pod_pool import PodPool

#: What GPU feature discovery puts before its labels for whole GPUs; those of a slice begin with its resource's name.
_GPU = "nvidia.com/gpu"
#: A resource of the device plugin's strategy "mixed": nvidia.com/mig-1g.10gb.
_MIXED = "mig-"
#: With the strategy "single", nvidia.com/gpu means slices, and the product is such as A100-SXM4-40GB-MIG-1g.5gb.
_SINGLE = "-MIG-"


def sliced(labels: Mapping[str, str], pool: PodPool) -> bool:
    """Return True if the pool's resource counts slices of GPUs on a node with these labels."""
    name = pool.resource.rpartition("/")[2]
    return name.startswith(_MIXED) or _SINGLE in labels.get(f"{pool.resource}.product", "")


def device_by_labels(view: NodeView, index: int, pool: PodPool, *, healthy: bool) -> Device:
    """Return the device with this number on a node as the labels of the node describe it; unknown memory is 0."""
    of = pool.resource if sliced(view.labels, pool) else _GPU
    memory = view.labels.get(f"{of}.memory", "")
    return Device(
        id=names.slot_of(view.name, index),
        index=index,
        model=view.labels.get(f"{of}.product", pool.resource.rpartition("/")[2] if of != _GPU else UNKNOWN_MODEL),
        memory=MiB(int(memory) if memory.isdigit() else 0),
        pool=pool.name,
        healthy=healthy,
    )


def device_of(view: NodeView, pool: PodPool, told: Sequence[Device], index: int, *, healthy: bool) -> Device:
    """Return the device with this number: as the agent describes it in `told`, or else as the node's labels do.

    `told` has whole GPUs only; () if the node gives slices.
    """
    model = next((device for device in told if device.index == index), None)
    if model is None:
        return device_by_labels(view, index, pool, healthy=healthy)
    return Device(
        id=names.slot_of(view.name, index),
        index=index,
        model=model.model,
        memory=model.memory,
        pool=pool.name,
        healthy=healthy,
    )


def offered_labels(labels: Mapping[str, str], pool: PodPool, *, shares: bool) -> dict[str, str]:
    """Return the labels of a node that the core sees: `SHARE_LABEL` is set if `shares`, and removed otherwise.

    A node that gives slices gets `NEVER_SHARED` instead.
    """
    key, value = SHARE_LABEL
    others = {name: text for name, text in labels.items() if name != key}
    if sliced(labels, pool):
        return {**others, **dict([NEVER_SHARED])}
    return {**others, key: value} if shares else others
