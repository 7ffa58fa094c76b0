"""The offer to the core: the nodes of all pools with their free slots, and the nodes that can be added.

Rules
-----
- The foreign rule: a device that a foreign pod holds is not offered. `_is_ours` tells our pods from foreign ones.
- The freshness rule: the offer is made anew when something may have changed, and every two seconds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from jupyter_gq.domain.cluster import NewNodes, Node

from .api.reflector import Reflector
from .api.views import PodView
from .nodes.foreign_pods import Claims
from .nodes.new_nodes import new_nodes
from .nodes.nodes import Nodes
from .nodes.placeholders import Placeholders
from .options import KubernetesOptions
from .providers import PROVIDERS
from .runs.notebooks import NotebookRuns
from .runs.run import shared_slots
from .runs.training import TrainingRuns
from .shares.reservation_pods import ReservationPods

#: Seconds after which the offer to the core is made anew although nothing is known to have changed.
_MADE_EVERY = 2.0


@dataclass(kw_only=True, slots=True)
class Offer:
    """The nodes that the core sees, made of what the watches and agents show and of the runs' own slots."""

    options: KubernetesOptions
    cluster_nodes: Nodes
    placeholders: Placeholders
    reservation_pods: ReservationPods
    notebooks: NotebookRuns
    training: TrainingRuns
    server_pods: Reflector[PodView]
    #: None: foreign pods are not watched.
    foreign_pods: Reflector[Claims] | None
    now: Callable[[], float]
    #: All nodes of the pools, open and closed, as the last `update` found them.
    nodes: tuple[Node, ...] = field(default=(), init=False)
    #: None: there was no update yet.
    _new_nodes: tuple[NewNodes, ...] | None = field(default=None, init=False)
    #: Whether something may have changed since the offer was made, at `_made_at`.
    _is_stale: bool = field(default=True, init=False)
    _made_at: float = field(default=0.0, init=False)

    def mark_stale(self) -> None:
        """Record that something may have changed, so that the next update is due at once."""
        self._is_stale = True

    def is_due(self) -> bool:
        """Return whether something may have changed, or the offer is two seconds old."""
        return self._is_stale or self.now() >= self._made_at + _MADE_EVERY

    def update(self) -> None:
        """Make the offer anew from the present state of nodes, pods and runs."""
        self._is_stale, self._made_at = False, self.now()
        nodes = self.cluster_nodes
        arriving = {slot for node in self.placeholders.arriving() for slot in nodes.slots(node)}
        blocked = self._blocked_slots() | arriving
        used = self.slots_in_use()
        nodes.keep(used.keys() | self.notebooks.pods.nodes() | self.training.pods.nodes())
        self.nodes = nodes.offered(used, blocked, self._is_ours, self._count_shared_slots())
        self._new_nodes = new_nodes(nodes, self.placeholders)

    def new_nodes(self) -> tuple[NewNodes, ...]:
        """Return the nodes that can be added, one entry for each pool that grows, as the last update found them."""
        if self._new_nodes is None:
            self._new_nodes = new_nodes(self.cluster_nodes, self.placeholders)
        return self._new_nodes

    def reserve_whole_pools(self) -> None:
        """Request a reservation pod for each device of ready nodes in pools with `hold: always`.

        Devices that have failed or that foreign pods hold are left out, and so are nodes that still await their
        placeholder.
        """
        nodes, arriving = self.cluster_nodes, self.placeholders.arriving()
        used, blocked = self.slots_in_use(), self._blocked_slots()
        kept = [
            slot
            for name in list(nodes.names())
            if name not in arriving
            and (pool := nodes.pool(name)) is not None
            and PROVIDERS[pool.provider].needs_reservation(pool, whole=True)
            and nodes.ready(name)
            for slot in nodes.slots_with_device(name, used.get(name, ()), blocked, self._is_ours)
        ]
        self.reservation_pods.keep_always(set(kept), nodes.pool)

    def slots_in_use(self) -> Mapping[str, set[str]]:
        """Return, by node, the slots of runs that have not ended."""
        used: dict[str, set[str]] = {}
        for part in (self.notebooks.slots_in_use(), self.training.slots_in_use()):
            for node, slots in part.items():
                used.setdefault(node, set()).update(slots)
        return used

    def _blocked_slots(self) -> set[str]:
        """Return the slots of pods that still stand, though their run has ended or is not known, or they should go."""
        return self.training.blocked_slots() | self.notebooks.blocked_slots() | self.reservation_pods.overdue_slots()

    def _count_shared_slots(self) -> dict[str, int]:
        """Return, by node, the number of slots of which our pods have shares.

        The result is empty if no pool has a provider whose own pods hold the shared devices.
        """
        if not any(PROVIDERS[pool.provider].holds_devices for pool in self.cluster_nodes.pools()):
            return {}
        slots: dict[str, set[str]] = {}
        for part in (self.notebooks, self.training):
            for node, found in shared_slots(part.runs.values()).items():
                slots.setdefault(node, set()).update(found)
        return {node: len(found) for node, found in slots.items()}

    def _is_ours(self, namespace: str, pod: str) -> bool:
        """Return whether a pod is ours, was ours, or is known to have ended, so that its devices are not foreign.

        Foreign pods do not use our namespaces. In the hub's namespace only a present pod with slots is ours.
        """
        options = self.options
        if namespace in (options.training_namespace, options.nodes_namespace):
            return True
        if self.foreign_pods is not None and self.foreign_pods.copy.get(namespace, pod) is None:
            return True
        if namespace != options.hub_namespace:
            return False
        server = self.server_pods.copy.get(namespace, pod)
        # The core does not count devices that a server holds without a slot.
        return server is not None and bool(server.slots)
