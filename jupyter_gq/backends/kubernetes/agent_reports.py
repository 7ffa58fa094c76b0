"""The reports of the nodes' agents, and the orders for them. See `backends.capabilities.AgentReports`.

Rules
-----
- The own-node rule: an agent speaks for the pods of its node only; its reports on other pods are dropped.
- The stop rule: a pod that sees devices of others is stopped, and its node takes nothing new for a while.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_gq.client.agents import AgentOrders, AgentReport, WatchedPod
from jupyter_gq.client.models import NodeDescription

from .api.views import PodView
from .nodes.agents import Agents
from .nodes.descriptions import describe_node
from .nodes.nodes import Nodes
from .nodes.share_orders import ShareOrders
from .nodes.signal_orders import SignalOrders
from .runs.notebooks import NotebookRuns
from .runs.training import TrainingRuns
from .shares.attestation import MISMATCH
from .shares.reservation_pods import ReservationPods

log = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class KubernetesAgentReports:
    """The receiver of the agents' reports on the pods of notebooks and jobs."""

    agents: Agents
    signal_orders: SignalOrders
    share_orders: ShareOrders
    nodes: Nodes
    #: Tells whether `nodes` has all nodes of the cluster.
    are_nodes_listed: Callable[[], bool]
    notebooks: NotebookRuns
    training: TrainingRuns
    reservation_pods: ReservationPods
    #: Called after a report that changes something.
    on_change: Callable[[], None]

    def accept_report(self, node: str, report: AgentReport) -> AgentOrders:
        """Store the report of a node's agent and return the orders for that agent.

        Shares of pods on other nodes are dropped, and so is the whole report of a node that is gone. A pod that did not
        see just its own devices in two reports in a row is stopped, and its node takes nothing new for a while.
        """
        if self.are_nodes_listed() and node not in self.nodes.names():
            # The node is gone, and nothing would ever delete the report.
            return AgentOrders()
        # An agent speaks for its own node: a report on pods of other nodes, or on foreign pods, is not believed.
        own = [share for share in report.shares if (pod := self._pod(share.pod_uid)) is not None and pod.node == node]
        report = report.model_copy(update={"shares": own})
        is_news = self.agents.is_news(node, report)
        mismatched = self.agents.store_report(node, report, self._devices_of)
        self.signal_orders.note_report(node, report)
        self.share_orders.note_report(report)
        for uid in mismatched:
            self._stop_mismatched(uid)
        # Hundreds of nodes report every few seconds that nothing has changed.
        if is_news or mismatched or self.reservation_pods.waits_for_agent(node):
            self.on_change()
        return self.orders(node)

    def orders(self, node: str) -> AgentOrders:
        """Return the orders that the node's agent would get now, without a new report."""
        can_suspend = self.agents.takes_share_orders(node)
        return AgentOrders(
            watch=self._pods_to_check(node),
            commands=self.signal_orders.commands(node),
            shares=self.share_orders.orders(node) if can_suspend else [],
            suspended_memory_mib=self.share_orders.limit() if can_suspend else None,
        )

    def describe_nodes(self) -> list[NodeDescription]:
        """Return what each node can do, as its agent told last; see `AgentReports.describe_nodes`."""
        return [describe_node(node, pool, offered, self.agents) for node, pool, offered in self.nodes.in_pools()]

    def _pods_to_check(self, node: str) -> list[WatchedPod]:
        pods = [
            pod
            for index in (self.notebooks.pods, self.training.pods)
            for pod in index.on_node(node)
            # Pods without a device are checked too: they must see none. In a pod that is over, only sidecars run on.
            if pod.has_begun and not pod.is_over
        ]
        return [
            WatchedPod(
                pod_uid=pod.uid, namespace=pod.namespace, pod=pod.name, devices=sorted(self._devices_of(pod.uid) or ())
            )
            for pod in sorted(pods, key=lambda each: each.key)
        ]

    def _pod(self, uid: str) -> PodView | None:
        return self.notebooks.pods.by_uid(uid) or self.training.pods.by_uid(uid)

    def _devices_of(self, uid: str) -> frozenset[str] | None:
        """Return the devices of a pod as it names them, else as the kubelet says; None = not known.

        The result is empty for a pod without a GPU.
        """
        pod = self._pod(uid)
        if pod is None:
            return None
        if not pod.slots:
            return frozenset()
        if pod.devices:
            return frozenset(pod.devices)
        pool = self.nodes.pool(pod.node)
        given = self.agents.given(pod.node, pod.namespace, pod.name, pool.resource) if pool is not None else None
        return frozenset(given) if given else None

    def _stop_mismatched(self, uid: str) -> None:
        """Fail the run of a pod that sees devices of others, or not all of its own, and close its node for a while.

        Do nothing if the pod is gone or is being deleted.
        """
        pod = self._pod(uid)
        if pod is None or pod.terminating:
            return
        log.error(
            "DEVICE_MISMATCH: the pod %s on %s does not see just its own devices; it is stopped", pod.name, pod.node
        )
        self.nodes.mistrust.add(pod.node, f"the pod {pod.name} did not see just its own devices")
        for runs in (self.training, self.notebooks):
            runs.fail(runs.pods.key(pod), MISMATCH)
