"""Notebooks and training as pods: the backend that the controller speaks to. See `backends.protocol.Backend`.

Rules
-----
1. Nothing is kept on disk: what there is, is in the cluster; what is wanted, the controller says again after a restart.
2. `launch` and `stop` note an intent and return at once; each look does what is next.
3. While the API server cannot be watched, nothing is known: `observe` raises, and nothing is started or ended.
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
from .shares.places import Places
from .shares.reservations import Reservations

if TYPE_CHECKING:
    from .api.cluster import Cluster

_Watch = Reflector[NodeView] | Reflector[PodView] | Reflector[Claims]
log = logging.getLogger(__name__)

#: Seconds after which it is reckoned anew what is offered, although nothing is known to have changed.
_OFFER_EVERY = 2.0


class KubernetesRuns:
    """Runs notebooks and training as pods; see the module."""

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
        """`pools`: the pools in force; `stopper` ends servers; `on_change` is called when something has changed."""
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
        self._writes = Writes(cluster, creations=options.creations, now=now, done=self._changed)
        self.reservations = Reservations(
            options,
            writes=self._writes,
            agents=self.agents,
            nodes=self.cluster_nodes,
            take=lambda pod: self._held.copy.put(pod),
            now=now,
        )
        self.placeholders = Placeholders(
            options,
            writes=self._writes,
            agents=self.agents,
            nodes=self.cluster_nodes,
            take=lambda pod: self._held.copy.put(pod),
            now=now,
        )
        places = Places(nodes=self.cluster_nodes, agents=self.agents, reservations=self.reservations)
        self.notebooks = NotebookRuns(options, stopper=stopper, places=places, nodes=self.cluster_nodes, clocks=clocks)
        self._strays = Strays(self.notebooks.pods, self.notebooks.runs, now)
        self.training = TrainingRuns(
            options, writes=self._writes, places=places, nodes=self.cluster_nodes, take=self._take, clocks=clocks
        )
        self._watches = self._reflectors()
        self._opened = False
        #: The API server was away at the last look.
        self._was_away = False
        self._nodes: tuple[Node, ...] = ()
        #: None: nobody has looked yet.
        self._new_nodes: tuple[NewNodes, ...] | None = None
        #: What is offered may have changed since it was reckoned, at `_offered_at`.
        self._stale, self._offered_at = True, 0.0
        self.capabilities = Capabilities(
            forgetful=True,
            keeps_unknown=True,
            share_label=SHARE_LABEL,
            pod_preparation=self,
            pod_lookup=self,
            agent_reports=self,
            node_supply=self,
            pace=self.pace,
            strays=self._strays.look,
            enforcement=self.enforcement,
        )

    def _changed(self) -> None:
        self._stale = True
        self._on_change()

    # --- the protocol

    def nodes(self) -> tuple[Node, ...]:
        """The nodes of all pools, as of the last look."""
        return self._nodes

    async def launch(self, launch: Launch) -> None:
        """From now on it is wanted. Whatever comes of it is seen by `observe`."""
        self._stale = True
        if launch.workload.kind is Kind.TRAINING:
            self.training.launch(launch)
        else:
            self.notebooks.launch(launch)

    def pace(self) -> Pace:
        """Jobs may be started until so many pods are wanted that are not made yet."""
        most = self.options.starts_ahead
        return Pace(left=max(0, most - self.training.unmade()), most=most)

    async def stop(self, workload: str, run: int, grace: Seconds) -> None:
        """It shall end within `grace` seconds. No error if it is gone."""
        self._stale = True
        self.training.stop((workload, run), grace)
        self.notebooks.stop((workload, run), grace)

    async def observe(self) -> Sequence[Observation]:
        """All runs; raises `BackendError` while the cluster cannot be seen."""
        await self.open()
        failure = next((watch.failure for watch in self._watches if watch.failure), "")
        if failure:
            self._was_away = True
            raise BackendError(failure)
        if self._was_away:
            self._was_away = False
            for part in (self.cluster_nodes, self.reservations, self.placeholders, self.training, self.notebooks):
                part.restart_clocks()
        seen = [*self.notebooks.step(), *self.training.step()]
        self.placeholders.step(lambda: self._used().keys())
        if self._stale or self._now() >= self._offered_at + _OFFER_EVERY:
            self._hold_whole_pools()
        self.reservations.step()
        if self._stale or self._now() >= self._offered_at + _OFFER_EVERY:
            self._stale, self._offered_at = False, self._now()
            self._offer()
        return seen

    async def forget(self, workload: str, run: int) -> None:
        """The end of that run is recorded: what is left of it goes."""
        self._stale = True
        self.training.forget((workload, run))
        self.notebooks.forget((workload, run))

    # --- a cluster that grows

    def new_nodes(self) -> tuple[NewNodes, ...]:
        """What may still come, as of the last look."""
        if self._new_nodes is None:
            self._new_nodes = new_nodes(self.cluster_nodes, self.placeholders)
        return self._new_nodes

    def request_nodes(self, wanted: Mapping[str, int]) -> None:
        """So many new nodes of each pool would serve somebody now: the next look sees to that."""
        self.placeholders.want(wanted)

    def node_request(self, pool: str) -> NodeRequest | None:
        """What became of that; None = nothing has been asked for yet."""
        return self.placeholders.asked_for(pool)

    # --- pods of notebooks, and who speaks

    def pod_additions(self, workload: str, run: int) -> PodAdditions | None:
        """What a spawner merges into its pod; None while the devices are being prepared."""
        return self.notebooks.pod((workload, run))

    def named_devices(self, workload: str, run: int) -> dict[str, str]:
        """The devices that its pod was told to name, by slot."""
        return self.notebooks.named((workload, run))

    def describe_preparation(self, workload: str, run: int) -> str:
        """What is being waited for, in one sentence; "" when nothing is."""
        return self.notebooks.preparing((workload, run))

    def enforcement(self, pool: str) -> str:
        """How strongly a share of a device of that pool is enforced; "" = not known."""
        found = next((each for each in self.cluster_nodes.pools() if each.name == pool), None)
        return PROVIDERS[found.provider].level if found is not None else ""

    async def release(self, workload: str, run: int) -> None:
        """Its spawner gave it back and ends the pod itself."""
        self.notebooks.release((workload, run))

    def find_task(self, workload: str, run: int, identity: PodIdentity) -> int | None:
        """The number of the task that this pod is; None when it is none of that run.

        Raises `BackendError` when that cannot be known now: the cluster vouches for a pod that was not seen yet.
        """
        if not self._jobs.synced.is_set() or self._jobs.failure or self.training.pods.by_uid(identity.uid) is None:
            raise BackendError(f"The pod {identity.pod} has not been seen yet. Try again in a moment.")
        ours = (identity.namespace, identity.service_account) == (
            self.options.training_namespace,
            names.RUNNER_ACCOUNT,
        )
        found = [pod for pod in self.training.pods.of_run((workload, run)) if pod.uid == identity.uid]
        return found[0].task if ours and found else None

    def attestation(self, workload: str, run: int, task: int) -> Attestation:
        """Whether that task was seen to have just its own devices."""
        found = [pod for pod in self._pods_of((workload, run)) if pod.task == task and not pod.finished]
        return attest(self.agents, found[0] if found else None)

    def image_of(self, ticket: str) -> str:
        """The image of the notebook that holds this ticket."""
        return self.notebooks.image_of(ticket)

    def usage(self, workload: str) -> ShareUse | None:
        """What the pods of its present run do on their devices; None = not all of that is known."""
        keys = [run.key for runs in (self.notebooks, self.training) for run in runs.runs.values() if run.id == workload]
        pods = [pod for key in keys for pod in self._pods_of(key)]
        uses = [self.agents.use(pod.uid) for pod in pods if pod.slots and not pod.finished]
        known = [use for use in uses if use is not None]
        return _sum(known) if known and len(known) == len(uses) else None

    # --- agents

    def accept_report(self, node: str, report: AgentReport) -> AgentOrders:
        """Take in what the agent of that node sees; answer which pods it shall look at."""
        if self._all_nodes.synced.is_set() and node not in self.cluster_nodes.names():
            # A last word of a node that is gone: nothing of it would ever be forgotten.
            return AgentOrders()
        # It speaks for its own node only: of pods of others, and of what is not ours, nothing is believed.
        own = [share for share in report.shares if (pod := self._pod(share.pod_uid)) is not None and pod.node == node]
        report = report.model_copy(update={"shares": own})
        news = self.agents.is_news(node, report)
        wrong = self.agents.hear(node, report, self._given)
        for uid in wrong:
            self._stop_mismatched(uid)
        # Hundreds of nodes say every few seconds that their shares still work.
        if news or wrong or self.reservations.waits_for_agent(node):
            self._changed()
        return self.orders(node)

    def orders(self, node: str) -> AgentOrders:
        """What its agent shall look at now."""
        return AgentOrders(watch=self._watched(node))

    def _watched(self, node: str) -> list[WatchedPod]:
        pods = [
            pod
            for index in (self.notebooks.pods, self.training.pods)
            for pod in index.on_node(node)
            # Also those that were given no device: they shall see none.
            if pod.phase == "Running"
        ]
        return [
            WatchedPod(
                pod_uid=pod.uid, namespace=pod.namespace, pod=pod.name, devices=sorted(self._given(pod.uid) or ())
            )
            for pod in sorted(pods, key=lambda each: each.key)
        ]

    def _pods_of(self, key: RunKey) -> tuple[PodView, ...]:
        return (*self.notebooks.pods.of_run(key), *self.training.pods.of_run(key))

    def _pod(self, uid: str) -> PodView | None:
        return self.notebooks.pods.by_uid(uid) or self.training.pods.by_uid(uid)

    def _given(self, uid: str) -> frozenset[str] | None:
        """The devices of a pod: as we named them, else as the kubelet says; None = not known."""
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
        """It sees devices that are not its own, or not those that are."""
        pod = self._pod(uid)
        if pod is None or pod.terminating:
            return
        log.error(
            "DEVICE_MISMATCH: the pod %s on %s does not see just its own devices; it is stopped", pod.name, pod.node
        )
        self.cluster_nodes.mistrust.add(pod.node, f"the pod {pod.name} did not see just its own devices")
        for runs in (self.training, self.notebooks):
            runs.fail(runs.pods.key(pod), MISMATCH)

    # --- watching

    async def open(self) -> None:
        """Begin to watch; waits until everything was listed once, for `request_timeout` seconds at most."""
        if not self._opened:
            self._opened = True
            for watch in self._watches:
                watch.start()
        waiting = [watch.synced.wait() for watch in self._watches if not watch.synced.is_set()]
        if waiting:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.options.request_timeout):
                    await asyncio.gather(*waiting)

    async def close(self) -> None:
        """Stop watching; what runs in the cluster is left as it is."""
        for watch in self._watches:
            watch.end()
        await self._writes.close()
        await self.notebooks.close()
        self.cluster.close()

    def _reflectors(self) -> list[_Watch]:
        options = self.options
        ours = {"labelSelector": f"{names.INSTALLATION}={options.installation}"}
        self._jobs = self._pods(options.training_namespace, ours, self._work(self.training.pods.apply_change))
        self._held = self._pods(options.nodes_namespace, ours, self._saw_pause_pod)
        servers = {"labelSelector": names.WORKLOAD}
        self._servers = self._pods(options.hub_namespace, servers, self._work(self.notebooks.pods.apply_change))
        watched: Reflector[NodeView] = Reflector(
            self.cluster, NODES, trim=node_view, changed=self._then_wake(self.cluster_nodes.saw)
        )
        self._all_nodes = watched
        watches: list[_Watch] = [watched, self._held, self._jobs, self._servers]
        self._others: Reflector[Claims] | None = None
        if options.observe_all_pods:
            others = Others()
            self.cluster_nodes.used_by_others = others.on
            self._others = Reflector(
                self.cluster,
                PODS,
                query=QUERY,
                trim=lambda pod: claims_of(pod, options.installation),
                changed=others.saw,
            )
            watches.append(self._others)
        return watches

    def _pods(self, namespace: str, query: dict[str, str], saw: Callable[..., None]) -> Reflector[PodView]:
        return Reflector(
            self.cluster, PODS, namespace=namespace, query=query, trim=pod_view, changed=self._then_wake(saw)
        )

    def _work(self, saw: Callable[..., None]) -> Callable[..., None]:
        def told(before: PodView | None, after: PodView | None) -> None:
            saw(before, after)
            self.reservations.saw_work(before, after)

        return told

    def _then_wake(self, saw: Callable[..., None]) -> Callable[..., None]:
        def told(before: PodView | NodeView | None, after: PodView | NodeView | None) -> None:
            saw(before, after)
            # A node's heartbeat changes its version and nothing else.
            if before != after:
                self._changed()

        return told

    def _saw_pause_pod(self, before: PodView | None, after: PodView | None) -> None:
        self.reservations.saw(before, after)
        self.placeholders.saw(before, after)

    def _take(self, pod: PodView) -> None:
        """A pod that was just made: known before the watch shows it."""
        self._jobs.copy.put(pod)

    # --- offering

    def _hold_whole_pools(self) -> None:
        """Pools that keep all of their devices."""
        arriving = self.placeholders.arriving()
        kept = [
            slot
            for name in list(self.cluster_nodes.names())
            if name not in arriving
            and (pool := self.cluster_nodes.pool(name)) is not None
            and PROVIDERS[pool.provider].needs_reservation(pool, whole=True)
            and self.cluster_nodes.ready(name)
            for slot in self.cluster_nodes.slots(name)
        ]
        self.reservations.keep(set(kept), self.cluster_nodes.pool)

    def _offer(self) -> None:
        nodes = self.cluster_nodes
        arriving = {slot for node in self.placeholders.arriving() for slot in nodes.slots(node)}
        blocked = self.training.blocked() | self.notebooks.blocked() | arriving
        used = self._used()
        nodes.keep(used.keys() | self.notebooks.pods.nodes() | self.training.pods.nodes())
        self._nodes = nodes.offered(used, blocked, self._ours, self._shared())
        self._new_nodes = new_nodes(nodes, self.placeholders)

    def _used(self) -> dict[str, set[str]]:
        """Slots of work that has not ended, by node."""
        used: dict[str, set[str]] = {}
        for part in (self.notebooks.slots_in_use(), self.training.slots_in_use()):
            for node, slots in part.items():
                used.setdefault(node, set()).update(slots)
        return used

    def _shared(self) -> dict[str, int]:
        """By node, on how many slots pods of ours have a share, where that makes a difference."""
        if not any(PROVIDERS[pool.provider].holds_devices for pool in self.cluster_nodes.pools()):
            return {}
        slots: dict[str, set[str]] = {}
        for part in (self.notebooks, self.training):
            for node, found in shared_slots(part.runs.values()).items():
                slots.setdefault(node, set()).update(found)
        return {node: len(found) for node, found in slots.items()}

    def _ours(self, namespace: str, pod: str) -> bool:
        """That pod is ours, or was, since others do not work in these namespaces; or it is known to have ended."""
        options = self.options
        if namespace in (options.training_namespace, options.nodes_namespace):
            return True
        if self._others is not None and self._others.copy.get(namespace, pod) is None:
            return True
        return namespace == options.hub_namespace and self._servers.copy.get(namespace, pod) is not None


def _sum(uses: Sequence[ShareUse]) -> ShareUse:
    """Of all pods of a run; one unknown makes the sum unknown."""
    memory = [use.memory for use in uses if use.memory is not None]
    work = [use.utilisation for use in uses if use.utilisation is not None]
    return ShareUse(
        memory=MiB(sum(memory)) if len(memory) == len(uses) else None,
        utilisation=max(work) if len(work) == len(uses) else None,
    )
