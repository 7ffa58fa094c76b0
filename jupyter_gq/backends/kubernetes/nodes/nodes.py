"""Nodes and slots of the cluster, and which of them may take new work.

Rules
-----
1. Health. A slot is healthy if its node is ready, not cordoned, tolerated and not backing off, and `open_slots` chooses
   the slot: then a device is left for it.
2. Memory. A slot that was once offered is kept while the node is there, marked as not healthy: work may hold it.
3. Foreign and old pods. Devices that foreign pods hold, and slots on which an old pod of ours still stands, take no new
   work.
4. Drain. The core makes training leave a cordoned node, unless `leave_cordoned` is off.
5. Shares go only to a node with the label `SHARE_LABEL`, which is given here: see `agents`.

See docs/decisions/0051-count-slices-as-devices-estimate-hami-and-kai.md.
See docs/decisions/0054-back-off-only-the-job-without-a-gpu.md.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from jupyter_gq.backends.kubernetes.api.views import NodeView
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.providers import PROVIDERS
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.pod_pool import PodPool, find_pool

from .agents import Agents
from .models import device_by_labels, device_of, offered_labels, sliced
from .open_slots import SlotHealth, choose_open_slots

log = logging.getLogger(__name__)

_KEEPS_OUT = frozenset({"NoSchedule", "NoExecute"})
_FIRST_PAUSE, _LONGEST_PAUSE = 20.0, 600.0
#: Seconds after which an ended pause no longer makes the next one longer.
_FORGIVEN = 1800.0


@dataclass(kw_only=True, slots=True)
class _Pause:
    """The back-off of one node."""

    seconds: float
    until: float


class BackOff:
    """Nodes that failed and take nothing new for a while; the pause doubles with each failure."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._pauses: dict[str, _Pause] = {}

    def add(self, node: str, sentence: str) -> None:
        """Let a node take nothing new for 20 seconds after a failure, and log why; each later pause is twice as long.

        A pause is 600 seconds at most. Failures during a pause do not count. Half an hour after the last pause, the
        next one is short again.
        """
        now, before = self._now(), self._pauses.get(node)
        if before is not None and now < before.until:
            return
        recent = before is not None and now < before.until + _FORGIVEN
        seconds = min(_LONGEST_PAUSE, before.seconds * 2) if before is not None and recent else _FIRST_PAUSE
        self._pauses[node] = _Pause(seconds=seconds, until=now + seconds)
        log.warning("the node %s takes nothing new for %.0f s: %s", node, seconds, sentence)

    def clear(self, node: str) -> None:
        """End the pause of a node and forget its failures: something of ours runs there."""
        self._pauses.pop(node, None)

    def keep(self, nodes: Collection[str]) -> None:
        """Forget the pauses of all nodes but these."""
        self._pauses = {node: pause for node, pause in self._pauses.items() if node in nodes}

    def until(self, node: str) -> float:
        """Return when the pause of the node ends, by the clock of this object; 0 if it does not pause."""
        pause = self._pauses.get(node)
        return pause.until if pause is not None and self._now() < pause.until else 0.0


class Nodes:
    """The nodes as last seen, and what the core is offered of them."""

    def __init__(
        self,
        *,
        pools: Callable[[], Sequence[PodPool]],
        agents: Agents,
        now: Callable[[], float],
        lost_after: float,
        leave_cordoned: bool = True,
    ) -> None:
        """Create the collection without nodes.

        `lost_after` is in seconds. With `leave_cordoned`, a cordoned node is drained.
        """
        self._pools, self._agents, self._now, self._lost_after = pools, agents, now, lost_after
        self._leave_cordoned = leave_cordoned
        self.back_off = BackOff(now)
        #: Nodes on which pods saw foreign devices; a pod that starts there does not clear them.
        self.mistrust = BackOff(now)
        #: Host resources that foreign pods use on a node: thousandths of a core, and MiB.
        self.used_by_others: Callable[[str], tuple[int, int]] = lambda node: (0, 0)
        #: The device that is reserved for a slot, or in use there, by name; "" = not known.
        self.device_of_slot: Callable[[str], str] = lambda slot: ""
        self._views: dict[str, NodeView] = {}
        #: Since when a node has not been ready, or has been gone, on our own clock.
        self._away: dict[str, float] = {}
        #: The number of slots of a node, those included that have no device now.
        self._most: dict[str, int] = {}
        self._made: dict[str, tuple[object, Node]] = {}

    def apply_change(self, before: NodeView | None, after: NodeView | None) -> None:
        """Store a node as it is now; None as `after` means that the node is gone.

        The time since when a node has not been ready is recorded. Reports on a node that is gone are forgotten.
        """
        name = (after or before).name  # type: ignore[union-attr]
        if after is None:
            self._views.pop(name, None)
            self._away.setdefault(name, self._now())
            self._agents.forget([name])
            return
        self._views[name] = after
        if after.ready:
            self._away.pop(name, None)
        else:
            self._away.setdefault(name, self._now())

    def lost(self, node: str) -> str:
        """Return why everything on the node counts as lost, as a sentence; "" = it does not.

        A node is lost after `lost_after` seconds in which it was not ready or gone. An unknown node counts as gone from
        the first call on.
        """
        since = self._away.get(node)
        if since is None and node and node not in self._views:
            # The node went while nobody looked, as between two services.
            self._away[node] = self._now()
        if since is None or self._now() - since < self._lost_after:
            return ""
        view = self._views.get(node)
        if view is None:
            return f"The node {node} is gone."
        told = f": {view.message}" if view.message else ""
        return f"The node {node} has not answered for {self._now() - since:.0f} s{told}".rstrip(".") + "."

    def keep(self, named: Collection[str]) -> None:
        """Forget absences and pauses of nodes that are gone, except those that a run or a pod still names."""
        kept = self._views.keys() | set(named)
        self._away = {name: since for name, since in self._away.items() if name in kept}
        self._most = {name: most for name, most in self._most.items() if name in kept}
        self.back_off.keep(kept)
        self.mistrust.keep(kept)

    def is_any_away(self, nodes: Iterable[str]) -> bool:
        """Return True if one of these nodes is not ready, or was there and is gone."""
        return not self._away.keys().isdisjoint(nodes)

    def restart_clocks(self) -> None:
        """Count the absence of each node from now: while the API server was away, no node could report."""
        self._away = dict.fromkeys(self._away, self._now())

    def pool(self, node: str) -> PodPool | None:
        """Return the pool of a node; None if it is in none."""
        view = self._views.get(node)
        return find_pool(self._pools(), view.labels) if view is not None else None

    def model(self, node: str) -> Device | None:
        """Return the device of the node with the least memory, as an example of all; None if the node is in no pool.

        Without a description of the agent, the labels of the node describe the device.
        """
        view, pool = self._views.get(node), self.pool(node)
        if view is None or pool is None:
            return None
        told = self._reported_devices(view, pool)
        return min(told, key=lambda device: device.memory) if told else device_by_labels(view, 0, pool, healthy=True)

    def sliced(self, node: str) -> bool:
        """Return True if the pool's resource counts slices of GPUs on the node; slices are not divided further."""
        view, pool = self._views.get(node), self.pool(node)
        return view is not None and pool is not None and sliced(view.labels, pool)

    def counts_slots(self, node: str) -> bool:
        """Return True if the device plugin offers one device of the pool's resource for each slot.

        The result is True as well for a node in no pool.
        """
        pool = self.pool(node)
        return pool is None or PROVIDERS[pool.provider].counts_slots or self.sliced(node)

    def ready(self, node: str) -> bool:
        """Return True if the node is in a pool and open to new work; pauses after failures do not count."""
        view, pool = self._views.get(node), self.pool(node)
        return view is not None and pool is not None and not self._kept_out(view, pool)

    def cordoned(self, node: str) -> bool:
        """Return True if an administrator has cordoned the node."""
        view = self._views.get(node)
        return view is not None and view.cordoned

    def slots(self, node: str) -> tuple[str, ...]:
        """Return the slots, one for each GPU or slice, that the node offers now; none if it is in no pool."""
        view, pool = self._views.get(node), self.pool(node)
        if view is None or pool is None:
            return ()
        if self.counts_slots(node):
            return tuple(names.slot_of(node, index) for index in range(view.devices.get(pool.resource, 0)))
        return tuple(names.slot_of(node, device.index) for device in self._indexed(view, pool))

    def pools(self) -> Sequence[PodPool]:
        """Return the pools in force."""
        return self._pools()

    def of_pool(self, name: str) -> list[str]:
        """Return the names of the present nodes of a pool."""
        pools = self._pools()
        found = ((node, find_pool(pools, view.labels)) for node, view in self._views.items())
        return sorted(node for node, pool in found if pool is not None and pool.name == name)

    def in_pools(self) -> list[tuple[str, str, int]]:
        """Return name, pool and offered GPUs of each present node of a pool, sorted by name.

        A node without a GPU and without an agent is left out if its pool takes every node, because most nodes of a
        cluster have no GPU.
        """
        found = ((name, view, self.pool(name)) for name, view in sorted(self._views.items()))
        return [
            (name, pool.name, view.devices.get(pool.resource, 0))
            for name, view, pool in found
            if pool is not None
            and (pool.selector or view.devices.get(pool.resource) or self._agents.report(name) is not None)
        ]

    def names(self) -> Collection[str]:
        """Return the names of all present nodes."""
        return self._views.keys()

    def offered(
        self,
        used: Mapping[str, Collection[str]],
        blocked: Collection[str],
        ours: Callable[[str, str], bool],
        shared: Mapping[str, int] | None = None,
    ) -> tuple[Node, ...]:
        """Return the nodes of all pools as the core sees them, also those that are closed, and slots out of use.

        `used` are slots of live work by node, `blocked` slots that take nothing new. `ours` tells a pod of ours from a
        foreign one. `shared` is the number of slots of each node on which pods of ours have a share.
        """
        made = []
        for name, view in sorted(self._views.items()):
            pool = find_pool(self._pools(), view.labels)
            if pool is not None:
                foreign = self._foreign(view, pool, ours, (shared or {}).get(name, 0))
                slots = self._all_slots(name, used.get(name, ()), blocked)
                chosen = self._choose_open(view, pool, slots, used.get(name, ()), blocked, foreign)
                made.append(self._node(view, pool, slots, chosen))
        self._made = {node.name: self._made[node.name] for node in made}
        return tuple(made)

    def slots_with_device(
        self, node: str, used: Collection[str], blocked: Collection[str], ours: Callable[[str, str], bool]
    ) -> frozenset[str]:
        """Return the slots of a node for which a device works and is left, whether the node takes new work or not.

        For the arguments see `offered`.
        """
        view, pool = self._views.get(node), self.pool(node)
        if view is None or pool is None:
            return frozenset()
        foreign = self._foreign(view, pool, ours, 0)
        return self._choose_open(view, pool, self._all_slots(node, used, blocked), used, blocked, foreign)

    def _foreign(self, view: NodeView, pool: PodPool, ours: Callable[[str, str], bool], shared: int) -> int:
        """Return the number of the node's devices that foreign pods hold, as far as is known.

        If the provider's own pods hold the shared devices, `shared` devices are subtracted for them.
        """
        if not self.counts_slots(view.name):
            return self._agents.foreign_parts(view.name, pool.resource, ours)
        foreign = self._agents.foreign(view.name, pool.resource, ours)
        # A pod of the provider holds each shared device, in a namespace that only the provider's set-up knows.
        return max(0, foreign - shared) if PROVIDERS[pool.provider].holds_devices else foreign

    def _all_slots(self, node: str, used: Collection[str], blocked: Collection[str]) -> list[str]:
        """Return all slots of the node, those in use or blocked included, in order of their numbers.

        A slot stays without a device: a device plugin that starts again offers none for a moment, and administrators
        see a device that has failed. Slots that are neither in use nor blocked go once the machine has fewer devices.
        """
        known = (*self.slots(node), *used, *(slot for slot in blocked if names.node_of(slot) == node))
        before = 0 if self._has_all_devices(node) else self._most.get(node, 0)
        most = max([before, *(names.index_of(slot) + 1 for slot in known)])
        self._most[node] = most
        return [names.slot_of(node, index) for index in range(most)]

    def _has_all_devices(self, node: str) -> bool:
        """Return whether the device plugin offers all devices of the machine: as many as the agent lists, all working.

        False without a report of the agent, and where no plugin offers a device for each slot.
        """
        view, pool = self._views.get(node), self.pool(node)
        if view is None or pool is None or not self.counts_slots(node):
            return False
        told = self._reported_devices(view, pool)
        if not told or len(told) != len(self.slots(node)):
            return False
        return all(device.healthy for device in told) and self._agents.lists_all_devices(node)

    def _choose_open(
        self,
        view: NodeView,
        pool: PodPool,
        slots: Sequence[str],
        used: Collection[str],
        blocked: Collection[str],
        foreign: int,
    ) -> frozenset[str]:
        """Return the slots for which a device is left, by the rules of `open_slots`.

        `slots` are all slots of the node, `used` those that our runs hold, `blocked` those that may not be used, and
        `foreign` the number of devices that other pods hold. Whether the node takes new work does not matter.
        """
        told = self._reported_devices(view, pool)
        if self.counts_slots(view.name):
            working = view.devices.get(pool.resource, 0)
            if told and not (all(device.healthy for device in told) and self._agents.lists_all_devices(view.name)):
                # The agent may see a failure before the device plugin does.
                working = min(working, sum(device.healthy for device in told))
        else:
            indexes = {device.index for device in self._indexed(view, pool) if device.healthy}
            slots = [slot for slot in slots if names.index_of(slot) in indexes]
            working = len(slots)
        return choose_open_slots(
            slots, working, used=used, blocked=blocked, foreign=foreign, health=lambda slot: self._health(slot, told)
        )

    def _health(self, slot: str, told: Sequence[Device]) -> SlotHealth:
        """Return the state of the slot's device. `told` are the devices of its node as the agent describes them.

        The state is UNKNOWN if the device's name or the description is missing, and FAILED if the agent calls the
        device unhealthy or does not list it.
        """
        name = self.device_of_slot(slot)
        if not name or not told:
            return SlotHealth.UNKNOWN
        device = next((each for each in told if each.id == name), None)
        return SlotHealth.WORKS if device is not None and device.healthy else SlotHealth.FAILED

    def _node(self, view: NodeView, pool: PodPool, slots: Sequence[str], open_slots: frozenset[str]) -> Node:
        closed = self._kept_out(view, pool)
        if not closed and self.back_off.until(view.name):
            closed = f"{view.name} pauses after a failure"
        if not closed and self.mistrust.until(view.name):
            closed = f"{view.name} pauses: a container there did not see just its own devices"
        bad = set(slots) - (frozenset() if closed else open_slots)
        told = self._reported_devices(view, pool)
        shares = self._takes_shares(view.name, pool)
        cpu, memory = self.used_by_others(view.name)
        stamp = (view, pool, tuple(slots), frozenset(bad), told, shares, cpu, memory, closed)
        known = self._made.get(view.name)
        if known is not None and known[0] == stamp:
            return known[1]
        if closed and (known is None or known[1].closed != closed):
            log.info("nothing new goes to a node: %s", closed)
        node = Node(
            name=view.name,
            devices=tuple(device_of(view, pool, told, i, healthy=slot not in bad) for i, slot in enumerate(slots)),
            cpu_milli=None if view.cpu_milli is None else max(0, view.cpu_milli - cpu),
            memory=None if view.memory_mib is None else MiB(max(0, view.memory_mib - memory)),
            cpu_by_others=min(cpu, view.cpu_milli or 0),
            memory_by_others=MiB(min(memory, view.memory_mib or 0)),
            closed=closed,
            draining=view.cordoned and self._leave_cordoned,
            labels=offered_labels(view.labels, pool, shares=shares),
        )
        self._made[view.name] = (stamp, node)
        return node

    def _indexed(self, view: NodeView, pool: PodPool) -> tuple[Device, ...]:
        """Return the devices that the agent reported, for a node on which slot N is always device N.

        The result is empty if the device plugin offers nothing of the pool's resource.
        """
        # The device plugin offers several of each device.
        return self._agents.devices(view.name) if view.devices.get(pool.resource, 0) else ()

    def _reported_devices(self, view: NodeView, pool: PodPool) -> tuple[Device, ...]:
        """Return all devices that the node's agent reported; an empty tuple if the pool consists of slices here."""
        return () if sliced(view.labels, pool) else self._agents.devices(view.name)

    def _takes_shares(self, node: str, pool: PodPool) -> bool:
        if not PROVIDERS[pool.provider].needs_agent:
            return True
        return not (self._agents.unfit(node) or self._agents.names_no_uuid(node, pool.resource))

    def _kept_out(self, view: NodeView, pool: PodPool) -> str:
        """Return why nothing new goes to the node, as a phrase without a full stop; "" = something may."""
        if not view.ready:
            return f"{view.name} is not ready"
        if view.cordoned:
            return f"{view.name} is cordoned"
        for taint in view.taints:
            if taint[2] in _KEEPS_OUT and not any(_tolerates(each, taint) for each in pool.tolerations):
                return f"{view.name} has the taint {taint[0]}, which the pool {pool.name} does not tolerate"
        if not self.counts_slots(view.name) and not self._agents.devices(view.name):
            return f"{view.name} has no agent that tells its GPUs, and for {pool.provider} nobody else counts them"
        why = self._agents.names_no_uuid(view.name, pool.resource)
        if why and PROVIDERS[pool.provider].needs_reservation(pool, whole=True):
            return why.rstrip(".")
        return self._agents.refused(view.name).rstrip(".")


def _tolerates(toleration: Mapping[str, object], taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    if toleration.get("effect") and toleration["effect"] != effect:
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != key:
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == value
