"""Notebooks and training as pods: the backend that the controller speaks to. See `backends.protocol.Backend`.

Rules
-----
- The no-disk rule: nothing is kept on disk. What exists is in the cluster. What is wanted, the controller launches
  again after a restart.
- The intent rule: `launch` and `stop` record what is wanted and return at once. `observe` does what is next.
- The contact rule: while the API server cannot be watched, nothing is known, so `observe` raises and nothing is started
  or ended.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from jupyter_gq.backends.capabilities import Attestation, Capabilities, Pace
from jupyter_gq.backends.protocol import Launch, Observation
from jupyter_gq.backends.server_stopper import ServerStopper
from jupyter_gq.client.agents import AgentOrders, AgentReport, WatchedPod
from jupyter_gq.client.pods import PodAdditions
from jupyter_gq.devices.meter import ShareUse
from jupyter_gq.domain.amount import MiB, Seconds
from jupyter_gq.domain.cluster import SHARE_LABEL, NewNodes, Node, NodeRequest
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.pod_pool import PodPool
from jupyter_gq.domain.workload import Kind

from .api.reflector import Reflector
from .api.resources import NODES, PODS
from .api.views import NodeView, PodView, node_view, pod_view
from .api.writes import Writes
from .clocks import Clocks
from .nodes.agents import Agents
from .nodes.cordon import NodeCordons
from .nodes.foreign_pods import QUERY, Claims, Others, claims_of
from .nodes.new_nodes import new_nodes
from .nodes.nodes import Nodes
from .nodes.placeholders import Placeholders
from .objects import names
from .options import KubernetesOptions
from .pods.index import RunKey
from .providers import PROVIDERS
from .runs.notebooks import NotebookRuns
from .runs.run import shared_slots
from .runs.strays import Strays
from .runs.training import TrainingRuns
from .shares.attestation import MISMATCH, attest
from .shares.preparation import DevicePreparation
from .shares.reservation_pods import ReservationPods

if TYPE_CHECKING:
    from .api.cluster import Cluster

_Watch = Reflector[NodeView] | Reflector[PodView] | Reflector[Claims]
log = logging.getLogger(__name__)

#: Seconds after which the offer to the core is made anew although nothing is known to have changed.
_OFFER_EVERY = 2.0


class KubernetesRuns:
    """The backend that runs notebooks and jobs as pods of a cluster."""

    kinds = frozenset({Kind.NOTEBOOK, Kind.TRAINING})

    def __init__(
        self,
        options: KubernetesOptions,
        *,
        cluster: "Cluster",
        pools: Callable[[], Sequence[PodPool]],
        stopper: ServerStopper,
        clocks: Clocks,
        on_change: Callable[[], None],
    ) -> None:
        """Create the backend; `open` or the first `observe` begins to watch the cluster.

        `pools` returns the pools in force; `stopper` ends servers; `on_change` is called after each change.
        """
        self.options, self.cluster = options, cluster
        now = clocks.elapsed
        self._now, self._on_change = now, on_change
        self.agents = Agents(silent_after=options.agent_silent_after, now=now)
        self.cluster_nodes = Nodes(
            pools=pools,
            agents=self.agents,
            now=now,
            lost_after=options.node_lost_after,
            leave_cordoned=options.leave_cordoned,
        )
        self._writes = Writes(cluster, creations=options.creations, now=now, done=self._note_change)
        self.reservation_pods = ReservationPods(
            options,
            writes=self._writes,
            agents=self.agents,
            nodes=self.cluster_nodes,
            on_created=lambda pod: self._holding_pods.copy.put(pod),
            now=now,
        )
        self.placeholders = Placeholders(
            options,
            writes=self._writes,
            agents=self.agents,
            nodes=self.cluster_nodes,
            on_created=lambda pod: self._holding_pods.copy.put(pod),
            now=now,
        )
        self.cluster_nodes.device_of_slot = self.reservation_pods.device_name
        devices = DevicePreparation(
            nodes=self.cluster_nodes, agents=self.agents, reservation_pods=self.reservation_pods
        )
        self.notebooks = NotebookRuns(
            options, stopper=stopper, devices=devices, nodes=self.cluster_nodes, clocks=clocks
        )
        self._strays = Strays(self.notebooks.pods, self.notebooks.runs, now)
        self.training = TrainingRuns(
            options,
            writes=self._writes,
            devices=devices,
            nodes=self.cluster_nodes,
            on_created=lambda pod: self._job_pods.copy.put(pod),
            clocks=clocks,
        )
        self._watches = self._make_watches()
        self._is_open = False
        #: The API server was away at the last step.
        self._was_away = False
        self._nodes: tuple[Node, ...] = ()
        #: None: there was no step yet.
        self._new_nodes: tuple[NewNodes, ...] | None = None
        #: Something may have changed since the offer to the core was made, at `_offered_at`.
        self._is_stale, self._offered_at = True, 0.0
        self.capabilities = Capabilities(
            forgetful=True,
            keeps_unknown=True,
            share_label=SHARE_LABEL,
            pod_preparation=self,
            pod_lookup=self,
            agent_reports=self,
            cordon=NodeCordons(
                cluster,
                is_cordoned=self.cluster_nodes.cordoned,
                drains=options.leave_cordoned,
                on_patched=lambda node: self._node_views.copy.put(node_view(node)),
            ),
            node_supply=self,
            pace=self.pace,
            strays=self._strays.find,
            enforcement=self.enforcement,
        )

    def _note_change(self) -> None:
        self._is_stale = True
        self._on_change()

    # --- the backend protocol

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes of all pools, open and closed, as the last call of `observe` found them."""
        return self._nodes

    async def launch(self, launch: Launch) -> None:
        """Record that this run is wanted: pods of a job are created, and devices for the pod of a notebook prepared.

        The work starts after this call returns; `observe` shows how far it is. A known run is not started again.
        """
        self._is_stale = True
        if launch.workload.kind is Kind.TRAINING:
            self.training.launch(launch)
        else:
            self.notebooks.launch(launch)

    def pace(self) -> Pace:
        """Return how many tasks can be launched now, so that at most `starts_ahead` pods are wanted and not created."""
        most = self.options.starts_ahead
        return Pace(left=max(0, most - self.training.count_missing_pods()), most=most)

    async def stop(self, workload: str, run: int, grace: Seconds) -> None:
        """Ask for the end of the run within `grace` seconds, and return at once; do nothing if it is gone.

        Pods of a job are deleted; a notebook is ended through the Hub.
        """
        self._is_stale = True
        self.training.stop((workload, run), grace)
        self.notebooks.stop((workload, run), grace)

    async def observe(self) -> Sequence[Observation]:
        """Take the next step of every run, reservation pod and placeholder, and return the state of every run.

        A job's run that is known only by its pods is returned 10 seconds after it was found. The result of `nodes` is
        renewed too. Raises `BackendError` while the cluster cannot be watched.
        """
        await self.open()
        failure = next((watch.failure for watch in self._watches if watch.failure), "")
        if failure:
            self._was_away = True
            raise BackendError(failure)
        if self._was_away:
            self._was_away = False
            for part in (self.cluster_nodes, self.reservation_pods, self.placeholders, self.training, self.notebooks):
                part.restart_clocks()
        reports = [*self.notebooks.step(), *self.training.step()]
        self.placeholders.step(lambda: self._slots_in_use().keys())
        if self._is_offer_due():
            self._reserve_whole_pools()
        self.reservation_pods.step()
        if self._is_offer_due():
            self._is_stale, self._offered_at = False, self._now()
            self._update_offer()
        return reports

    async def forget(self, workload: str, run: int) -> None:
        """Forget a run, and delete what is left of a job's run in the cluster.

        The caller must have recorded its result.
        """
        self._is_stale = True
        self.training.forget((workload, run))
        self.notebooks.forget((workload, run))

    # --- the supply of nodes

    def new_nodes(self) -> tuple[NewNodes, ...]:
        """Return the nodes that may still come, by pool that grows, as the last call of `observe` found them."""
        if self._new_nodes is None:
            self._new_nodes = new_nodes(self.cluster_nodes, self.placeholders)
        return self._new_nodes

    def request_nodes(self, wanted: Mapping[str, int]) -> None:
        """Ask for this number of new nodes of each pool from the next `observe` on; 0 for pools that are not named."""
        self.placeholders.want(wanted)

    def node_request(self, pool: str) -> NodeRequest | None:
        """Return the state of the request for new nodes of that pool; None if there is no open request."""
        return self.placeholders.request_state(pool)

    # --- the preparation of notebooks' pods

    def pod_additions(self, workload: str, run: int) -> PodAdditions | None:
        """Return what a spawner merges into its pod, and reserve the pod's devices if that is not done.

        None: the devices are still being prepared, or no pod is wanted, because the run is unknown, ends or was
        released.
        """
        return self.notebooks.pod_additions((workload, run))

    def named_devices(self, workload: str, run: int) -> dict[str, str]:
        """Return the devices that the pod was told to name, by slot; empty if it names none."""
        return self.notebooks.named_devices((workload, run))

    def describe_preparation(self, workload: str, run: int) -> str:
        """Reserve the pod's devices if that is not done; return what the pod is waiting for, in one sentence.

        Returns "" if nothing is missing, or if the run is unknown or has ended.
        """
        return self.notebooks.describe_preparation((workload, run))

    async def release(self, workload: str, run: int) -> None:
        """Record that the spawner ends the pod itself; the run has ended once it has no pod any more."""
        self.notebooks.release((workload, run))

    # --- the pods of runs

    def find_task(self, workload: str, run: int, identity: PodIdentity) -> int | None:
        """Return the number of the task that this pod is; None if the pod belongs to no task of that run.

        Raises `BackendError` if that is not known now: the cluster vouches for a pod that the watch has not shown yet.
        """
        is_known = self.training.pods.by_uid(identity.uid) is not None
        if not self._job_pods.synced.is_set() or self._job_pods.failure or not is_known:
            raise BackendError(f"The pod {identity.pod} has not been seen yet. Try again in a moment.")
        is_ours = (identity.namespace, identity.service_account) == (
            self.options.training_namespace,
            names.RUNNER_ACCOUNT,
        )
        found = [pod for pod in self.training.pods.of_run((workload, run)) if pod.uid == identity.uid]
        return found[0].task if is_ours and found else None

    def attestation(self, workload: str, run: int, task: int) -> Attestation:
        """Return the device visibility check of the task's pod that has not ended; a notebook is its own task 0.

        Without such a pod the result is UNCHECKED.
        """
        found = [pod for pod in self._pods_of((workload, run)) if pod.task == task and not pod.finished]
        return attest(self.agents, found[0] if found else None)

    def image_of(self, ticket: str) -> str:
        """Return the image of the notebook that holds this ticket; "" when it is unknown."""
        return self.notebooks.image_of(ticket)

    def enforcement(self, pool: str) -> str:
        """Return how strongly a share of a device of that pool is enforced; "" = not known."""
        found = next((each for each in self.cluster_nodes.pools() if each.name == pool), None)
        return PROVIDERS[found.provider].level if found is not None else ""

    def usage(self, workload: str) -> ShareUse | None:
        """Return what the pods of a workload's present run use of their devices; None unless all of it is known."""
        keys = [run.key for runs in (self.notebooks, self.training) for run in runs.runs.values() if run.id == workload]
        pods = [pod for key in keys for pod in self._pods_of(key)]
        uses = [self.agents.use(pod.uid) for pod in pods if pod.slots and not pod.finished]
        known = [use for use in uses if use is not None]
        return _add_up(known) if known and len(known) == len(uses) else None

    # --- agents

    def accept_report(self, node: str, report: AgentReport) -> AgentOrders:
        """Store the report of a node's agent and return the orders for that agent.

        Shares of pods on other nodes are dropped, and so is the whole report of a node that is gone. A pod that did not
        see just its own devices in two reports in a row is stopped, and its node takes nothing new for a while.
        """
        if self._node_views.synced.is_set() and node not in self.cluster_nodes.names():
            # The last report of a node that is gone: what it says would be kept for ever.
            return AgentOrders()
        # An agent speaks for its own node: a report on pods of other nodes, or on foreign pods, is not believed.
        own = [share for share in report.shares if (pod := self._pod(share.pod_uid)) is not None and pod.node == node]
        report = report.model_copy(update={"shares": own})
        is_news = self.agents.is_news(node, report)
        mismatched = self.agents.store_report(node, report, self._devices_of)
        for uid in mismatched:
            self._stop_mismatched(uid)
        # Hundreds of nodes report every few seconds that nothing has changed.
        if is_news or mismatched or self.reservation_pods.waits_for_agent(node):
            self._note_change()
        return self.orders(node)

    def orders(self, node: str) -> AgentOrders:
        """Return the orders that the node's agent would get now, without a new report."""
        return AgentOrders(watch=self._pods_to_check(node))

    def _pods_to_check(self, node: str) -> list[WatchedPod]:
        pods = [
            pod
            for index in (self.notebooks.pods, self.training.pods)
            for pod in index.on_node(node)
            # Including pods without a device: they shall see none. Only sidecars run on where the work is over.
            if pod.has_begun and not pod.is_over
        ]
        return [
            WatchedPod(
                pod_uid=pod.uid, namespace=pod.namespace, pod=pod.name, devices=sorted(self._devices_of(pod.uid) or ())
            )
            for pod in sorted(pods, key=lambda each: each.key)
        ]

    def _pods_of(self, key: RunKey) -> tuple[PodView, ...]:
        return (*self.notebooks.pods.of_run(key), *self.training.pods.of_run(key))

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
        pool = self.cluster_nodes.pool(pod.node)
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
        self.cluster_nodes.mistrust.add(pod.node, f"the pod {pod.name} did not see just its own devices")
        for runs in (self.training, self.notebooks):
            runs.fail(runs.pods.key(pod), MISMATCH)

    # --- watching the cluster

    async def open(self) -> None:
        """Start to watch the cluster, if that was not done before, and wait until everything was listed once.

        The wait ends after `request_timeout` seconds at most, without an error.
        """
        if not self._is_open:
            self._is_open = True
            for watch in self._watches:
                watch.start()
        waiting = [watch.synced.wait() for watch in self._watches if not watch.synced.is_set()]
        if waiting:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.options.request_timeout):
                    await asyncio.gather(*waiting)

    async def close(self) -> None:
        """Stop watching, cancel the requests that are under way, and close the client; the cluster is left as it is."""
        for watch in self._watches:
            watch.end()
        await self._writes.close()
        await self.notebooks.close()
        self.cluster.close()

    def _make_watches(self) -> list[_Watch]:
        options = self.options
        ours = {"labelSelector": f"{names.INSTALLATION}={options.installation}"}
        servers = {"labelSelector": names.WORKLOAD}
        self._job_pods = self._watch_pods(
            options.training_namespace, ours, self._noting_work(self.training.pods.apply_change)
        )
        self._holding_pods = self._watch_pods(options.nodes_namespace, ours, self._note_holding_pod)
        self._server_pods = self._watch_pods(
            options.hub_namespace, servers, self._noting_work(self.notebooks.pods.apply_change)
        )
        self._node_views: Reflector[NodeView] = Reflector(
            self.cluster, NODES, trim=node_view, changed=self._noting_changes(self.cluster_nodes.apply_change)
        )
        watches: list[_Watch] = [self._node_views, self._holding_pods, self._job_pods, self._server_pods]
        self._foreign_pods: Reflector[Claims] | None = None
        if options.observe_all_pods:
            others = Others()
            self.cluster_nodes.used_by_others = others.on
            self._foreign_pods = Reflector(
                self.cluster,
                PODS,
                query=QUERY,
                trim=lambda pod: claims_of(pod, options.installation),
                changed=others.apply_change,
            )
            watches.append(self._foreign_pods)
        return watches

    def _watch_pods(self, namespace: str, query: dict[str, str], note: Callable[..., None]) -> Reflector[PodView]:
        return Reflector(
            self.cluster, PODS, namespace=namespace, query=query, trim=pod_view, changed=self._noting_changes(note)
        )

    def _noting_work(self, note: Callable[..., None]) -> Callable[..., None]:
        """Return a listener that calls `note`, and tells the reservation pods which devices a pod of work names."""

        def listener(before: PodView | None, after: PodView | None) -> None:
            note(before, after)
            self.reservation_pods.note_work(before, after)

        return listener

    def _noting_changes(self, note: Callable[..., None]) -> Callable[..., None]:
        """Return a listener that calls `note`, and wakes the controller if something has changed."""

        def listener(before: PodView | NodeView | None, after: PodView | NodeView | None) -> None:
            note(before, after)
            # A node's heartbeat changes its version and nothing else.
            if before != after:
                self._note_change()

        return listener

    def _note_holding_pod(self, before: PodView | None, after: PodView | None) -> None:
        self.reservation_pods.note_pod(before, after)
        self.placeholders.apply_change(before, after)

    # --- what the core is offered

    def _is_offer_due(self) -> bool:
        return self._is_stale or self._now() >= self._offered_at + _OFFER_EVERY

    def _reserve_whole_pools(self) -> None:
        """Have the devices of ready nodes in pools with `hold: always` reserved.

        Devices that have failed or that foreign pods hold are left out, and so are nodes that still await their
        placeholder.
        """
        arriving = self.placeholders.arriving()
        used, blocked = self._slots_in_use(), self._blocked_slots()
        kept = [
            slot
            for name in list(self.cluster_nodes.names())
            if name not in arriving
            and (pool := self.cluster_nodes.pool(name)) is not None
            and PROVIDERS[pool.provider].needs_reservation(pool, whole=True)
            and self.cluster_nodes.ready(name)
            for slot in self.cluster_nodes.slots_with_device(name, used.get(name, ()), blocked, self._is_ours)
        ]
        self.reservation_pods.keep_always(set(kept), self.cluster_nodes.pool)

    def _update_offer(self) -> None:
        nodes = self.cluster_nodes
        arriving = {slot for node in self.placeholders.arriving() for slot in nodes.slots(node)}
        blocked = self._blocked_slots() | arriving
        used = self._slots_in_use()
        nodes.keep(used.keys() | self.notebooks.pods.nodes() | self.training.pods.nodes())
        self._nodes = nodes.offered(used, blocked, self._is_ours, self._count_shared_slots())
        self._new_nodes = new_nodes(nodes, self.placeholders)

    def _blocked_slots(self) -> set[str]:
        """Return the slots of pods that still stand although their run has ended or is not known."""
        return self.training.blocked_slots() | self.notebooks.blocked_slots()

    def _slots_in_use(self) -> dict[str, set[str]]:
        """Return, by node, the slots of runs that have not ended."""
        used: dict[str, set[str]] = {}
        for part in (self.notebooks.slots_in_use(), self.training.slots_in_use()):
            for node, slots in part.items():
                used.setdefault(node, set()).update(slots)
        return used

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
        if self._foreign_pods is not None and self._foreign_pods.copy.get(namespace, pod) is None:
            return True
        if namespace != options.hub_namespace:
            return False
        server = self._server_pods.copy.get(namespace, pod)
        # What a server holds without a slot, the core does not count.
        return server is not None and bool(server.slots)


def _add_up(uses: Sequence[ShareUse]) -> ShareUse:
    """Return the sum of the pods' memory and the largest of their utilisations.

    If an amount of one pod is unknown, that result is None.
    """
    memory = [use.memory for use in uses if use.memory is not None]
    work = [use.utilisation for use in uses if use.utilisation is not None]
    return ShareUse(
        memory=MiB(sum(memory)) if len(memory) == len(uses) else None,
        utilisation=max(work) if len(work) == len(uses) else None,
    )
