"""What is known of the slots whose devices are held: derived from pods and from what the agents tell.

Nothing is remembered that a restart would lose: a slot's pod has the slot's name, its device is what the kubelet says
now, and pods of work name the slots and devices on which they run, whoever knows of their runs. Only clocks start
anew, so a restart may wait longer, never shorter.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.cluster import Device

from . import names
from .agents import Agents
from .nodes import Nodes
from .outcome import trouble_of
from .pools import PodPool
from .providers import PROVIDERS
from .runs import RunKey
from .views import PodView


class State(StrEnum):
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
        """The device on which its shares run; "" = any will do."""
        named = (*self.work.values(), *(claim.device for claim in self.claims.values()))
        return next((device for device in named if device), "")

    def standing(self) -> Iterator[PodView]:
        """Its pods that have not been told to go."""
        return (pod for pod in self.pods.values() if not pod.terminating)


class Slots:
    """All slots that are held, shall be held or were."""

    def __init__(self, namespace: str, *, agents: Agents, nodes: Nodes) -> None:
        """`namespace`: where their pods are."""
        self._namespace, self._agents, self._nodes = namespace, agents, nodes
        self._by_name: dict[str, Slot] = {}

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
        return slot

    def pool(self, slot: Slot) -> PodPool | None:
        """The pool by whose rules a pod is made for it; None = none is: its node is gone, or not shared like that."""
        if slot.pool is None or names.node_of(slot.name) not in self._nodes.names():
            return None
        return slot.pool if PROVIDERS[slot.pool.provider].needs_reservation(slot.pool, whole=False) else None

    def forget(self, slot: Slot) -> None:
        """Nothing of it is left."""
        del self._by_name[slot.name]

    def held(self, slot: Slot) -> Device | None:
        """The device that is held for it; None while there is none, or not the right one."""
        for pod in sorted(slot.pods.values(), key=lambda each: each.name):
            if self.serves(slot, pod):
                uuid = self.uuid(slot, pod)
                return self._agents.device(pod.node, uuid) or Device(
                    id=uuid, index=0, model="GPU", memory=_unknown_memory(self._nodes.model(pod.node)), pool=""
                )
        return None

    def state(self, slot: Slot) -> State:
        """How far it is."""
        if slot.wanted and self.held(slot) is not None:
            return State.HELD
        if slot.wanted:
            return State.BOUND if any(slot.standing()) else State.WANTED
        return State.RELEASING if self.occupied(slot) else State.FREE

    def occupied(self, slot: Slot) -> bool:
        """Something of ours holds its device, or may."""
        return bool(slot.pods) or self.kubelet_remembers(slot)

    def uuid(self, slot: Slot, pod: PodView) -> str:
        """The device that this pod holds, if the kubelet names exactly one."""
        if pod.phase != "Running" or pod.terminating or slot.pool is None:
            return ""
        given = self._agents.given(pod.node, pod.namespace, pod.name, slot.pool.resource)
        return given[0] if given is not None and len(given) == 1 else ""

    def serves(self, slot: Slot, pod: PodView) -> bool:
        """It holds a device on which the slot's shares may run."""
        uuid = self.uuid(slot, pod)
        return bool(uuid) and slot.right in ("", uuid)

    def kubelet_remembers(self, slot: Slot) -> bool:
        """A pod of it has gone, and the kubelet has not said since that it forgot it too."""
        if slot.gone_at is None or slot.pool is None:
            return False
        node = names.node_of(slot.name)
        if not self._agents.speaks(node):
            return False
        if not self._agents.told_since(node, slot.gone_at):
            return True
        pod = names.reservation_name(slot.name)
        if self._agents.given(node, self._namespace, pod, slot.pool.resource):
            return True
        slot.gone_at = None
        return False

    def describe(self, slot: Slot) -> str:
        """What is being waited for, as a sentence."""
        node = names.node_of(slot.name)
        for pod in slot.pods.values():
            if pod.unschedulable:
                return f"The cluster finds no free device on {node}: {pod.unschedulable}"
            trouble, _ = trouble_of(pod)
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
