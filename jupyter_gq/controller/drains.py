"""Drains: the nodes and devices that administrators take out of service, kept across restarts.

See docs/decisions/0078-let-the-service-keep-what-is-drained.md.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.audit import AuditEntry
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.store.protocol import Store

_SETTING = "drains"


@dataclass(frozen=True, kw_only=True, slots=True)
class Drain:
    """A drain that has begun and was not taken back."""

    #: Name of the node, or id of the device.
    name: str
    #: The administrator who began it.
    by: str
    since: Instant

    def describe(self) -> str:
        """Return a clause such as "drained by root since 2026-11-23 09:30 UTC"."""
        since = datetime.fromtimestamp(self.since, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
        return f"drained by {self.by} since {since}"


def load_drains(store: Store) -> dict[str, Drain]:
    """Return the stored drains by name."""
    document = store.setting(_SETTING) or {}
    return {name: Drain(name=name, by=each["by"], since=Instant(each["since"])) for name, each in document.items()}


def save_drains(store: Store, drains: Mapping[str, Drain], audit: Sequence[AuditEntry]) -> None:
    """Store these drains in place of all stored ones, and add these entries to the audit log."""
    document = {name: {"by": each.by, "since": each.since} for name, each in drains.items()}
    store.put_setting(_SETTING, document, audit)


def mark_drained(nodes: Iterable[Node], drained: Collection[str]) -> list[Node]:
    """Return the nodes, with those that `drained` names, and devices that it names, marked to take nothing new.

    `drained` holds names of nodes and ids of devices.
    """
    return [_marked(node, drained) for node in nodes]


def _withheld(device: Device) -> Device:
    """Return the device, taking nothing new from now on; one that works is `withheld`."""
    return replace(device, healthy=False, withheld=device.healthy or device.withheld)


def _marked(node: Node, drained: Collection[str]) -> Node:
    """Return the node as `mark_drained` marks it; the same object if neither it nor a device of it is drained."""
    whole = node.name in drained
    if not whole and not any(device.id in drained for device in node.devices):
        return node
    devices = tuple(
        _withheld(replace(device, draining=device.id in drained)) if whole or device.id in drained else device
        for device in node.devices
    )
    if not whole:
        return replace(node, devices=devices)
    return replace(node, devices=devices, closed=node.closed or f"{node.name} is being drained", draining=True)
