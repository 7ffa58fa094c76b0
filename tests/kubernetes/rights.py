"""What the service does in a cluster, call by call, and what it must never be able to do.

The chart's roles allow exactly `CALLS`: `tests/chart` compares them, `test_chart.py` asks a real API server. A new call
of the product is added here first. `test_story.py` sees that the service makes each, so that none stays here unused.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

#: Rooms of an installation; "" = the whole cluster.
HUB, NODES, TRAIN, CLUSTER = "hub", "nodes", "train", ""


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the API server."""

    #: Where: `HUB`, `NODES`, `TRAIN`, `CLUSTER`.
    room: str
    #: get, list, watch, create, update, delete, ...
    verb: str
    #: Such as pods or pods/exec.
    resource: str
    group: str = ""
    #: Only this one object; "lease" stands for the service's own Lease. "": any.
    name: str = ""


def _calls(room: str, resource: str, verbs: str, group: str = "", name: str = "") -> tuple[Call, ...]:
    return tuple(Call(room, verb, resource, group, name) for verb in verbs.split())


_LEASES = "coordination.k8s.io"
_JOBS = (*_calls(TRAIN, "jobs", "get create delete", "batch"), *_calls(TRAIN, "events", "list"))
_ALL_PODS = _calls(CLUSTER, "pods", "list watch")
_CORDON = _calls(CLUSTER, "nodes", "patch")

#: Everything that the service asks for with ordinary values.
CALLS: tuple[Call, ...] = (
    *_calls(CLUSTER, "nodes", "list watch"),
    *_calls(CLUSTER, "tokenreviews", "create", "authentication.k8s.io"),
    *_calls(HUB, "pods", "list watch"),
    *_calls(HUB, "leases", "create", _LEASES),
    *_calls(HUB, "leases", "get update", _LEASES, name="lease"),
    *_calls(NODES, "pods", "get list watch create delete"),
    *_calls(TRAIN, "pods", "get list watch create delete"),
    *_calls(TRAIN, "services", "get create delete"),
)
_TAKEN = "A name is taken that it wants to make something under, as after an answer that was lost: whose is it?"
#: Of these, what an ordinary day does not need, and what for.
SELDOM: dict[Call, str] = {
    **dict.fromkeys(_calls(NODES, "pods", "get"), _TAKEN),
    **dict.fromkeys(_calls(TRAIN, "pods", "get"), _TAKEN),
    **dict.fromkeys(_calls(TRAIN, "services", "get"), _TAKEN),
}
#: What it asks for besides, by the value that turns it on.
MORE: dict[str, tuple[Call, ...]] = {
    "training.asJobs": _JOBS,
    "observe.allPods": _ALL_PODS,
    "service.cordonNodes": _CORDON,
}

#: What it must not be able to do, with ordinary values.
FORBIDDEN: tuple[Call, ...] = (
    *_calls(HUB, "secrets", "get list"),
    *_calls(HUB, "pods", "get create delete patch update"),
    *_calls(HUB, "pods/exec", "create get"),
    *_calls(HUB, "persistentvolumeclaims", "get delete"),
    *_calls(HUB, "configmaps", "get update"),
    *_calls(HUB, "leases", "update delete", _LEASES, name="somebody-elses"),
    *_calls(HUB, "serviceaccounts/token", "create"),
    *_calls(NODES, "pods", "patch deletecollection"),
    *_calls(NODES, "pods/exec", "create get"),
    *_calls(NODES, "secrets", "get list"),
    *_calls(NODES, "daemonsets", "update", "apps"),
    *_calls(TRAIN, "pods", "patch update deletecollection"),
    *_calls(TRAIN, "pods/exec", "create get"),
    *_calls(TRAIN, "pods/log", "get"),
    *_calls(TRAIN, "secrets", "get list"),
    *_calls(TRAIN, "serviceaccounts/token", "create"),
    *_calls(TRAIN, "roles", "create", "rbac.authorization.k8s.io"),
    *_calls(CLUSTER, "pods", "list watch create delete"),
    *_calls(CLUSTER, "secrets", "list"),
    *_calls(CLUSTER, "nodes", "get update patch delete"),
    *_calls(CLUSTER, "namespaces", "get create delete"),
    *_calls(CLUSTER, "clusterroles", "create bind escalate", "rbac.authorization.k8s.io"),
    *_calls(CLUSTER, "users", "impersonate"),
    *_JOBS,
)


def granted(rules: list[dict[str, Any]], room: str) -> Iterator[Call]:
    """What the rules of a role allow, one by one."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    name = "lease" if rule.get("resourceNames") else ""
                    yield Call(room, verb, resource, group, name)


def made(requests: Iterable[Any], rooms: dict[str, str]) -> set[tuple[str, str, str]]:
    """Room, verb and resource of these requests, but of those that were forbidden; `rooms` by their namespaces."""
    return {(rooms[each.namespace], each.verb, each.resource) for each in requests if each.status != 403}
