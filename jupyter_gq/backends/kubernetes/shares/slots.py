"""What is known of the slots whose devices are held: derived from pods and from what the agents tell.

Nothing is remembered that a restart would lose: a slot's pod has the slot's name, its device is what the kubelet says
now, and pods of work name the slots and devices on which they run, whoever knows of their runs. What a notebook's pod
was told to name before it is there comes back with its launch. Only clocks start anew, so a restart may wait longer,
never shorter.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.nodes.agents import Agents
from jupyter_gq.backends.kubernetes.nodes.nodes import Nodes
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.pods.index import RunKey
from jupyter_gq.backends.kubernetes.pods.results import find_trouble
from jupyter_gq.backends.kubernetes.providers import PROVIDERS
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.pod_pool import PodPool


class SlotState(StrEnum):
    """How far a slot's device is held."""

    FREE = "FREE"
    WANTED = "WANTED"
    BOUND = "BOUND"
    HELD = "HELD"
    RELEASING = "RELEASING"


@dataclass(kw_only=True, slots=True)
class Claim:
    """A run wants the device of a slot."""

    key: RunKey
    #: The device that its pod was given; "" = it has no pod yet.
    device: str = ""
    #: The device that its pod was told to name, once and for all; "" = none yet.
    told: str = ""
    #: Why it will not get it; "" = it may.
    failure: str = ""


@dataclass(kw_only=True, slots=True)
class Slot:
    """The device of a node that is held, shall be held or was: its pods, and who wants it."""

    name: str
    pool: PodPool | None = None
    #: By uid.
    pods: dict[str, PodView] = field(default_factory=dict)
    claims: dict[RunKey, Claim] = field(default_factory=dict)
    #: The device that each pod of work that has not ended names for it, by uid of that pod.
    work: dict[str, str] = field(default_factory=dict)
    #: Its pool keeps all devices.
    always: bool = False
    #: Since when it is wanted and not held.
    asked_at: float | None = None
    #: Since when it is not wanted.
    idle_since: float | None = None
    #: It was wanted since this process began: before that, who wants it may not have been told yet.
    known: bool = False
    #: It shall be let go at once.
    urgent: bool = False
    #: Since when no pod of it is there, after there was one; None = the kubelet has forgotten it as well.
    gone_at: float | None = None
    #: Not tried again before.
    again_at: float = 0.0
    #: What is being waited for.
    sentence: str = ""

    @property
    def wanted(self) -> bool:
        """Its device shall be held."""
        return self.always or bool(self.claims) or bool(self.work)

    @property
    def right(self) -> str:
        """The device on which its shares run, or will; "" = any will do."""
        return next((device for device in self._named() if device), "")

    def uses(self, device: str) -> bool:
        """Its shares run on that device, or will."""
        return bool(device) and device in self._named()

    def _named(self) -> Iterator[str]:
        yield from self.work.values()
        for claim in self.claims.values():
            yield claim.device
            yield claim.told


class Slots:
    """All slots that are held, shall be held or were."""

    def __init__(self, options: KubernetesOptions, *, agents: Agents, nodes: Nodes) -> None:
        self._namespace, self._installation = options.nodes_namespace, options.installation
        self._agents, self._nodes = agents, nodes
        #: When the pod of each reservation was seen first, by uid.
        self.first_seen: dict[str, float] = {}
        #: Those that somebody was asked to delete, by uid: the cluster may not have said so yet.
        self.ending: set[str] = set()
        self._by_name: dict[str, Slot] = {}
        self._by_node: defaultdict[str, dict[str, Slot]] = defaultdict(dict)

    def __iter__(self) -> Iterator[Slot]:
        return iter(list(self._by_name.values()))

    def get(self, name: str) -> Slot | None:
        """The slot of that name; None when nobody wants it and nothing of it is left."""
        return self._by_name.get(name)

    def of(self, name: str) -> Slot:
        """The same; a new one where there was none."""
        slot = self._by_name.get(name)
        if slot is None:
            slot = self._by_name[name] = Slot(name=name, pool=self._nodes.pool(names.node_of(name)))
            self._by_node[names.node_of(name)][name] = slot
        return slot

    def saw_work(self, before: PodView | None, after: PodView | None) -> None:
        """A pod of work changed: until it has ended, the devices that it names are in use."""
        for pod in (before, after):
            # Another installation beside the same hub has reservations of its own.
            if pod is None or pod.labels.get(names.INSTALLATION, self._installation) != self._installation:
                continue
            for name, device in zip(pod.slots, pod.devices, strict=False):
                if pod is after and not pod.finished:
                    self.of(name).work[pod.uid] = device
                elif (slot := self.get(name)) is not None:
                    slot.work.pop(pod.uid, None)

    def pool(self, slot: Slot) -> PodPool | None:
        """The pool by whose rules a pod is made for it; None = none is: its node is gone, or not shared like that."""
        if slot.pool is None or names.node_of(slot.name) not in self._nodes.names():
            return None
        return slot.pool if PROVIDERS[slot.pool.provider].needs_reservation(slot.pool, whole=False) else None

    def forget(self, slot: Slot) -> None:
        """Nothing of it is left."""
        del self._by_name[slot.name]
        beside = self._by_node[names.node_of(slot.name)]
        del beside[slot.name]
        if not beside:
            del self._by_node[names.node_of(slot.name)]

    def held(self, slot: Slot) -> Device | None:
        """The device that is held for it; None while there is none, or not the right one."""
        pod = self.holder(slot)
        if pod is None:
            return None
        uuid = self.uuid(slot, pod)
        return self._agents.device(pod.node, uuid) or Device(
            id=uuid, index=0, model="GPU", memory=_unknown_memory(self._nodes.model(pod.node)), pool=""
        )

    def holder(self, slot: Slot) -> PodView | None:
        """The pod that holds a device for it: its own, or that of another slot that was given its shares' device."""
        own = (pod for pod in slot.pods.values() if self.serves(slot, pod))
        found = min(own, key=lambda pod: pod.name, default=None)
        if found is not None or not slot.right:
            return found
        others = (pod for each in self._beside(slot) for pod in each.pods.values())
        return next((pod for pod in others if self.uuid(slot, pod) == slot.right), None)

    def state(self, slot: Slot) -> SlotState:
        """How far it is."""
        if slot.wanted and self.held(slot) is not None:
            return SlotState.HELD
        if slot.wanted:
            return SlotState.BOUND if any(self.standing(slot)) else SlotState.WANTED
        return SlotState.RELEASING if self.occupied(slot) else SlotState.FREE

    def ends(self, pod: PodView) -> bool:
        """It was told to go, or will be: nothing new may count on its device."""
        return pod.terminating or pod.uid in self.ending

    def standing(self, slot: Slot) -> Iterator[PodView]:
        """The slot's pods that were not told to go."""
        return (pod for pod in slot.pods.values() if not self.ends(pod))

    def occupied(self, slot: Slot) -> bool:
        """Something of ours holds its device, or may."""
        return any(not self.lent(slot, pod) for pod in slot.pods.values()) or self.kubelet_remembers(slot)

    def uuid(self, slot: Slot, pod: PodView) -> str:
        """The device that this pod holds, if the kubelet names exactly one."""
        if pod.phase != "Running" or self.ends(pod) or slot.pool is None:
            return ""
        told = self._agents.told_at(pod.node)
        if told is None or told < self.first_seen.get(pod.uid, told):
            # The kubelet speaks of names: what it said before this pod was there is of an older one of its name.
            return ""
        given = self._agents.given(pod.node, pod.namespace, pod.name, slot.pool.resource)
        return given[0] if given is not None and len(given) == 1 else ""

    def serves(self, slot: Slot, pod: PodView) -> bool:
        """It is the slot's own, and holds a device on which its shares may run."""
        uuid = self.uuid(slot, pod)
        return bool(uuid) and (uuid == slot.right if slot.right else not self.lent(slot, pod))

    def lent(self, slot: Slot, pod: PodView) -> bool:
        """It is the slot's own, and holds the device of another slot's shares."""
        uuid = self.uuid(slot, pod)
        return not slot.uses(uuid) and any(each.uses(uuid) for each in self._beside(slot))

    def spare(self, slot: Slot, pod: PodView) -> bool:
        """It is the slot's own, and no share runs on its device, as far as that can be told."""
        if not pod.node or pod.finished:
            return True
        if uuid := self.uuid(slot, pod):
            return not slot.uses(uuid) and not self.lent(slot, pod)
        # It may be the one that is missing elsewhere.
        return not any(each.right and not self._stands(each) for each in self._beside(slot))

    def taken(self, slot: Slot) -> bool:
        """The device of its shares is in other hands, as the kubelet says: given to others, or none of those it has.

        That a pod of ours is not placed says nothing: the node may be cordoned, or full.
        """
        node = names.node_of(slot.name)
        if not slot.right or slot.pool is None or not self._agents.speaks(node):
            return False
        holders = self._agents.holders(node, slot.pool.resource)
        if pods := holders.get(slot.right):
            return all(namespace != self._namespace for namespace, _ in pods)
        return 0 < len(self._nodes.slots(node)) <= len(holders)

    def _stands(self, slot: Slot) -> bool:
        """Its device is held, or may be, by a pod of its own."""
        return self.holder(slot) is not None or any(pod.phase == "Running" for pod in self.standing(slot))

    def _beside(self, slot: Slot) -> Iterator[Slot]:
        """The other slots of its node."""
        return (each for each in self._by_node.get(names.node_of(slot.name), {}).values() if each is not slot)

    def kubelet_remembers(self, slot: Slot) -> bool:
        """A pod of it has gone, and the kubelet has not said since that it forgot it too."""
        if slot.gone_at is None or slot.pool is None:
            return False
        node = names.node_of(slot.name)
        if not self._agents.speaks(node):
            return False
        told = self._agents.told_at(node)
        if told is None or told <= slot.gone_at:
            return True
        there = {pod.name for pod in slot.pods.values()}
        for number in range(len(self._nodes.slots(node)) + 1):
            name = names.reservation_name(slot.name, number)
            if name not in there and self._agents.given(node, self._namespace, name, slot.pool.resource):
                return True
        slot.gone_at = None
        return False

    def describe(self, slot: Slot) -> str:
        """What is being waited for, as a sentence."""
        node = names.node_of(slot.name)
        for pod in slot.pods.values():
            if self.lent(slot, pod):
                continue
            if pod.unschedulable:
                return f"The cluster finds no free device on {node}: {pod.unschedulable}"
            trouble, _ = find_trouble(pod)
            if trouble:
                return trouble
            if pod.reason and pod.message:
                return f"{pod.reason}: {pod.message}"
            if pod.phase == "Running" and not self.uuid(slot, pod):
                return self._agents.unfit(node) or f"The agent of {node} has not told yet which device it is."
            if self.uuid(slot, pod):
                return f"The device {slot.right} on which its shares run is held by somebody else."
        if self.kubelet_remembers(slot):
            return f"The kubelet of {node} has not let go of the reservation before."
        return f"A device of {node} is being reserved."


def _unknown_memory(model: Device | None) -> MiB:
    return model.memory if model is not None else MiB(0)
