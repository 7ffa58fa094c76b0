"""Cordoning nodes, as `kubectl cordon` and `kubectl uncordon` do.

The service has the right to do so only where the chart's value `service.cordonNodes` is set.
See docs/decisions/0078-let-the-service-keep-what-is-drained.md.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from jupyter_gq.backends.kubernetes.api.errors import Refused
from jupyter_gq.backends.kubernetes.api.resources import NODES
from jupyter_gq.domain.errors import Conflict
from jupyter_gq.domain.json_types import JsonObject

if TYPE_CHECKING:
    from jupyter_gq.backends.kubernetes.api.cluster import Cluster

_FORBIDDEN = 403


class NodeCordons:
    """The cordons of the nodes of a cluster; see `backends.capabilities.NodeCordon`."""

    def __init__(
        self,
        cluster: "Cluster",
        *,
        is_cordoned: Callable[[str], bool],
        drains: bool,
        on_patched: Callable[[JsonObject], None],
    ) -> None:
        """Create the cordons of a cluster.

        `is_cordoned` says whether a node is cordoned, and `drains` whether training then leaves the node. `on_patched`
        gets each node as the cluster has it after a change.
        """
        self.is_cordoned, self.drains = is_cordoned, drains
        self._cluster, self._on_patched = cluster, on_patched

    async def set_cordoned(self, node: str, *, cordoned: bool) -> None:
        """Cordon or uncordon the node, and pass its new state on.

        Raise `Conflict` if the service has no right to do so, and `BackendError` if the cluster does not do it.
        """
        try:
            patched = await self._cluster.patch(NODES, "", node, {"spec": {"unschedulable": cordoned or None}})
        except Refused as error:
            if error.status != _FORBIDDEN:
                raise
            verb = "cordon" if cordoned else "uncordon"
            raise Conflict(
                f"The service has no right to {verb} nodes of this cluster. Run `kubectl {verb} {node}`, "
                "or set service.cordonNodes to true in the values of the chart."
            ) from error
        self._on_patched(patched)
