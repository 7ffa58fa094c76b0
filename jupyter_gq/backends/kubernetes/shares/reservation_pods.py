"""Reservation pods: each holds a whole device, so that several shares can use it.

    FREE -> WANTED -> BOUND -> RESERVED -> RELEASING -> FREE

Rules
-----
- The derivation rule: the state of a slot is derived from pods and from what the agents report (see `slots`).
- The wanted-slot rule: the device of a slot is wanted as long as a run claims it, a pod of work that has not ended
  names a device for it, or its pool keeps all devices reserved. Nobody need know the run of that pod: it may be of an
  older store, or on a node that was believed lost.
- The linger rule: the reservation pods go `linger` seconds after their device was last wanted. On a cordoned node they
  go at once, if the device was wanted since this process began. A slot is FREE when the API server has forgotten its
  pods and, while the agent of the node reports, the kubelet too.
- The timeout rule: if a device is not reserved in time, its pods go, the node backs off, and the runs that waited for
  the device are refused. The node does not back off if no scheduler has tried to place the pod.
- The overdue rule: a pod that should be gone and still exists holds a device. As long as the pod exists, its slot takes
  nothing new and the runs that wait there are refused. The node does not back off.
- The UUID rule: if the device plugin calls its devices otherwise than by UUID, the runs are refused at once.
- The same-device rule: if the reservation pod of running shares is gone, new pods are created until one gets that
  device, at most as many as the node has devices. If the kubelet gave the device to others, the runs are told.
- The own-device rule: a device on which shares of one slot run is given to no other slot. If the pod of another slot
  was given the device, that pod is lent to the slot whose shares run there, and the other slot gets a further pod.
- The used-pod rule: no pod is deleted whose device a share names.

See docs/decisions/0042-keep-a-device-for-the-shares-on-it.md.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from itertools import count

from jupyter_gq.backends.kubernetes.api.resources import PODS
from jupyter_gq.backends.kubernetes.api.views import PodView, pod_view
from jupyter_gq.backends.kubernetes.api.writes import Creation, CreationState, ObjectRef, Writes
from jupyter_gq.backends.kubernetes.nodes.agents import Agents
from jupyter_gq.backends.kubernetes.nodes.nodes import Nodes
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.objects.holding_pods import reservation_pod
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.pod_pool import PodPool
from jupyter_gq.domain.workload import RunKey

from .slots import Claim, Slot, Slots, SlotState

log = logging.getLogger(__name__)


class ReservationPods:
    """The reservation pods of all slots, and the claims of runs to their devices."""

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
        """Create the collection without slots; `on_created` is given each created pod before the watch shows it."""
        self._options, self._writes, self._nodes, self._now = options, writes, nodes, now
        self._on_created = on_created
        self._slots = Slots(options, agents=agents, nodes=nodes)
        #: Runs that will not get one of their devices, or have lost one.
        self.failing: set[RunKey] = set()

    # --- claims of runs

    def claim(self, name: str, pool: PodPool, key: RunKey, device: str = "") -> Claim:
        """Record that a run wants the slot's device, and return the claim; `step` then creates a reservation pod.

        `device` is the one that the run's pod was given already.
        """
        slot = self._slots.get_or_add(name)
        slot.pool = pool
        claim = slot.claims.setdefault(key, Claim(key=key))
        if device:
            claim.device = device
        return claim

    def fix_device(self, name: str, key: RunKey, device: str) -> None:
        """Bind the run's claim to this device of the slot: a pod that names it may be on its way.

        Nothing happens if the run has no claim to the slot.
        """
        claim = self._find_claim(name, key)
        if claim is not None:
            claim.fixed_device = device

    def fixed_device(self, name: str, key: RunKey) -> str:
        """Return the device that the run's pod was told to name for the slot; "" = none."""
        claim = self._find_claim(name, key)
        return claim.fixed_device if claim is not None else ""

    def release(self, name: str, key: RunKey) -> None:
        """Drop the run's claim to the slot's device; the reservation pod lingers."""
        slot = self._slots.get(name)
        if slot is not None:
            slot.claims.pop(key, None)
        self.failing.discard(key)

    def failure(self, name: str, key: RunKey) -> str:
        """Return why the run will not get the slot's device, or has lost it; "" = it may get it, or has it."""
        claim = self._find_claim(name, key)
        return claim.failure if claim is not None else ""

    def _find_claim(self, name: str, key: RunKey) -> Claim | None:
        slot = self._slots.get(name)
        return slot.claims.get(key) if slot is not None else None

    # --- the state of slots

    def reserved_device(self, name: str) -> Device | None:
        """Return the device that is reserved for the slot; None while there is none, or not the right one."""
        slot = self._slots.get(name)
        return None if slot is None else self._slots.reserved_device(slot)

    def device_name(self, name: str) -> str:
        """Return the device on which shares of the slot run, or which a pod holds for the slot; "" = not known."""
        slot = self._slots.get(name)
        if slot is None:
            return ""
        holder = self._slots.find_holder(slot)
        return slot.used_device or (self._slots.device_of(slot, holder) if holder is not None else "")

    def state(self, name: str) -> SlotState:
        """Return how far the device of the slot is reserved."""
        slot = self._slots.get(name)
        return SlotState.FREE if slot is None else self._slots.state(slot)

    def describe(self, name: str) -> str:
        """Return what the slot is waiting for, as a sentence; "" = nothing."""
        slot = self._slots.get(name)
        return slot.sentence if slot is not None else ""

    def free(self, name: str) -> bool:
        """Return whether no reservation pod holds the slot's device; if one does, have it deleted at the next step.

        A pod is deleted only if nobody wants the device any more.
        """
        slot = self._slots.get(name)
        if slot is None:
            return True
        slot.release_at_once = True
        if self._slots.is_occupied(slot):
            slot.sentence = self._describe_overdue(slot) or f"Waits until the reservation of {name} is gone."
            return False
        return True

    def overdue_slots(self) -> set[str]:
        """Return the slots with a reservation pod that should be gone and still exists, so that it holds a device."""
        now = self._now()
        return {slot.name for slot in self._slots if self._slots.find_overdue(slot, now) is not None}

    def is_in_use(self, name: str) -> bool:
        """Return whether a run has a claim to the slot's device, or a pod of work names it."""
        slot = self._slots.get(name)
        return slot is not None and (bool(slot.claims) or bool(slot.work))

    def waits_for_agent(self, node: str) -> bool:
        """Return whether a slot of the node waits for a report of what the kubelet has given."""
        return any(
            names.node_of(slot.name) == node and (slot.wanted_since is not None or slot.pods_gone_at is not None)
            for slot in self._slots
        )

    def keep_always(self, slots: Collection[str], pool_of: Callable[[str], PodPool | None]) -> None:
        """Keep the devices of exactly these slots reserved even if no run claims them."""
        for name in slots:
            slot = self._slots.get_or_add(name)
            slot.is_always_wanted, slot.pool = True, pool_of(names.node_of(name)) or slot.pool
        for slot in self._slots:
            if slot.is_always_wanted and slot.name not in slots:
                slot.is_always_wanted = False

    # --- changes of pods

    def note_pod(self, before: PodView | None, after: PodView | None) -> None:
        """Record a change of a pod in the namespace of the nodes; pods that name no slot are ignored."""
        pod = after or before
        assert pod is not None
        name = pod.annotations.get(names.SLOT, "")
        if not name:
            return
        slot = self._slots.get_or_add(name)
        if after is not None:
            self._slots.first_seen.setdefault(after.uid, self._now())
            if after.terminating:
                self._slots.going_since.setdefault(after.uid, self._now())
        if after is not None and (before is None or before.uid == after.uid):
            slot.pods[after.uid] = after
            slot.pods_gone_at = None
            return
        if before is not None:
            slot.pods.pop(before.uid, None)
            self._slots.first_seen.pop(before.uid, None)
            self._slots.deleting.discard(before.uid)
            self._slots.going_since.pop(before.uid, None)
            self._writes.forget_deletion(before.uid)
            self._writes.forget_creation(ObjectRef.of_pod(before))
            slot.pods_gone_at = self._now()
        if after is not None:
            slot.pods[after.uid] = after

    def note_work(self, before: PodView | None, after: PodView | None) -> None:
        """Record a change of a pod of work: until it has ended, the devices that it names are in use."""
        self._slots.note_work(before, after)

    def restart_clocks(self) -> None:
        """Count all waits and all lingering from now: while the API server was away, nothing could be in time."""
        now = self._now()
        for slot in self._slots:
            slot.wanted_since = None if slot.wanted_since is None else now
            slot.unwanted_since = None if slot.unwanted_since is None else now
        self._slots.going_since = dict.fromkeys(self._slots.going_since, now)

    # --- each step

    def step(self) -> None:
        """Create reservation pods that slots need, delete those that nobody needs, and fail claims that took too long.

        Slots that are free again are forgotten.
        """
        for slot in self._slots:
            if slot.pool is None:  # pods may be seen before their node is
                slot.pool = self._nodes.pool(names.node_of(slot.name))
            self._step(slot)
            if not slot.is_wanted and not slot.pods and not self._slots.is_occupied(slot):
                self._slots.remove(slot)

    def _step(self, slot: Slot) -> None:
        for pod in slot.pods.values():
            # A pod that was evicted, or that its node rejected, holds nothing, and its name is in the way.
            if pod.uid in self._slots.deleting or (pod.finished and not pod.terminating):
                self._delete(pod)
        if not slot.is_wanted:
            slot.wanted_since = None
            self._release_unwanted(slot)
            return
        slot.unwanted_since, slot.release_at_once, slot.was_wanted = None, False, True
        if self._slots.reserved_device(slot) is not None:
            slot.wanted_since, slot.sentence = None, ""
            self._clear_failures(slot)
            self._delete_extra_pods(slot)
            return
        now = self._now()
        pool = self._slots.pool_for_pods(slot)
        if pool is None or now < slot.retry_at or self._holds_unknown_device(slot):
            return
        slot.wanted_since = now if slot.wanted_since is None else slot.wanted_since
        creation = None if (refusal := self._slots.refusal(slot)) else self._create_missing_pod(slot, pool)
        waits = creation.sentence if creation is not None and creation.state is CreationState.WAITING else ""
        if creation is not None and creation.state is CreationState.REFUSED:
            refusal = creation.sentence
        overdue = self._describe_overdue(slot)
        slot.sentence = refusal or overdue or waits or self._slots.describe(slot)
        if refusal:
            self._fail(slot, refusal, back_off=False)
        elif now - slot.wanted_since >= self._options.reservation_timeout:
            untried = self._slots.find_untried(slot)
            if untried is not None and not untried.held_back:
                slot.sentence = f"No scheduler has looked at the reservation pod {untried.name}."
            # The node is not to blame for what the API server or an old pod keeps from it.
            self._fail(slot, slot.sentence, back_off=untried is None and not overdue and not waits)

    def _holds_unknown_device(self, slot: Slot) -> bool:
        """Return whether a running pod holds a device that is not known now, and no further pod is to be created.

        No pod is created if shares run on the slot already, or if no run waits for it. The slot's sentence then says
        what the device waits for.
        """
        if not any(pod.phase == "Running" for pod in self._slots.staying_pods(slot)):
            return False
        if any(self._slots.device_of(slot, pod) for pod in slot.pods.values()):
            return False
        slot.sentence = self._slots.describe(slot)
        return bool(slot.used_device) or not slot.claims

    def _describe_overdue(self, slot: Slot) -> str:
        """Return a sentence on a reservation pod of the slot that should be gone and still exists; "" if none does."""
        pod = self._slots.find_overdue(slot, self._now())
        if pod is None:
            return ""
        why = self._writes.deletion_trouble(pod.uid) or "Something keeps it, such as a finalizer or its container."
        return f"The reservation pod {pod.name} should be gone and still holds its device: {why}"

    def _release_unwanted(self, slot: Slot) -> None:
        """Delete the slot's unused pods `linger` seconds after their device was last wanted.

        Pods on a cordoned node, and those that `free` asked for, are deleted at once.
        """
        now = self._now()
        slot.unwanted_since = now if slot.unwanted_since is None else slot.unwanted_since
        # An administrator who drains a node waits for its reservation pods.
        at_once = slot.release_at_once or (slot.was_wanted and self._nodes.cordoned(names.node_of(slot.name)))
        if at_once or now - slot.unwanted_since >= self._options.linger:
            self._delete_unused(slot, slot.pods.values())

    def _delete_extra_pods(self, slot: Slot) -> None:
        """Delete the unused pods of the slot, except for the one that holds the right device."""
        keeper = self._slots.find_holder(slot)
        assert keeper is not None
        self._delete_unused(slot, [pod for pod in self._slots.staying_pods(slot) if pod.uid != keeper.uid])

    def _delete_unused(self, slot: Slot, pods: Iterable[PodView]) -> None:
        """Delete those of the slot's pods on whose device no share runs."""
        for pod in pods:
            if self._slots.may_go(slot, pod):
                self._delete(pod)

    def _clear_failures(self, slot: Slot) -> None:
        """Drop the failures of the slot's claims: its device is reserved."""
        for claim in slot.claims.values():
            if claim.failure:
                claim.failure = ""
                if not any(self.failure(each.name, claim.key) for each in self._slots):
                    self.failing.discard(claim.key)

    def _create_missing_pod(self, slot: Slot, pool: PodPool) -> Creation | None:
        """Create a reservation pod if the slot has none, or only pods with wrong devices; return how far that is.

        No pod is created, and the result is None, while a pod is going or the kubelet still counts one. At most as many
        pods exist as the node has devices.
        """
        pods = [pod for pod in slot.pods.values() if not self._slots.is_lent(slot, pod)]
        if any(self._slots.is_going(pod) or pod.finished for pod in pods) or self._slots.kubelet_remembers(slot):
            return None
        wrong = [pod for pod in pods if self._slots.device_of(slot, pod) and not self._slots.serves(slot, pod)]
        if len(wrong) < len(pods):
            return None
        if pods and len(pods) >= len(self._nodes.slots(names.node_of(slot.name))):
            return None
        taken = {pod.name for pod in slot.pods.values()}
        number = next(n for n in count() if names.reservation_name(slot.name, n) not in taken)
        ref = self._ref(names.reservation_name(slot.name, number))
        creation = self._writes.create(
            ref,
            lambda: reservation_pod(slot.name, pool, self._options, number),
            lambda created: self._on_created(pod_view(created)),
        )
        if creation.state is CreationState.REFUSED:
            self._writes.forget_creation(ref)
        return creation

    def _fail(self, slot: Slot, sentence: str, *, back_off: bool) -> None:
        """Record that the slot's device cannot be reserved: its claims fail, and pods that do not serve it are deleted.

        A run that has a pod fails only if its device was given to others. With `back_off`, the node takes nothing new
        for a while. No pod is created for the slot during that pause, nor for `unschedulable_after` seconds.
        """
        node = names.node_of(slot.name)
        is_taken = self._slots.is_device_taken(slot)
        if is_taken:
            sentence = f"The device {slot.used_device} on which shares run is held by another pod."
        told = f"{slot.name} could not be held: {sentence}"
        log.warning("reservation failed: slot=%s %s", slot.name, sentence)
        if back_off:
            self._nodes.back_off.add(node, told)
        slot.retry_at = max(self._nodes.back_off.until(node), self._now() + self._options.unschedulable_after)
        slot.wanted_since = None
        self._forget_unseen(slot)
        for claim in slot.claims.values():
            # A run that has a pod goes on, unless its device was given to others.
            if not claim.device or is_taken:
                claim.failure = told
                self.failing.add(claim.key)
        self._delete_unused(slot, [pod for pod in slot.pods.values() if not self._slots.serves(slot, pod)])

    def _forget_unseen(self, slot: Slot) -> None:
        """Allow pods to be created again that were created and never seen: they may be gone already."""
        seen = {pod.name for pod in slot.pods.values()}
        for number in range(len(slot.pods) + 1):
            if (name := names.reservation_name(slot.name, number)) not in seen:
                self._writes.forget_creation(self._ref(name))

    def _ref(self, name: str) -> ObjectRef:
        return ObjectRef(resource=PODS, namespace=self._options.nodes_namespace, name=name)

    def _delete(self, pod: PodView) -> None:
        self._slots.deleting.add(pod.uid)
        self._slots.going_since.setdefault(pod.uid, self._now())
        self._writes.delete(ObjectRef.of_pod(pod))
