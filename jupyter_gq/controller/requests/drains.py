"""The requests of administrators that take nodes and devices out of service, and put them back.

Rules
-----
One machine: the service itself keeps what is drained, by the name of the node or the id of the device, until somebody
takes it back.

Clusters: the cluster keeps what is cordoned, and the service remembers who asked for it. Only whole nodes are drained
there. A node that somebody else has uncordoned is forgotten at the next step. Nothing is forgotten because of a node
that is not known now, as after a restart.

What leaves: the drain step of the cycle decides that (`scheduling.evict.drain`).
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from jupyter_gq.backends.capabilities import NodeCordon
from jupyter_gq.client.models import DrainList, DrainView
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.drains import Drain, save_drains
from jupyter_gq.controller.suspended_runs import waits_suspended
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.audit import Action, AuditEntry
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.errors import Conflict, NotFound, UserError
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.evict.drain import leaves_drained
from jupyter_gq.scheduling.wording import describe_workload, enumerate_names
from jupyter_gq.store.protocol import Record

log = logging.getLogger(__name__)

#: A refusal lists at most so many names.
_LISTED = 20
_NOTHING_RUNS = "Nothing of jupyter-gq runs there."


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """A node, or one device of a node."""

    #: Name of the node, or id of the device.
    name: str
    #: "" = a drained device that the machine no longer has.
    node: str
    device: Device | None = None

    def describe(self) -> str:
        """Return a phrase such as "The node box" or "GPU 1 of box"; for a device that is gone, its id and that fact."""
        if self.device is not None:
            return f"GPU {self.device.index} of {self.node}"
        return f"The node {self.node}" if self.node else f"{self.name}, which is not there,"

    def holds(self, workload: Workload) -> bool:
        """Return whether a task of the workload, or a replica that is leaving, is on this node or device."""
        return any(self.covers(task.node, task.devices) for task in workload.held_places)

    def keeps(self, record: Record) -> bool:
        """Return whether a waiting job was suspended on this node or device, and its run is kept."""
        place = record.detail.place
        return place is not None and waits_suspended(record) and self.covers(place.node, place.devices)

    def covers(self, node: str, devices: Collection[str]) -> bool:
        """Return whether a task on that node and those devices is on this node or device."""
        if self.device is not None:
            return self.device.id in devices
        return bool(self.node) and node == self.node


class Drains:
    """The drains of nodes and devices. The API gives them to administrators only."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def list_drains(self) -> DrainList:
        """Return all drains, the oldest first, with the work that still runs there."""
        drains = sorted(self._context.drains.values(), key=lambda drain: (drain.since, drain.name))
        return DrainList(drains=[self._view(drain, self._find(drain.name)) for drain in drains])

    async def begin(self, caller: Caller, name: str) -> DrainView:
        """Drain a node or device, so that it takes nothing new; store the drain, and wake the loop.

        `name` is the name of a node, or the id or index of a device. On a cluster the node is cordoned. Raises
        `NotFound` for an unknown name, `UserError` for a single device of a cluster, and `Conflict` if the node or
        device is drained already or may not be cordoned.
        """
        place, cordon = self._find(name), self._context.cordon
        if cordon is not None:
            await self._cordon(cordon, place)
        elif place.name in self._context.drains:
            raise Conflict(f"{place.describe()} is {self._context.drains[place.name].describe()} already.")
        drain = Drain(name=place.name, by=caller.user, since=self._context.clock.now())
        self._keep([*self._context.drains.values(), drain], _make_entry(Action.DRAIN_BEGIN, caller, place, drain.since))
        log.info("drain begun: name=%s by=%s", place.name, caller.user, extra={"user": caller.user})
        return self._view(drain, place)

    async def end(self, caller: Caller, name: str) -> DrainView:
        """End the drain of a node or device, store that, and wake the loop.

        The sentence of the answer says what takes new work again, and what still does not and why. On a cluster a
        cordoned node is uncordoned, whoever cordoned it. Raises `NotFound` for an unknown name, and `Conflict` if there
        is no drain, or if the node may not be uncordoned.
        """
        place, cordon = self._find(name), self._context.cordon
        if cordon is not None and place.device is None and cordon.is_cordoned(place.node):
            await cordon.set_cordoned(place.node, cordoned=False)
        elif place.name not in self._context.drains:
            node = f" Its node {place.node} is: undrain {place.node}." if place.node in self._context.drains else ""
            raise Conflict(f"{place.describe()} is not drained.{node}")
        now, drains = self._context.clock.now(), self._context.drains  # other drains may have begun meanwhile
        drain = drains.get(place.name) or Drain(name=place.name, by=caller.user, since=now)
        rest = [each for each in drains.values() if each.name != place.name]
        self._keep(rest, _make_entry(Action.DRAIN_END, caller, place, now))
        log.info("drain ended: name=%s by=%s", place.name, caller.user, extra={"user": caller.user})
        return self._view(drain, place).model_copy(update={"sentence": self._describe_end(place)})

    def forget_uncordoned(self) -> None:
        """Delete the drains of known nodes that somebody else has uncordoned.

        Does nothing without a cluster, or while a backend cannot be observed.
        """
        cordon, drains = self._context.cordon, self._context.drains
        if cordon is None or not drains or self._context.unobserved:
            return
        known = {node.name for node in self._context.offered_nodes()}
        uncordoned = {name for name in drains if name in known and not cordon.is_cordoned(name)}
        if uncordoned:
            self._keep([drain for drain in drains.values() if drain.name not in uncordoned])

    def _describe_end(self, place: _Place) -> str:
        """Return a sentence about a place whose drain has ended: it takes new work again, or why it still does not."""
        name = place.describe()
        node = next((node for node in self._context.nodes() if node.name == place.node), None)
        if node is None:
            return f"{name} is not drained any more."
        if closed := self._why_closed(node):
            return f"{name} is not drained any more, but takes nothing new: {closed}."
        devices = node.devices if place.device is None else [each for each in node.devices if each.id == place.name]
        shut = {f"GPU {device.index}": self._why_shut(device) for device in devices if not device.healthy}
        if shut and place.device is not None:
            return f"{name} is not drained any more, but takes nothing new: it {shut.popitem()[1]}."
        rest = "; ".join(f"{gpu} {why}" for gpu, why in shut.items())
        return (
            f"{name} takes new work again, with these exceptions: {rest}." if rest else f"{name} takes new work again."
        )

    def _why_closed(self, node: Node) -> str:
        """Return why a node takes nothing new, as a clause; "" if it is open.

        The cordon of a cluster's node is left out, since the cluster may show a node as cordoned a while longer.
        """
        if drain := self._context.drains.get(node.name):
            return f"the node {node.name} is {drain.describe()}"
        return "" if self._context.cordon is not None and node.draining else node.closed

    def _why_shut(self, device: Device) -> str:
        """Return why an unhealthy device takes nothing new, as the rest of a clause that begins with the device."""
        if drain := self._context.drains.get(device.id):
            return f"is {drain.describe()}"
        if any(device.id in run.devices for run in self._context.unknown_runs):
            return "is used by a job that is in no record"
        if any(device.id in run.devices for run in self._context.needless_runs):
            return "is used by a run that is told to end"
        return "is not healthy"

    async def _cordon(self, cordon: NodeCordon, place: _Place) -> None:
        """Cordon a node. Raises `UserError` for a single device, and `Conflict` if the node is cordoned already."""
        if place.device is not None:
            raise UserError(f"On a cluster whole nodes are drained, not single GPUs. Drain the node {place.node}.")
        if cordon.is_cordoned(place.node):
            known = self._context.drains.get(place.name)
            raise Conflict(f"{place.describe()} is {known.describe() if known else 'cordoned'} already.")
        await cordon.set_cordoned(place.node, cordoned=True)

    def _keep(self, drains: Sequence[Drain], *audit: AuditEntry) -> None:
        """Store these drains in place of all present ones, tell all listeners, and wake the loop."""
        context, kept = self._context, {drain.name: drain for drain in drains}
        save_drains(context.store, kept, audit)
        context.drains = kept
        context.broker.announce(None, "queues", "", {})
        context.wake()

    def _find(self, name: str) -> _Place:
        """Return the node or device of that name: a node's name, a device's id, or an index that only one device has.

        A drained device that is no longer there is found by its id. Raises `NotFound` for any other name.
        """
        nodes = self._context.nodes()
        devices = [(node.name, device) for node in nodes for device in node.devices]
        if any(node.name == name for node in nodes):
            return _Place(name=name, node=name)
        found = [each for each in devices if each[1].id == name] or [e for e in devices if str(e[1].index) == name]
        if len(found) == 1:
            return _Place(name=found[0][1].id, node=found[0][0], device=found[0][1])
        if name in self._context.drains:
            return _Place(name=name, node="")
        if found:
            raise NotFound(f"There is a GPU {name} on {len(found)} nodes. Use its UUID, or the name of a node.")
        gpus = [f"{device.index} ({device.id})" for _, device in devices] if self._context.cordon is None else []
        raise NotFound(
            f"There is no node and no GPU named {name!r}. Nodes: {_listed([node.name for node in nodes])}."
            + (f" GPUs: {_listed(gpus)}." if gpus else "")
        )

    def _view(self, drain: Drain, place: _Place) -> DrainView:
        """Return the view of a drain: who began it and when, and which work there leaves and which stays."""
        holding = [record.workload for record in self._context.records.holding()]
        there = [each for each in holding if each.holds and place.holds(each)]
        leaves = self._context.cordon is None or self._context.cordon.drains
        leaving = [each for each in there if each.stop is not None or (leaves and leaves_drained(each))]
        staying = [each for each in there if each not in leaving]
        suspended = [record.workload for record in self._context.records.unfinished() if place.keeps(record)]
        parts = [*_describe_holders(leaving, staying), *_describe_suspended(suspended)]
        return DrainView(
            name=drain.name,
            node=place.node,
            index=None if place.device is None else place.device.index,
            by=drain.by,
            since=drain.since,
            note=drain.describe(),
            leaving=[each.id for each in leaving],
            staying=[each.id for each in staying],
            suspended=[each.id for each in suspended],
            sentence=" ".join([f"{place.describe()} takes nothing new.", *(parts or [_NOTHING_RUNS])]),
        )


def _make_entry(action: Action, caller: Caller, place: _Place, at: Instant) -> AuditEntry:
    """Return the entry of the audit log for a drain that begins or ends."""
    details = {"node": place.node} if place.device is not None else {}
    return AuditEntry(at=at, actor=caller.user, action=action, object=place.name, details=details)


def _describe_holders(leaving: list[Workload], staying: list[Workload]) -> list[str]:
    """Return sentences that say which work leaves and which stays."""
    parts = []
    if leaving:
        parts.append(f"{enumerate_names([*map(describe_workload, leaving)])} will leave, with the usual grace period.")
    if staying:
        ends = "stays until it ends" if len(staying) == 1 else "stay until they end"
        parts.append(f"{enumerate_names([*map(describe_workload, staying)])} {ends}.")
    return parts


def _describe_suspended(suspended: list[Workload]) -> list[str]:
    """Return a sentence about the jobs whose suspended runs are kept there; no sentence if there is none."""
    if not suspended:
        return []
    names, is_one = enumerate_names([*map(describe_workload, suspended)]), len(suspended) == 1
    return [
        f"{names} {'is' if is_one else 'are'} suspended there, in host memory, and {'goes' if is_one else 'go'} on "
        "after the drain, or on another GPU if the driver can move GPU memory to it."
    ]


def _listed(names: list[str]) -> str:
    """Return the first `_LISTED` names as text, with the number of further names; "none" for no names."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more if names else "none"
