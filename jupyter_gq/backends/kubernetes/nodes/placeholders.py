"""Placeholder pods, which make the cluster add nodes: a pinned pod never does, so an unpinned one stands for each node.

Rules
-----
1. Number. There is one placeholder for each wanted new node, as far as the pool may grow. A placeholder asks for all
   devices of a new node, so it fits no node that is in use.
2. End. A placeholder goes if it is no longer wanted, or if its node is ready for us: then the next cycle places the
   work there. Until then nothing new goes to that node, nor to a node that has just come and that the placeholder has
   not reached yet. Otherwise other work would take the node, and the placeholder would make another come. A node that
   does not get ready is not waited for without end.
3. Back-off. After a placeholder has gone, its pool asks for no other for a while. The pause doubles as long as the
   nodes that come serve nobody.
4. Restart. Only clocks are lost in a restart: standing placeholders are read from the cluster, and what is wanted is
   said again with each decision. Until it has been said, nothing is made and nothing goes.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from jupyter_gq.backends.kubernetes.api.resources import PODS
from jupyter_gq.backends.kubernetes.api.views import PodView, pod_view
from jupyter_gq.backends.kubernetes.api.writes import CreationState, ObjectRef, Writes
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.objects.holding_pods import placeholder_pod
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.providers import PROVIDERS
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.cluster import NodeRequest
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.pod_pool import PodPool

from .agents import Agents
from .nodes import Nodes

log = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 3600.0
#: Seconds that a node may take to get ready for us once its devices can be asked for.
_READY_TIMEOUT = 60.0
#: Seconds for which a node that has just come is left to the placeholder that made it come.
_FRESH = 10.0


@dataclass(kw_only=True, slots=True)
class _Pool:
    """The placeholders of one pool."""

    wanted: int = 0
    #: The time before which nothing more is asked for.
    again_at: float = 0.0
    #: Length of the next pause.
    pause: float = _FIRST_PAUSE
    #: Why the cluster refuses the request itself.
    refusal: str = ""
    #: Placeholders by uid, ending ones included.
    pods: dict[str, PodView] = field(default_factory=dict)


class Placeholders:
    """The placeholders of all pools."""

    def __init__(
        self,
        options: KubernetesOptions,
        *,
        writes: Writes,
        agents: Agents,
        nodes: Nodes,
        on_created: Callable[[PodView], None],
        now: Callable[[], float],
    ) -> None:
        """Begin without placeholders; `on_created` is given each pod that was made, before the watch shows it."""
        self._options, self._writes, self._agents, self._nodes = options, writes, agents, nodes
        self._on_created, self._now = on_created, now
        self._pools: defaultdict[str, _Pool] = defaultdict(_Pool)
        #: Since when each stands on a node, on our own clock.
        self._bound_at: dict[str, float] = {}
        #: Uids of placeholders that were told to go.
        self._going: set[str] = set()
        #: Since when nodes of pools that grow have offered devices.
        self._came_at: dict[str, float] = {}
        #: Nodes that a placeholder has stood on.
        self._reached: set[str] = set()
        #: True once the wanted nodes have been said.
        self._told = False

    # --- what others ask

    def want(self, wanted: Mapping[str, int]) -> None:
        """Set how many new nodes of each pool would serve somebody now; pools that are not named need none.

        If fewer are wanted than before, the next back-off of the pool is short again.
        """
        self._told = True
        for name in {*self._pools, *wanted}:
            pool, count = self._pools[name], wanted.get(name, 0)
            if count < pool.wanted:  # somebody was served, or has gone
                pool.pause = _FIRST_PAUSE
            pool.wanted = count

    def request_state(self, pool: str) -> NodeRequest | None:
        """Return the state of the request for new nodes of a pool; None if no placeholder stands or was refused."""
        asking = self._pools.get(pool)
        if asking is None:
            return None
        standing = self._standing(asking)
        waiting = [pod for pod in standing if not pod.node]
        arriving = min((pod.node for pod in standing if pod.node), default="")
        if waiting:
            oldest = min(waiting, key=lambda pod: (pod.created, pod.name))
            return NodeRequest(since=_instant(oldest.created), sentence=oldest.unschedulable, arriving=arriving)
        if arriving or asking.refusal:
            return NodeRequest(sentence=asking.refusal, arriving=arriving)
        return None

    def arriving(self) -> frozenset[str]:
        """Return the nodes that are not ready for us yet: a placeholder stands on them, or will in a moment."""
        return frozenset(node for name, asking in self._pools.items() for node in self._arriving(name, asking))

    def _arriving(self, pool: str, asking: _Pool) -> list[str]:
        standing = self._standing(asking)
        held = [pod.node for pod in standing if pod.node]
        on_their_way = len(standing) - len(held)
        if not on_their_way:
            return held
        since, others = self._now() - _FRESH, [n for n in self._nodes.of_pool(pool) if n not in self._reached]
        return [*held, *[node for node in others if self._came_at.get(node, since) > since][:on_their_way]]

    def standing(self, pool: str) -> int:
        """Return how many placeholders of the pool stand: one for each requested node that is not ready yet."""
        return len(self._standing(self._pools[pool])) if pool in self._pools else 0

    def apply_change(self, before: PodView | None, after: PodView | None) -> None:
        """Record a change of a placeholder: None means that it did not exist before, or is gone. Ignore any other pod.

        If a placeholder has gone that was not told to, its pool asks for no other for a while.
        """
        pod = after or before
        assert pod is not None
        name = pod.annotations.get(names.GROWS, "")
        if not name:
            return
        pool = self._pools[name]
        if before is not None and (after is None or after.uid != before.uid):
            self._gone(pool, before)
        if after is not None:
            pool.pods[after.uid] = after
            if after.node:
                self._bound_at.setdefault(after.uid, self._now())
                self._reached.add(after.node)

    def restart_clocks(self) -> None:
        """Count from now how long placeholders on a node have waited for it to get ready.

        While the API server was away, no node could.
        """
        self._bound_at = dict.fromkeys(self._bound_at, self._now())

    # --- what is to be done

    def step(self, used: Callable[[], Collection[str]]) -> None:
        """Delete the placeholders whose node is ready or that are not wanted, and create missing ones.

        Nothing happens before `want`. `used` returns the nodes that work of ours is on, or goes to.
        """
        growing = {pool.name: pool for pool in self._nodes.pools() if pool.scale_up is not None}
        self._look_who_came(growing)
        for name, asking in list(self._pools.items()) if self._told else ():
            self._let_go(asking, growing.get(name), used)
            if name in growing:
                self._ask(asking, growing[name], used)
            elif not asking.pods:
                del self._pools[name]

    def _look_who_came(self, growing: Collection[str]) -> None:
        offering = [node for name in growing for node in self._nodes.of_pool(name) if self._nodes.slots(node)]
        # Nodes that are there at the start have not just come.
        since = self._now() if self._told else self._now() - _FRESH
        self._came_at = {node: self._came_at.get(node, since) for node in offering}
        self._reached.intersection_update(self._nodes.names())

    def _let_go(self, asking: _Pool, pool: PodPool | None, used: Callable[[], Collection[str]]) -> None:
        for pod in asking.pods.values():
            if pod.finished and pod.uid not in self._going:
                # Evicted, or not admitted by its node: the pod asks for nothing, and its name is in the way.
                self._pause(asking, _FIRST_PAUSE)
                self._going.add(pod.uid)
            if pod.uid in self._going:
                self._writes.delete(ObjectRef.of_pod(pod))
        for pod in self._standing(asking):
            if pod.node and pool is not None and self._is_ready(pod, pool, used):
                log.info("a node came: pool=%s node=%s; its placeholder %s goes", pool.name, pod.node, pod.name)
                self._pause(asking, asking.pause)
                asking.pause = min(_LONGEST_PAUSE, asking.pause * 2)
                self._delete(pod)
        # Placeholders whose node has come stay the longest.
        standing = sorted(self._standing(asking), key=lambda pod: (not pod.node, pod.name))
        for pod in standing[asking.wanted if pool is not None else 0 :]:
            log.info("the placeholder %s goes: no new node is needed for it any more", pod.name)
            self._pause(asking, _FIRST_PAUSE)
            self._delete(pod)

    def _ask(self, asking: _Pool, pool: PodPool, used: Callable[[], Collection[str]]) -> None:
        missing = asking.wanted - len(self._standing(asking))
        if missing <= 0 or self._now() < asking.again_at:
            return
        taken = {pod.name for pod in asking.pods.values()}
        numbers = range(asking.wanted + len(taken))
        free = [number for number in numbers if names.placeholder_name(pool.name, number) not in taken]
        not_on = self._with_room(pool, used)
        refusals = (self._make(pool, number, not_on) for number in free[:missing])
        asking.refusal = next((refusal for refusal in refusals if refusal), "")
        if asking.refusal:
            self._pause(asking, asking.pause)
            asking.pause = min(_LONGEST_PAUSE, asking.pause * 2)

    def _make(self, pool: PodPool, number: int, not_on: Collection[str]) -> str:
        """Request the creation of a placeholder; return why that was refused, or ""."""
        name = names.placeholder_name(pool.name, number)
        pod = ObjectRef(resource=PODS, namespace=self._options.nodes_namespace, name=name)
        creation = self._writes.create(pod, lambda: placeholder_pod(pool, number, self._options, not_on), self._made)
        if creation.state is CreationState.REFUSED:
            self._writes.forget_creation(pod)
            return creation.sentence
        return ""

    def _with_room(self, pool: PodPool, used: Callable[[], Collection[str]]) -> list[str]:
        """Return the present nodes that are as free as a new one, so that a placeholder must not go there.

        A node can be free because part of a gang may go there, or because it takes nothing now.
        """
        assert pool.scale_up is not None
        taken = self.arriving() | frozenset(used())
        here = [name for name in self._nodes.of_pool(pool.name) if name not in taken and self._nodes.ready(name)]
        return [name for name in here if len(self._nodes.slots(name)) >= pool.scale_up.gpus]

    def _is_ready(self, pod: PodView, pool: PodPool, used: Callable[[], Collection[str]]) -> bool:
        """Return True if work is on the placeholder's node or can be placed there, or if that takes too long."""
        if self._now() - self._bound_at.get(pod.uid, self._now()) >= _READY_TIMEOUT or pod.node in used():
            return True
        if not self._nodes.ready(pod.node) or not self._nodes.slots(pod.node):
            return False
        return not (PROVIDERS[pool.provider].needs_agent and self._agents.unfit(pod.node))

    def _standing(self, asking: _Pool) -> list[PodView]:
        return [p for p in asking.pods.values() if not (p.terminating or p.finished or p.uid in self._going)]

    def _pause(self, asking: _Pool, seconds: float) -> None:
        asking.again_at = max(asking.again_at, self._now() + seconds)

    def _delete(self, pod: PodView) -> None:
        self._going.add(pod.uid)
        self._writes.delete(ObjectRef.of_pod(pod))

    def _made(self, pod: JsonObject) -> None:
        meta = pod["metadata"]
        log.info("a new node is asked for: pool=%s pod=%s", meta["annotations"][names.GROWS], meta["name"])
        self._on_created(pod_view(pod))

    def _gone(self, asking: _Pool, pod: PodView) -> None:
        asking.pods.pop(pod.uid, None)
        self._bound_at.pop(pod.uid, None)
        self._writes.forget_deletion(pod.uid)
        self._writes.forget_creation(ObjectRef.of_pod(pod))
        if pod.uid in self._going:
            self._going.discard(pod.uid)
        else:  # preempted, or deleted by somebody
            self._pause(asking, _FIRST_PAUSE)


def _instant(text: str) -> Instant:
    """Return a time that the API server wrote, in seconds since the epoch."""
    return Instant(datetime.fromisoformat(text).timestamp())
