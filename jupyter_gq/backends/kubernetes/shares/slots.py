"""Slots, and what is known of the devices that reservation pods hold for them.

Rules
-----
- The derivation rule: nothing is remembered that a restart would lose. A reservation pod names its slot, the kubelet
  says which device the pod has now, and pods of work name the slots and devices on which they run, whoever knows of
  their runs. The device that a notebook's pod was told to name comes back with its launch. Only times start anew, so a
  restart may make a share wait longer, never shorter.
- The own-device rule: the device on which shares of one slot run is counted for no other slot. If the reservation pod
  of another slot was given it, that pod is lent to the slot whose shares run there.

See docs/decisions/0022-derive-slots-and-reservation-pods.md.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.nodes.agents import Agents, is_uuid
from jupyter_gq.backends.kubernetes.nodes.nodes import Nodes
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.pods.results import find_trouble
from jupyter_gq.backends.kubernetes.providers import PROVIDERS
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.cluster import UNKNOWN_MODEL, Device
from jupyter_gq.domain.pod_pool import PodPool
from jupyter_gq.domain.workload import RunKey

#: Seconds after which a reservation pod that is being deleted should be gone.
_OVERDUE = 20.0


class SlotState(StrEnum):
    """How far the device of a slot is reserved."""

    FREE = "FREE"
    WANTED = "WANTED"  # no reservation pod exists yet
    BOUND = "BOUND"  # a reservation pod exists, and its device is not known, or not the right one
    RESERVED = "RESERVED"
    RELEASING = "RELEASING"  # nobody wants the device, and a reservation pod may still hold it


@dataclass(kw_only=True, slots=True)
class Claim:
    """The wish of a run for the device of a slot."""

    key: RunKey
    #: The device that its pod was given; "" = it has no pod yet.
    device: str = ""
    #: The device that its pod was told to name, once and for all; "" = none yet.
    fixed_device: str = ""
    #: Why the run will not get the device, or has lost it; "" = it may get it, or has it.
    failure: str = ""


@dataclass(kw_only=True, slots=True)
class Slot:
    """A device of a node as the scheduler counts it, with its reservation pods and the work that wants it."""

    name: str
    pool: PodPool | None = None
    #: The reservation pods of the slot by uid.
    pods: dict[str, PodView] = field(default_factory=dict)
    claims: dict[RunKey, Claim] = field(default_factory=dict)
    #: By uid of a pod of work that has not ended, the device that the pod names for this slot.
    work: dict[str, str] = field(default_factory=dict)
    #: The pool keeps all of its devices reserved.
    is_always_wanted: bool = False
    #: Since when the device is wanted and not reserved.
    wanted_since: float | None = None
    #: Since when nobody wants the device.
    unwanted_since: float | None = None
    #: The device was wanted since this process began. Before that, the runs that want it may not be launched yet.
    was_wanted: bool = False
    #: The reservation pod shall go at once when nobody wants the device.
    release_at_once: bool = False
    #: Since when the last reservation pod is gone; None = the kubelet has forgotten it as well.
    pods_gone_at: float | None = None
    #: No reservation pod is created before this time.
    retry_at: float = 0.0
    #: What is being waited for; "" = nothing.
    sentence: str = ""

    @property
    def is_wanted(self) -> bool:
        """Whether the device shall be reserved."""
        return self.is_always_wanted or bool(self.claims) or bool(self.work)

    @property
    def used_device(self) -> str:
        """The device that pods or claims of the slot name, so that no other will do; "" = any device will do."""
        return next((device for device in self._named_devices() if device), "")

    def uses(self, device: str) -> bool:
        """Return whether a pod or a claim of the slot names this device."""
        return bool(device) and device in self._named_devices()

    def _named_devices(self) -> Iterator[str]:
        yield from self.work.values()
        for claim in self.claims.values():
            yield claim.device
            yield claim.fixed_device


class Slots:
    """The slots whose device is wanted, reserved or not free yet."""

    def __init__(self, options: KubernetesOptions, *, agents: Agents, nodes: Nodes) -> None:
        self._namespace, self._installation = options.nodes_namespace, options.installation
        self._agents, self._nodes = agents, nodes
        #: When each reservation pod was seen first, by uid.
        self.first_seen: dict[str, float] = {}
        #: The uids of reservation pods whose deletion was requested: the cluster may not show it yet.
        self.deleting: set[str] = set()
        #: Since when each reservation pod is being deleted, by uid.
        self.going_since: dict[str, float] = {}
        self._by_name: dict[str, Slot] = {}
        self._by_node: defaultdict[str, dict[str, Slot]] = defaultdict(dict)

    def __iter__(self) -> Iterator[Slot]:
        return iter(list(self._by_name.values()))

    def get(self, name: str) -> Slot | None:
        """Return the slot with this name; None if nobody wants it and nothing of it is left."""
        return self._by_name.get(name)

    def get_or_add(self, name: str) -> Slot:
        """Return the slot with this name; add it if it is not known."""
        slot = self._by_name.get(name)
        if slot is None:
            slot = self._by_name[name] = Slot(name=name, pool=self._nodes.pool(names.node_of(name)))
            self._by_node[names.node_of(name)][name] = slot
        return slot

    def remove(self, slot: Slot) -> None:
        """Forget a slot. The caller has checked that nobody wants its device and no pod of it is left."""
        del self._by_name[slot.name]
        others = self._by_node[names.node_of(slot.name)]
        del others[slot.name]
        if not others:
            del self._by_node[names.node_of(slot.name)]

    def note_work(self, before: PodView | None, after: PodView | None) -> None:
        """Record a change of a pod of work: until it has ended, the devices that it names are in use.

        Pods of other installations are ignored.
        """
        for pod in (before, after):
            # Another installation beside the same hub has reservation pods of its own.
            if pod is None or pod.labels.get(names.INSTALLATION, self._installation) != self._installation:
                continue
            for name, device in zip(pod.slots, pod.devices, strict=False):
                if pod is after and not pod.finished:
                    self.get_or_add(name).work[pod.uid] = device
                elif (slot := self.get(name)) is not None:
                    slot.work.pop(pod.uid, None)

    # --- the state of a slot

    def state(self, slot: Slot) -> SlotState:
        """Return how far the device of the slot is reserved.

        While the device is wanted, the state is RESERVED, BOUND with a reservation pod that does not hold it yet, or
        WANTED without one. Otherwise the state is RELEASING while a pod may hold the device, and then FREE.
        """
        if slot.is_wanted and self.reserved_device(slot) is not None:
            return SlotState.RESERVED
        if slot.is_wanted:
            return SlotState.BOUND if any(self.staying_pods(slot)) else SlotState.WANTED
        return SlotState.RELEASING if self.is_occupied(slot) else SlotState.FREE

    def pool_for_pods(self, slot: Slot) -> PodPool | None:
        """Return the pool by whose rules a reservation pod is created for the slot.

        None: no pod is created, because the node is gone or in no pool, or the pool's provider needs no such pods.
        """
        if slot.pool is None or names.node_of(slot.name) not in self._nodes.names():
            return None
        return slot.pool if PROVIDERS[slot.pool.provider].needs_reservation(slot.pool, whole=False) else None

    def reserved_device(self, slot: Slot) -> Device | None:
        """Return the device that a reservation pod holds for the slot; None if no pod holds the device of its shares.

        A device that the node's agent has not reported has index 0 and no pool.
        """
        pod = self.find_holder(slot)
        if pod is None:
            return None
        uuid = self.device_of(slot, pod)
        return self._agents.device(pod.node, uuid) or Device(
            id=uuid, index=0, model=UNKNOWN_MODEL, memory=_memory_or_zero(self._nodes.model(pod.node)), pool=""
        )

    def find_holder(self, slot: Slot) -> PodView | None:
        """Return the pod that holds a device for the slot; None if there is none.

        The pod is one of the slot's own, or one of another slot that was given the device in use here.
        """
        own = (pod for pod in slot.pods.values() if self.serves(slot, pod))
        found = min(own, key=lambda pod: pod.name, default=None)
        if found is not None or not slot.used_device:
            return found
        others = (pod for each in self._others_on_node(slot) for pod in each.pods.values())
        return next((pod for pod in others if self.device_of(slot, pod) == slot.used_device), None)

    def is_occupied(self, slot: Slot) -> bool:
        """Return whether a reservation pod of the slot holds a device that is not lent, or may.

        A pod that is gone counts until the kubelet has forgotten it.
        """
        return any(not self.is_lent(slot, pod) for pod in slot.pods.values()) or self.kubelet_remembers(slot)

    def is_device_taken(self, slot: Slot) -> bool:
        """Return whether the device of the slot's shares was given to others, as the kubelet says; False if unknown.

        The device was taken if the kubelet names only pods of others for it, or has given out as many devices as the
        node offers without this one. A reservation pod that is not placed says nothing: the node may be cordoned, or
        full.
        """
        node = names.node_of(slot.name)
        if not slot.used_device or slot.pool is None or not self._agents.is_reporting(node):
            return False
        holders = self._agents.holders(node, slot.pool.resource)
        if pods := holders.get(slot.used_device):
            return all(namespace != self._namespace for namespace, _ in pods)
        return 0 < len(self._nodes.slots(node)) <= len(holders)

    def kubelet_remembers(self, slot: Slot) -> bool:
        """Return whether the kubelet may still count a device for a reservation pod of the slot that is gone.

        The result is True until a later report lists no such pod; then the slot forgets the pod. While the agent is
        silent, the result is False.
        """
        if slot.pods_gone_at is None or slot.pool is None:
            return False
        node = names.node_of(slot.name)
        if not self._agents.is_reporting(node):
            return False
        told = self._agents.allocations_reported_at(node)
        if told is None or told <= slot.pods_gone_at:
            return True
        present = {pod.name for pod in slot.pods.values()}
        for number in range(len(self._nodes.slots(node)) + 1):
            name = names.reservation_name(slot.name, number)
            if name not in present and self._agents.given(node, self._namespace, name, slot.pool.resource):
                return True
        slot.pods_gone_at = None
        return False

    # --- the reservation pods of a slot

    def is_going(self, pod: PodView) -> bool:
        """Return whether the pod is being deleted, or will be: nothing new may count on its device."""
        return pod.terminating or pod.uid in self.deleting

    def find_overdue(self, slot: Slot, now: float) -> PodView | None:
        """Return a reservation pod of the slot that should be gone and still exists; None if there is none.

        That is a pod whose deletion was requested or seen 20 seconds ago or earlier.
        A pod that something keeps, such as a finalizer, holds its device for as long.
        """
        since = self.going_since
        return next((pod for pod in slot.pods.values() if now - since.get(pod.uid, now) >= _OVERDUE), None)

    def staying_pods(self, slot: Slot) -> Iterator[PodView]:
        """Iterate over the slot's reservation pods that are not being deleted."""
        return (pod for pod in slot.pods.values() if not self.is_going(pod))

    def device_of(self, slot: Slot, pod: PodView) -> str:
        """Return the device that a reservation pod holds; "" unless the kubelet names exactly one, by its UUID."""
        if pod.phase != "Running" or self.is_going(pod) or slot.pool is None:
            return ""
        told = self._agents.allocations_reported_at(pod.node)
        if told is None or told < self.first_seen.get(pod.uid, told):
            # The kubelet names pods, not uids: an earlier report may be about an older pod of the same name.
            return ""
        given = self._agents.given(pod.node, pod.namespace, pod.name, slot.pool.resource)
        return given[0] if given is not None and len(given) == 1 and is_uuid(given[0]) else ""

    def serves(self, slot: Slot, pod: PodView) -> bool:
        """Return whether one of the slot's own pods holds a device on which shares of the slot may run."""
        uuid = self.device_of(slot, pod)
        return bool(uuid) and (uuid == slot.used_device if slot.used_device else not self.is_lent(slot, pod))

    def is_lent(self, slot: Slot, pod: PodView) -> bool:
        """Return whether one of the slot's own pods holds the device on which shares of another slot run."""
        uuid = self.device_of(slot, pod)
        return not slot.uses(uuid) and any(each.uses(uuid) for each in self._others_on_node(slot))

    def may_go(self, slot: Slot, pod: PodView) -> bool:
        """Return whether no share needs one of the slot's own pods, as far as that is known.

        A pod whose device is not known stays while a slot of the node misses the device of its shares.
        """
        if not pod.node or pod.finished:
            return True
        if uuid := self.device_of(slot, pod):
            return not slot.uses(uuid) and not self.is_lent(slot, pod)
        # The pod may hold the device that shares of another slot use.
        return not any(each.used_device and not self._may_be_reserved(each) for each in self._others_on_node(slot))

    def _may_be_reserved(self, slot: Slot) -> bool:
        """Return whether a pod holds the right device for the slot, or a running pod of its own may."""
        return self.find_holder(slot) is not None or any(pod.phase == "Running" for pod in self.staying_pods(slot))

    def _others_on_node(self, slot: Slot) -> Iterator[Slot]:
        """Iterate over the other slots of the node."""
        return (each for each in self._by_node.get(names.node_of(slot.name), {}).values() if each is not slot)

    def refusal(self, slot: Slot) -> str:
        """Return why the slot's device can never be named to a share, as a sentence; "" if nothing is known of that."""
        return self._agents.names_no_uuid(names.node_of(slot.name), slot.pool.resource) if slot.pool is not None else ""

    def find_untried(self, slot: Slot) -> PodView | None:
        """Return a reservation pod of the slot that no scheduler has tried to place; None if there is none."""
        return next((pod for pod in self.staying_pods(slot) if not pod.node and not pod.unschedulable), None)

    def describe(self, slot: Slot) -> str:
        """Return why the device of the slot is not reserved yet, as a sentence."""
        for pod in slot.pods.values():
            if not self.is_lent(slot, pod) and (why := self._describe_pod(slot, pod)):
                return why
        node = names.node_of(slot.name)
        if self.kubelet_remembers(slot):
            return f"The kubelet of {node} still lists the earlier reservation pod."
        return f"A device of {node} is being reserved."

    def _describe_pod(self, slot: Slot, pod: PodView) -> str:
        """Return why this pod does not reserve the slot's device yet, as a sentence; "" if nothing is known."""
        node = names.node_of(slot.name)
        if self.is_going(pod):
            return f"The earlier reservation pod {pod.name} is being deleted."
        if pod.unschedulable:
            return f"The cluster finds no free device on {node}: {pod.unschedulable}"
        if pod.held_back:
            return f"The cluster does not place the reservation pod {pod.name} yet: {pod.held_back}"
        if (trouble := find_trouble(pod)[0]) or (pod.reason and pod.message):
            return trouble or f"{pod.reason}: {pod.message}"
        if self.device_of(slot, pod):
            return f"The device {slot.used_device} on which shares run is held by another pod."
        if pod.phase == "Running":
            return self._agents.unfit(node) or f"The agent of {node} has not named the reserved device yet."
        return ""


def _memory_or_zero(model: Device | None) -> MiB:
    return model.memory if model is not None else MiB(0)
