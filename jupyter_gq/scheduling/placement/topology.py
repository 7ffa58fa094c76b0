"""Topologies: which nodes are in one domain, level by level.

See docs/decisions/0011-try-one-topology-domain-after-the-other.md.
"""

from collections.abc import Iterable

from jupyter_gq.domain.cluster import Topology

from .layout import Layout
from .scope import Domain


class Domains:
    """The domains of all levels of all topologies, computed when they are first asked for.

    A node that lacks the label of a level, or of a wider one, is in no domain of that level.
    """

    def __init__(self, layout: Layout, topologies: Iterable[Topology]) -> None:
        self._layout = layout
        self._topologies = {topology.name: topology for topology in topologies}
        self._nodes: dict[tuple[str, str], dict[Domain, list[int]]] = {}

    def levels(self, topology: str) -> tuple[str, ...]:
        """Return the label keys of a topology's levels, widest first; empty if there is no topology of that name."""
        found = self._topologies.get(topology)
        return () if found is None else found.levels

    def of(self, topology: str, level: str) -> list[Domain]:
        """Return all domains of a level, sorted by their values; empty if there is no such level."""
        return list(self._level(topology, level))

    def nodes(self, domain: Domain) -> list[int]:
        """Return the numbers of the nodes in a domain, ascending; empty if there are none."""
        return self._level(domain.topology, domain.levels[-1]).get(domain, [])

    def around(self, node: str, topology: str, level: str) -> Domain | None:
        """Return the domain of that level that contains the node of that name; None if there is none."""
        number = self._layout.node_of.get(node)
        if number is None or level not in self.levels(topology):
            return None
        return self._domain(number, topology, self._down_to(topology, level))

    def _level(self, topology: str, level: str) -> dict[Domain, list[int]]:
        """Return the numbers of the nodes in each domain of a level, by domain."""
        key = (topology, level)
        if key not in self._nodes:
            found: dict[Domain, list[int]] = {}
            if level in self.levels(topology):
                for number in range(len(self._layout.nodes)):
                    domain = self._domain(number, topology, self._down_to(topology, level))
                    if domain is not None:
                        found.setdefault(domain, []).append(number)
            self._nodes[key] = dict(sorted(found.items()))
        return self._nodes[key]

    def _down_to(self, topology: str, level: str) -> tuple[str, ...]:
        levels = self.levels(topology)
        return levels[: levels.index(level) + 1]

    def _domain(self, node: int, topology: str, levels: tuple[str, ...]) -> Domain | None:
        labels = self._layout.nodes[node].labels
        values = tuple(labels[level] for level in levels if level in labels)
        return Domain(topology, levels, values) if len(values) == len(levels) else None
