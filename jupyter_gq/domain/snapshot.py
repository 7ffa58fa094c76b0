"""The core's input: everything that a decision may depend on, at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .cluster import NewNodes, Node, Topology
from .queue import Queue
from .workload import Kind, Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """Nodes, queues and every workload that is not final."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    workloads: tuple[Workload, ...]
    topologies: tuple[Topology, ...] = ()
    #: Queues of some of these workloads that the configuration no longer has.
    vanished: tuple[str, ...] = ()
    #: Past use of each queue in GPU-seconds, decayed; only for time-aware fairness.
    usage: Mapping[str, float] = field(default_factory=dict)
    #: What the cluster may still add to pools that grow.
    new_nodes: tuple[NewNodes, ...] = ()
    #: Kinds of workload whose backend cannot be observed: the state of their runs may have changed, so nothing is
    #: decided about them.
    unobserved: tuple[Kind, ...] = ()
    #: How many tasks of each kind can be launched soon; a kind that is not named has no bound.
    launch_capacity: Mapping[Kind, int] = field(default_factory=dict)
