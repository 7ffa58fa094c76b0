"""What the devices of a node are: as its agent describes them, else as its labels do.

Rules
-----
1. A slice of a GPU (MIG) is a device of its own, and never divided further. The agent speaks of whole GPUs: what a
   slice is, only the labels of GPU feature discovery say.
2. Unknown memory is 0 here, and told to nobody.
"""

from collections.abc import Mapping, Sequence

from jupyter_gq.backends.kubernetes.api.views import NodeView
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.cluster import NEVER_SHARED, SHARE_LABEL, Device
from jupyter_gq.domain.pod_pool import PodPool

#: What GPU feature discovery puts before its labels for whole GPUs; those of a slice begin with its resource's name.
_GPU = "nvidia.com/gpu"
#: A resource of the device plugin's strategy "mixed": nvidia.com/mig-1g.10gb.
_MIXED = "mig-"
#: With the strategy "single", nvidia.com/gpu means slices, and the product is such as A100-SXM4-40GB-MIG-1g.5gb.
_SINGLE = "-MIG-"


def sliced(labels: Mapping[str, str], pool: PodPool) -> bool:
    """What the pool's resource counts on a node with these labels are slices of GPUs."""
    name = pool.resource.rpartition("/")[2]
    return name.startswith(_MIXED) or _SINGLE in labels.get(f"{pool.resource}.product", "")


def device_by_labels(view: NodeView, index: int, pool: PodPool, *, healthy: bool) -> Device:
    """A device as the labels of its node describe it, where no agent does."""
    of = pool.resource if sliced(view.labels, pool) else _GPU
    memory = view.labels.get(f"{of}.memory", "")
    return Device(
        id=names.slot_of(view.name, index),
        index=index,
        model=view.labels.get(f"{of}.product", pool.resource.rpartition("/")[2] if of != _GPU else "GPU"),
        memory=MiB(int(memory) if memory.isdigit() else 0),
        pool=pool.name,
        healthy=healthy,
    )


def device_of(view: NodeView, pool: PodPool, told: Sequence[Device], index: int, *, healthy: bool) -> Device:
    """The device of that number. `told`: what the agent says of whole GPUs; () where slices are given."""
    if index >= len(told):
        return device_by_labels(view, index, pool, healthy=healthy)
    model = told[index]
    return Device(
        id=names.slot_of(view.name, index),
        index=index,
        model=model.model,
        memory=model.memory,
        pool=pool.name,
        healthy=healthy and model.healthy,
    )


def offered_labels(labels: Mapping[str, str], pool: PodPool, *, shares: bool) -> dict[str, str]:
    """Those that the core sees; which nodes take shares is ours to say."""
    key, value = SHARE_LABEL
    others = {name: text for name, text in labels.items() if name != key}
    if sliced(labels, pool):
        return {**others, **dict([NEVER_SHARED])}
    return {**others, key: value} if shares else others
