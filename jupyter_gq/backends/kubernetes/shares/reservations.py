"""Devices that are held for shares: a state for each slot, derived from its pods and from what the agents tell.

    WANTED -> BOUND -> HELD(uuid) -> RELEASING -> gone

Rules
-----
1. Nothing is remembered that a restart would lose but clocks (see `slots`).
2. A slot is wanted as long as a run claims it, a pod of work that has not ended names a device for it, or its pool
   keeps all devices. Nobody need know the run of that pod: it may be of an older store, or on a node that was lost. The
   slot's own pod is let go `linger` seconds after it was last wanted (at once where the node is cordoned and the slot
   was wanted before our eyes), and is gone when the API server *and* the kubelet have forgotten it.
3. Not HELD in time: the pod goes, the node backs off, and the runs that were waiting are refused.
4. Where shares run on a device whose reservation is gone, new ones are made until one gets that device, at most as many
   as the node has. If the kubelet has given it to somebody else, the slot's runs are told.
5. A device on which the shares of one slot run is given to no other slot. If the pod of another was given it, that pod
   holds it for the slot whose shares run there, and the other one gets a further pod.
6. No pod is deleted whose device a share names.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from itertools import count

from jupyter_gq.backends.kubernetes.api.resources import PODS
from jupyter_gq.backends.kubernetes.api.views import PodView, pod_view
from jupyter_gq.backends.kubernetes.api.writes import CreationState, ObjectRef, Writes
from jupyter_gq.backends.kubernetes.nodes.agents import Agents
from jupyter_gq.backends.kubernetes.nodes.nodes import Nodes
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.objects.holding_pods import reservation_pod
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.pods.index import RunKey
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.pod_pool import PodPool

from .slots import Claim, Slot, Slots, SlotState

log = logging.getLogger(__name__)


class Reservations:
    """The slots of all nodes that are held, shall be held or were."""

    def __init__(
        self,
        options: KubernetesOptions,
        *,
        writes: Writes,
        agents: Agents,
        nodes: Nodes,
        take: Callable[[PodView], None],
        now: Callable[[], float],
    ) -> None:
        """`take` is given each pod that was made, before the watch shows it."""
        self._options, self._writes, self._agents, self._nodes, self._now = options, writes, agents, nodes, now
        self._take = take
        self._slots = Slots(options, agents=agents, nodes=nodes)
        #: Runs that will not get a device of theirs, or have lost one.
        self.failing: set[RunKey] = set()

    # --- what others ask

    def claim(self, name: str, pool: PodPool, key: RunKey, device: str = "") -> Claim:
        """That run wants the slot's device; `device`: the one that its pod has already."""
        slot = self._slots.of(name)
        slot.pool = pool
        claim = slot.claims.setdefault(key, Claim(key=key))
        if device:
            claim.device = device
        return claim

    def tell(self, name: str, key: RunKey, device: str) -> None:
        """The pod of that run will name this device, whatever happens until it is made."""
        claim = self._claim(name, key)
        if claim is not None:
            claim.told = device

    def told(self, name: str, key: RunKey) -> str:
        """The device that the pod of that run was told to name; "" = none."""
        claim = self._claim(name, key)
        return claim.told if claim is not None else ""

    def release(self, name: str, key: RunKey) -> None:
        """That run does not want it any more."""
        slot = self._slots.get(name)
        if slot is not None:
            slot.claims.pop(key, None)
        self.failing.discard(key)

    def failure(self, name: str, key: RunKey) -> str:
        """Why that run will not get the slot's device, or has lost it; "" = it may, or has."""
        claim = self._claim(name, key)
        return claim.failure if claim is not None else ""

    def held(self, name: str) -> Device | None:
        """The device that is held for that slot; None while there is none, or not the right one."""
        slot = self._slots.get(name)
        return None if slot is None else self._slots.held(slot)

    def state(self, name: str) -> SlotState:
        """How far that slot is."""
        slot = self._slots.get(name)
        return SlotState.FREE if slot is None else self._slots.state(slot)

    def waiting_for(self, name: str) -> str:
        """What is being waited for, as a sentence; "" = nothing."""
        slot = self._slots.get(name)
        return slot.sentence if slot is not None else ""

    def free(self, name: str) -> bool:
        """Nothing of ours holds the slot's device; what lingers there is let go at once."""
        slot = self._slots.get(name)
        if slot is None:
            return True
        slot.urgent = True
        if self._slots.occupied(slot):
            slot.sentence = f"Waits until the reservation of {name} is gone."
            return False
        return True

    def waits_for_agent(self, node: str) -> bool:
        """Some slot there goes on as soon as the agent has said what the kubelet holds."""
        return any(
            names.node_of(slot.name) == node and (slot.asked_at is not None or slot.gone_at is not None)
            for slot in self._slots
        )

    def ours(self, namespace: str, pod: str) -> bool:
        """It is a reservation, or was one."""
        return namespace == self._options.nodes_namespace and pod.startswith("gq-res-")

    def keep(self, slots: Collection[str], pool_of: Callable[[str], PodPool | None]) -> None:
        """These slots are held all the time, and no others."""
        for name in slots:
            slot = self._slots.of(name)
            slot.always, slot.pool = True, pool_of(names.node_of(name)) or slot.pool
        for slot in self._slots:
            if slot.always and slot.name not in slots:
                slot.always = False

    def saw(self, before: PodView | None, after: PodView | None) -> None:
        """A reservation pod changed."""
        pod = after or before
        assert pod is not None
        name = pod.annotations.get(names.SLOT, "")
        if not name:
            return
        slot = self._slots.of(name)
        if after is not None:
            self._slots.first_seen.setdefault(after.uid, self._now())
        if after is not None and (before is None or before.uid == after.uid):
            slot.pods[after.uid] = after
            slot.gone_at = None
            return
        if before is not None:
            slot.pods.pop(before.uid, None)
            self._slots.first_seen.pop(before.uid, None)
            self._slots.ending.discard(before.uid)
            self._writes.forget_deletion(before.uid)
            self._writes.forget_creation(ObjectRef.of_pod(before))
            slot.gone_at = self._now()
        if after is not None:
            slot.pods[after.uid] = after

    def saw_work(self, before: PodView | None, after: PodView | None) -> None:
        """A pod of work changed: until it has ended, the devices that it names are in use, whoever knows of its run."""
        self._slots.saw_work(before, after)

    def restart_clocks(self) -> None:
        """The API server was away: nobody could be in time."""
        now = self._now()
        for slot in self._slots:
            slot.asked_at = None if slot.asked_at is None else now
            slot.idle_since = None if slot.idle_since is None else now

    def _claim(self, name: str, key: RunKey) -> Claim | None:
        slot = self._slots.get(name)
        return slot.claims.get(key) if slot is not None else None

    # --- what is to be done

    def step(self) -> None:
        """Do for each slot what is next."""
        for slot in self._slots:
            if slot.pool is None:  # pods may be seen before their node is
                slot.pool = self._nodes.pool(names.node_of(slot.name))
            self._step(slot)
            if not slot.wanted and not slot.pods and not self._slots.occupied(slot):
                self._slots.forget(slot)

    def _step(self, slot: Slot) -> None:
        for pod in slot.pods.values():
            # Evicted, or not admitted by its node: it holds nothing, and its name is in the way.
            if pod.uid in self._slots.ending or (pod.finished and not pod.terminating):
                self._delete(pod)
        if not slot.wanted:
            slot.asked_at = None
            self._let_go(slot)
            return
        slot.idle_since, slot.urgent, slot.known = None, False, True
        if self._slots.held(slot) is not None:
            slot.asked_at, slot.sentence = None, ""
            self._all_is_well(slot)
            self._drop_extras(slot)
            return
        now = self._now()
        pool = self._slots.pool(slot)
        if pool is None or now < slot.again_at or self._is_kept_unseen(slot):
            return
        slot.asked_at = now if slot.asked_at is None else slot.asked_at
        refusal = self._make_next(slot, pool)
        slot.sentence = refusal or self._slots.describe(slot)
        if refusal or now - slot.asked_at >= self._options.reservation_timeout:
            self._fail(slot, slot.sentence, back_off=not refusal)

    def _is_kept_unseen(self, slot: Slot) -> bool:
        """A pod holds a device for it, which one is not said at present, and nobody waits for that."""
        if not any(pod.phase == "Running" for pod in self._slots.standing(slot)):
            return False
        if any(self._slots.uuid(slot, pod) for pod in slot.pods.values()):
            return False
        slot.sentence = self._slots.describe(slot)
        return bool(slot.right) or not slot.claims

    def _let_go(self, slot: Slot) -> None:
        now = self._now()
        slot.idle_since = now if slot.idle_since is None else slot.idle_since
        # Who drains a node waits for its reservations.
        at_once = slot.urgent or (slot.known and self._nodes.cordoned(names.node_of(slot.name)))
        if at_once or now - slot.idle_since >= self._options.linger:
            self._drop(slot, slot.pods.values())

    def _drop_extras(self, slot: Slot) -> None:
        """Keep the pod that holds the right device, and no other."""
        keeper = self._slots.holder(slot)
        assert keeper is not None
        self._drop(slot, [pod for pod in self._slots.standing(slot) if pod.uid != keeper.uid])

    def _drop(self, slot: Slot, pods: Iterable[PodView]) -> None:
        """Delete those on whose device nothing runs."""
        for pod in pods:
            if self._slots.spare(slot, pod):
                self._delete(pod)

    def _all_is_well(self, slot: Slot) -> None:
        """Its device is held: whoever was told otherwise may forget that."""
        for claim in slot.claims.values():
            if claim.failure:
                claim.failure = ""
                if not any(self.failure(each.name, claim.key) for each in self._slots):
                    self.failing.discard(claim.key)

    def _make_next(self, slot: Slot, pool: PodPool) -> str:
        """Make a pod if one is missing; return why that was refused."""
        pods = [pod for pod in slot.pods.values() if not self._slots.lent(slot, pod)]
        if any(self._slots.ends(pod) or pod.finished for pod in pods) or self._slots.kubelet_remembers(slot):
            return ""
        wrong = [pod for pod in pods if self._slots.uuid(slot, pod) and not self._slots.serves(slot, pod)]
        if len(wrong) < len(pods):
            return ""
        if pods and len(pods) >= len(self._nodes.slots(names.node_of(slot.name))):
            return ""
        taken = {pod.name for pod in slot.pods.values()}
        number = next(n for n in count() if names.reservation_name(slot.name, n) not in taken)
        name = names.reservation_name(slot.name, number)
        pod = self._ref(name)
        creation = self._writes.create(
            pod,
            lambda: reservation_pod(slot.name, pool, self._options, number),
            lambda made: self._take(pod_view(made)),
        )
        if creation.state is CreationState.REFUSED:
            self._writes.forget_creation(pod)
            return creation.sentence
        return ""

    def _fail(self, slot: Slot, sentence: str, *, back_off: bool) -> None:
        node = names.node_of(slot.name)
        taken = self._slots.taken(slot)
        if taken:
            sentence = f"The device {slot.right} on which its shares run is held by somebody else."
        told = f"{slot.name} could not be held: {sentence}"
        log.warning("reservation failed: slot=%s %s", slot.name, sentence)
        if back_off:
            self._nodes.back_off.add(node, told)
        slot.again_at = max(self._nodes.back_off.until(node), self._now() + self._options.unschedulable_after)
        slot.asked_at = None
        self._forget_unseen(slot)
        for claim in slot.claims.values():
            # Who runs already goes on, unless his device is in other hands.
            if not claim.device or taken:
                claim.failure = told
                self.failing.add(claim.key)
        self._drop(slot, [pod for pod in slot.pods.values() if not self._slots.serves(slot, pod)])

    def _forget_unseen(self, slot: Slot) -> None:
        """What was made and is not there may be made again: it may have gone before anybody saw it."""
        seen = {pod.name for pod in slot.pods.values()}
        for number in range(len(slot.pods) + 1):
            if (name := names.reservation_name(slot.name, number)) not in seen:
                self._writes.forget_creation(self._ref(name))

    def _ref(self, name: str) -> ObjectRef:
        return ObjectRef(resource=PODS, namespace=self._options.nodes_namespace, name=name)

    def _delete(self, pod: PodView) -> None:
        self._slots.ending.add(pod.uid)
        self._writes.delete(ObjectRef.of_pod(pod))
