"""What NetworkPolicies let through: a reading of their rules that needs no cluster and no network plugin.

As Kubernetes defines it: a pod that no policy selects (for that direction) talks to everybody; one that some select
talks to whom at least one of them names. A connection needs both its ends.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """A pod, or an address that is none (namespace "")."""

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Addresses of pods are private ones.
    address: str = "10.42.0.7"
    #: Names of its ports.
    ports: Mapping[str, int] = field(default_factory=dict)


Policy = Mapping[str, Any]


def connects(policies: Sequence[Policy], source: Peer, target: Peer, port: int, protocol: str = "TCP") -> bool:
    """Whether `source` reaches that port of `target`."""
    return _lets(policies, source, target, "Egress", target, port, protocol) and _lets(
        policies, target, source, "Ingress", target, port, protocol
    )


def _lets(
    policies: Sequence[Policy], pod: Peer, other: Peer, direction: str, target: Peer, port: int, protocol: str
) -> bool:
    if not pod.namespace:
        return True  # no pod: nothing selects it
    selecting = [
        policy["spec"]
        for policy in policies
        if policy["metadata"]["namespace"] == pod.namespace
        and direction in policy["spec"]["policyTypes"]
        and _fits(policy["spec"]["podSelector"], pod.labels)
    ]
    if not selecting:
        return True
    side = "to" if direction == "Egress" else "from"
    rules = [rule for spec in selecting for rule in spec.get(direction.lower(), ())]
    return any(
        (side not in rule or any(_names(peer, other, pod.namespace) for peer in rule[side]))
        and ("ports" not in rule or any(_opens(entry, target, port, protocol) for entry in rule["ports"]))
        for rule in rules
    )


def _names(peer: Mapping[str, Any], other: Peer, own_namespace: str) -> bool:
    if block := peer.get("ipBlock"):
        address = ipaddress.ip_address(other.address)
        inside = address in ipaddress.ip_network(block["cidr"])
        return inside and not any(address in ipaddress.ip_network(part) for part in block.get("except", ()))
    if not other.namespace:
        return False
    if "namespaceSelector" in peer:
        of_namespace = {"kubernetes.io/metadata.name": other.namespace}
        if not _fits(peer["namespaceSelector"], of_namespace):
            return False
    elif other.namespace != own_namespace:
        return False
    return _fits(peer.get("podSelector", {}), other.labels)


def _fits(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    unknown = selector.keys() - {"matchLabels"}
    assert not unknown, f"this reading knows no {unknown}"
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def _opens(entry: Mapping[str, Any], target: Peer, port: int, protocol: str) -> bool:
    wanted = entry["port"]
    number = target.ports.get(wanted) if isinstance(wanted, str) else wanted
    return number == port and entry.get("protocol", "TCP") == protocol
