"""Nodes and their devices."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .amount import NO_MEMORY, Instant, MiB


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A GPU (or MIG slice) of a node."""

    #: The UUID that the driver knows, such as "GPU-5c1e…"; simulated ones start with "GPU-sim-".
    id: str
    #: Position on its node, as nvidia-smi counts.
    index: int
    #: Product name, such as "A100-40GB".
    model: str
    #: Total memory.
    memory: MiB
    #: Name of the pool of the device.
    pool: str
    #: False while the device must not take new work (lost, drained); running work is still counted.
    healthy: bool = True
    #: True while the device is drained. `healthy` is then False too, and training that can be paused leaves the device.
    draining: bool = False
    #: True while the device takes nothing new although it works: drained, or in no pool any more. `healthy` is then
    #: False too, and a suspended notebook still comes back to the device.
    withheld: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A machine."""

    name: str
    devices: tuple[Device, ...] = ()
    #: CPU that tasks may use, in thousandths of a core; None = not counted.
    cpu_milli: int | None = None
    #: Memory that tasks may use; None = not counted.
    memory: MiB | None = None
    #: CPU and memory that foreign work takes at present; `cpu_milli` and `memory` are without them.
    cpu_by_others: int = 0
    memory_by_others: MiB = NO_MEMORY
    #: Maximum number of tasks; None = not counted.
    max_tasks: int | None = None
    #: Why the node takes no new tasks, with devices or without, such as "gpu-1 is cordoned"; "" = it takes new tasks.
    #: Running work is still counted.
    closed: str = ""
    #: True while the node is drained: it is closed as well, and training that can be paused leaves it.
    draining: bool = False
    #: Topology levels of the node (rack, block) and all other labels by which a request selects nodes.
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeRequest:
    """The state of a request to a cluster for new nodes of one pool."""

    #: Since when the oldest node is asked for that has not come; None = none could be asked for, or all have come.
    since: Instant | None = None
    #: The cluster's reason why no node comes; "" = it gave none.
    sentence: str = ""
    #: A node that has come and is being made ready; "" = none.
    arriving: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewNodes:
    """Nodes that a cluster can add to a pool on request."""

    pool: str
    #: A template of the new nodes. Its name and the ids of its devices are prefixes that no node and no device has.
    like: Node
    #: Number of nodes that may still come.
    count: int
    #: The state of the request for them; None = nothing has been asked for yet.
    request: NodeRequest | None = None

    def first(self, most: int) -> tuple[Node, ...]:
        """Return `most` copies of the template, or `count` if that is fewer; each has its own name and device ids."""
        return tuple(self._numbered(number) for number in range(min(self.count, most)))

    def _numbered(self, number: int) -> Node:
        devices = tuple(replace(device, id=f"{device.id}-{number}") for device in self.like.devices)
        return replace(self.like, name=f"{self.like.name}-{number}", devices=devices)


#: Label of the nodes whose devices can be shared, in clusters where not all nodes can share.
SHARE_LABEL = ("jupyter-gq.org/shares", "yes")
#: The model of a device whose model nobody tells.
UNKNOWN_MODEL = "GPU"
#: Label of the nodes whose devices are slices of GPUs: these devices are never shared, however long a workload waits.
NEVER_SHARED = (SHARE_LABEL[0], "never")


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """A grouping of nodes: label keys from the widest level (block) to the narrowest (rack, NVLink domain).

    A domain of a level is the set of nodes that have the same values of this level and of all wider levels.
    """

    name: str
    levels: tuple[str, ...]
