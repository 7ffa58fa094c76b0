"""The levels at which all tasks of a job may be asked to be together: the node, and what labels of nodes say.

The name of a level is the last part of its label: nodes with the same "topology.kubernetes.io/rack" are in one rack.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from jupyter_gq.domain.cluster import Node, Topology
from jupyter_gq.domain.workload import TopologyConstraint

#: The level that every cluster has.
NODE_LEVEL: Final = "node"
#: Names of the topology of nodes and of that of labels. A node without labels is in no domain of the latter.
_NODES, _LABELS = "nodes", "labels"


def level_name(label: str) -> str:
    """Return the name of the level of a label, such as "rack" for "topology.kubernetes.io/rack"."""
    return label.rsplit("/", 1)[-1]


def list_levels(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the names of all levels from wide to narrow, the last of which is the node."""
    return (*map(level_name, labels), NODE_LEVEL)


def make_topologies(labels: Sequence[str]) -> tuple[Topology, ...]:
    """Return the topologies with these levels, for nodes that `with_levels` has returned."""
    nodes = Topology(name=_NODES, levels=(NODE_LEVEL,))
    return (nodes, Topology(name=_LABELS, levels=tuple(map(level_name, labels)))) if labels else (nodes,)


def make_constraint(level: str) -> TopologyConstraint:
    """Return the constraint that all tasks run in one domain of the level."""
    return TopologyConstraint(topology=_NODES if level == NODE_LEVEL else _LABELS, required=level)


def with_levels(nodes: Sequence[Node], labels: Sequence[str]) -> tuple[Node, ...]:
    """Return the nodes with the value of each level under its name, beside their other labels."""
    return tuple(replace(node, labels={**node.labels, **_values(node, labels)}) for node in nodes)


def _values(node: Node, labels: Sequence[str]) -> dict[str, str]:
    known = {level_name(label): node.labels[label] for label in labels if label in node.labels}
    return {**known, NODE_LEVEL: node.name}
