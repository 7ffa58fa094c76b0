"""The input of one scheduling cycle: everything on which a decision depends, at one moment.

Nothing changes a decision after the cycle, so the same snapshot gives the same decision again.
See docs/decisions/0063-make-back-off-and-launch-capacity-inputs-of-the-cycle.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .cluster import NewNodes, Node, Topology
from .queue import Queue
from .workload import Kind, Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """Nodes, queues, every workload that is not final, and what is known of their backends."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    workloads: tuple[Workload, ...]
    topologies: tuple[Topology, ...] = ()
    #: Queues of some of these workloads that the configuration no longer has.
    vanished: tuple[str, ...] = ()
    #: Past use of each queue in GPU-seconds, decayed; only for time-aware fairness.
    usage: Mapping[str, float] = field(default_factory=dict)
    #: Nodes that the cluster may still add to pools that can grow.
    new_nodes: tuple[NewNodes, ...] = ()
    #: Kinds of workload whose backend cannot be observed: the state of their runs may have changed, so nothing is
    #: decided about them.
    unobserved: tuple[Kind, ...] = ()
    #: Number of tasks of each kind that can be launched soon; a kind that is not named has no bound.
    launch_capacity: Mapping[Kind, int] = field(default_factory=dict)
