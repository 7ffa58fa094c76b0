"""The core's input: everything that a decision may depend on, at one moment."""

from dataclasses import dataclass

from .cluster import Node
from .queue import Queue
from .workload import Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """Nodes, queues and every workload that is not final."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    workloads: tuple[Workload, ...]
