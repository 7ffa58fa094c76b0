"""Nodes and their devices."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .amount import NO_MEMORY, Instant, MiB


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One GPU (or MIG slice) of a node."""

    #: The UUID that the driver knows, such as "GPU-5c1e…"; simulated ones start with "GPU-sim-".
    id: str
    #: Position on its node, as nvidia-smi counts.
    index: int
    #: Product name, such as "A100-40GB".
    model: str
    #: Total memory.
    memory: MiB
    #: The pool it belongs to.
    pool: str
    #: False while it must not take new work (lost, drained); running work stays on the books.
    healthy: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One machine."""

    name: str
    devices: tuple[Device, ...] = ()
    #: What tasks may use of its processors, in thousandths of a core; None = not counted.
    cpu_milli: int | None = None
    #: What tasks may use of its memory; None = not counted.
    memory: MiB | None = None
    #: What work that is none of ours takes of both at present; it is not in them, and may come back.
    cpu_by_others: int = 0
    memory_by_others: MiB = NO_MEMORY
    #: The most tasks that it takes; None = not counted.
    max_tasks: int | None = None
    #: Why it takes no new tasks, with devices or without, such as "gpu-1 is cordoned"; what runs there stays on the
    #: books. "" = it takes some.
    closed: str = ""
    #: The node is being drained: it is closed as well, and training work that can be paused leaves it.
    draining: bool = False
    #: Where it stands and what it is: topology levels (rack, block) and whatever a request selects nodes by.
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
    """Nodes that a cluster adds to a pool when somebody needs them."""

    pool: str
    #: What each of them has. Its name, and those of its devices, begin names that no node and no device has.
    like: Node
    #: So many may still come.
    count: int
    #: What became of asking for them; None = nothing has been asked for yet.
    request: NodeRequest | None = None

    def some(self, most: int) -> tuple[Node, ...]:
        """As many of them as may come, but at most so many; each has names of its own."""
        return tuple(self._numbered(number) for number in range(min(self.count, most)))

    def _numbered(self, number: int) -> Node:
        devices = tuple(replace(device, id=f"{device.id}-{number}") for device in self.like.devices)
        return replace(self.like, name=f"{self.like.name}-{number}", devices=devices)


#: Label of the nodes whose devices can be shared, where not all can.
SHARE_LABEL = ("jupyter-gq.org/shares", "yes")
#: The same, of nodes whose devices are slices of GPUs: those are never shared, however long one waits.
NEVER_SHARED = (SHARE_LABEL[0], "never")


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """How nodes are grouped: label keys from the widest level (block) to the narrowest (rack, NVLink domain).

    A domain of a level is the set of nodes that have the same values of this level and of all wider ones.
    """

    name: str
    levels: tuple[str, ...]
