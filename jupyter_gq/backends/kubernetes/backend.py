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
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from jupyter_gq.backends.capabilities import Attestation, Capabilities, Pace
from jupyter_gq.backends.protocol import Launch, Observation
from jupyter_gq.backends.server_stopper import ServerStopper
from jupyter_gq.devices.meter import ShareUse
from jupyter_gq.domain.amount import MiB, Seconds
from jupyter_gq.domain.cluster import SHARE_LABEL, NewNodes, Node, NodeRequest
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.json_types import JsonMapping
from jupyter_gq.domain.pod_pool import PodPool
from jupyter_gq.domain.share_level import ShareLevel
from jupyter_gq.domain.workload import Kind, RunKey, Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail

from .agent_reports import KubernetesAgentReports
from .api.reflector import Copy, Reflector
from .api.resources import NODES, PODS
from .api.views import NodeView, PodView, node_view, pod_view
from .api.writes import Writes
from .clocks import Clocks
from .nodes.agents import Agents
from .nodes.cordon import NodeCordons
from .nodes.foreign_pods import QUERY, Claims, Others, claims_of
from .nodes.nodes import Nodes
from .nodes.placeholders import Placeholders
from .nodes.share_orders import ShareOrders
from .nodes.signal_orders import SignalOrders
from .objects import names
from .offer import Offer
from .options import KubernetesOptions
from .pods.marks import MarkKeeper, is_of_installation, is_server, list_lost_marks
from .providers import PROVIDERS
from .runs.notebooks import NotebookRuns
from .runs.strays import Strays
from .runs.training import TrainingRuns
from .secrets import ClusterSecrets
from .share_uses import add_up, name_slots
from .shares.attestation import attest
from .shares.preparation import DevicePreparation
from .shares.reservation_pods import ReservationPods
from .signals import PodSignals
from .suspension import PodSuspension

if TYPE_CHECKING:
    from .api.cluster import Cluster

_Watch = Reflector[NodeView] | Reflector[PodView] | Reflector[Claims]
log = logging.getLogger(__name__)


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
        self._signal_orders = SignalOrders(now=now)
        self.share_orders = ShareOrders(agents=self.agents, clocks=clocks)
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
        self._strays = Strays(self.notebooks.pods, self.notebooks.runs, now, options.installation)
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
        self._offer = Offer(
            options=options,
            cluster_nodes=self.cluster_nodes,
            placeholders=self.placeholders,
            reservation_pods=self.reservation_pods,
            notebooks=self.notebooks,
            training=self.training,
            server_pods=self._server_pods,
            foreign_pods=self._foreign_pods,
            now=now,
        )
        self._suspension = PodSuspension(
            agents=self.agents,
            orders=self.share_orders,
            nodes=self.cluster_nodes,
            notebooks=self.notebooks,
        )
        self.capabilities = self._make_capabilities()

    def _make_capabilities(self) -> Capabilities:
        """Return what this backend can do beyond launching and stopping; all its parts must exist."""
        return Capabilities(
            forgetful=True,
            keeps_unknown=True,
            share_label=SHARE_LABEL,
            secrets=ClusterSecrets() if self.options.user_secret else None,
            checkpoints=self.options.checkpoint_folders,
            reached_folders=tuple(volume.path for volume in self.options.shared_volumes),
            pod_preparation=self.notebooks,
            pod_lookup=self,
            images=True,
            agent_reports=KubernetesAgentReports(
                agents=self.agents,
                signal_orders=self._signal_orders,
                share_orders=self.share_orders,
                nodes=self.cluster_nodes,
                are_nodes_listed=self._node_views.synced.is_set,
                notebooks=self.notebooks,
                training=self.training,
                reservation_pods=self.reservation_pods,
                on_change=self._note_change,
            ),
            cordon=NodeCordons(
                self.cluster,
                is_cordoned=self.cluster_nodes.cordoned,
                drains=self.options.leave_cordoned,
                on_patched=lambda node: self._node_views.copy.put(node_view(node)),
            ),
            node_supply=self,
            pace=self.pace,
            strays=self._strays.find,
            warnings=self._list_warnings,
            enforcement=self.enforcement,
            resizing=self,
            suspension=self._suspension,
            ordered_signals=PodSignals(agents=self.agents, orders=self._signal_orders, pods_of=self._pods_of),
        )

    def _note_change(self) -> None:
        self._offer.mark_stale()
        self._on_change()

    # --- the backend protocol

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes of all pools, open and closed, as the last call of `observe` found them."""
        return self._offer.nodes

    async def launch(self, launch: Launch) -> None:
        """Record that this run is wanted: pods of a job are created, and devices for the pod of a notebook prepared.

        The work starts after this call returns; `observe` shows how far it is. A known run is not started again.
        """
        self._offer.mark_stale()
        if launch.workload.kind is Kind.TRAINING:
            self.training.launch(launch)
        else:
            self.notebooks.launch(launch)

    def pace(self) -> Pace:
        """Return how many tasks can be launched now, so that at most `starts_ahead` pods are wanted and not created."""
        most = self.options.starts_ahead
        return Pace(left=max(0, most - self.training.count_missing_pods()), most=most)

    async def resize(
        self, workload: Workload, detail: WorkloadDetail, environment: Mapping[str, str], grace: Seconds
    ) -> None:
        """Let the present run have one task at each place of the workload; see `backends.capabilities.RunResizing`.

        Pods that join are made as those of the launch, whose detail and environment stay.
        """
        self._offer.mark_stale()
        self.training.resize((workload.id, workload.run), workload.placement, grace)

    async def stop(self, workload: str, run: int, grace: Seconds) -> None:
        """Ask for the end of the run within `grace` seconds, and return at once; do nothing if it is gone.

        Pods of a job are deleted; a notebook is ended through the Hub.
        """
        self._offer.mark_stale()
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
        reports = [*self._suspension.watch(self.notebooks.step()), *self.training.step()]
        self.placeholders.step(lambda: self._offer.slots_in_use().keys())
        if self._offer.is_due():
            self._offer.reserve_whole_pools()
        self.reservation_pods.step()
        if self._offer.is_due():
            self._offer.update()
        return reports

    async def forget(self, workload: str, run: int) -> None:
        """Forget a run, and delete what is left of a job's run in the cluster.

        The caller must have recorded its result.
        """
        self._offer.mark_stale()
        self.training.forget((workload, run))
        self.notebooks.forget((workload, run))

    # --- the supply of nodes

    def new_nodes(self) -> tuple[NewNodes, ...]:
        """Return the nodes that can be added, one entry for each pool that grows, as the last `observe` found them."""
        return self._offer.new_nodes()

    def request_nodes(self, wanted: Mapping[str, int]) -> None:
        """Ask for this number of new nodes of each pool from the next `observe` on; 0 for pools that are not named."""
        self.placeholders.want(wanted)

    def node_request(self, pool: str) -> NodeRequest | None:
        """Return the state of the request for new nodes of that pool; None if there is no open request."""
        return self.placeholders.request_state(pool)

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

    def present_tasks(self, workload: str, run: int) -> tuple[int, ...]:
        """Return the numbers of the tasks of a job's run that were not told to leave; none if the run is unknown."""
        return self.training.present_tasks((workload, run))

    def attestation(self, workload: str, run: int, task: int) -> Attestation:
        """Return the device visibility check of the task's pod that has not ended; a notebook is its own task 0.

        Without such a pod the result is UNCHECKED.
        """
        found = [pod for pod in self._pods_of((workload, run)) if pod.task == task and not pod.finished]
        return attest(self.agents, found[0] if found else None)

    def image_of(self, ticket: str) -> str:
        """Return the image of the notebook that holds this ticket; "" when it is unknown."""
        return self.notebooks.image_of(ticket)

    def enforcement(self, pool: str) -> ShareLevel | None:
        """Return the level at which other software enforces a share of that pool; None = no other software does."""
        found = next((each for each in self.cluster_nodes.pools() if each.name == pool), None)
        return PROVIDERS[found.provider].level if found is not None else None

    def find_uses(self, workloads: Collection[str]) -> Mapping[str, ShareUse]:
        """Return what the pods of these workloads use of their devices, by workload, if all of it is known."""
        pods: dict[str, list[PodView]] = {}
        for runs in (self.notebooks, self.training):
            for run in runs.runs.values():
                if run.id in workloads:
                    pods.setdefault(run.id, []).extend(self._pods_of(run.key))
        found: dict[str, ShareUse] = {}
        for name, of_workload in pods.items():
            uses = [self._use_of(pod) for pod in of_workload if pod.slots and not pod.finished]
            known = [use for use in uses if use is not None]
            if known and len(known) == len(uses):
                found[name] = add_up(known)
        return found

    def _use_of(self, pod: PodView) -> ShareUse | None:
        """Return what a pod uses of its devices, by their slots; None if that is unknown."""

        def memory_of(uuid: str) -> MiB | None:
            device = self.agents.device(pod.node, uuid)
            return None if device is None else device.memory

        use = self.agents.use(pod.uid)
        return None if use is None else name_slots(pod, use, memory_of)

    def _list_warnings(self) -> list[str]:
        """Return what administrators should mend."""
        watches = (self._job_pods, self._server_pods, self._holding_pods)
        return list_lost_marks(pod for watch in watches for pod in watch.copy if not pod.finished)

    def _pods_of(self, key: RunKey) -> tuple[PodView, ...]:
        return (*self.notebooks.pods.of_run(key), *self.training.pods.of_run(key))

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
        ours = MarkKeeper(lambda pod: is_of_installation(pod, options.installation))
        self._job_pods = self._watch_pods(
            options.training_namespace,
            ours,
            self._noting_work(self.training.pods.apply_change),
            trim=self.training.view_pod,
        )
        self._holding_pods = self._watch_pods(options.nodes_namespace, ours, self._note_holding_pod)
        self._server_pods = self._watch_pods(
            options.hub_namespace, MarkKeeper(is_server), self._noting_work(self.notebooks.pods.apply_change)
        )
        self._node_views: Reflector[NodeView] = Reflector(
            self.cluster, NODES, trim=node_view, copy=Copy(self._noting_changes(self.cluster_nodes.apply_change))
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
                copy=Copy(others.apply_change),
            )
            watches.append(self._foreign_pods)
        return watches

    def _watch_pods(
        self,
        namespace: str,
        admit: MarkKeeper,
        note: Callable[..., None],
        trim: Callable[[JsonMapping], PodView] = pod_view,
    ) -> Reflector[PodView]:
        return Reflector(
            self.cluster, PODS, namespace=namespace, trim=trim, copy=Copy(self._noting_changes(note), admit)
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
