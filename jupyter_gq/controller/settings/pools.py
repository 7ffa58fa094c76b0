"""Pools of devices, and the checks of their settings.

On one machine a pool has `devices`. On a cluster it has `nodes`: labels of the nodes whose devices belong to the pool.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.json_types import JsonMapping
from jupyter_gq.domain.pod_pool import Hold, PodPool, Provider, Visibility

from .scale_up import scale_up
from .traits import SettingsError

TRAIT = "Pools.pools"
#: Keys of a pool of nodes.
_NODE_KEYS = ("nodes", "resource", "provider", "visibility", "hold", "tolerations", "scale_up")

_Choice = TypeVar("_Choice", bound=StrEnum)


def pod_pools(pools: Mapping[str, JsonMapping], *, on_cluster: bool = False) -> tuple[PodPool, ...]:
    """Return the pools of nodes; () if pools are of devices, or none is set. On a cluster all pools are of nodes.

    Raises `SettingsError` if a pool is wrong.
    """
    if not on_cluster and not any("nodes" in entry for entry in pools.values()):
        return ()
    return tuple(_pod_pool(name, entry) for name, entry in pools.items())


def expect_no_over_subscription(section: Mapping[str, object]) -> None:
    """Raise `SettingsError` if the section of a cluster sets `over_subscription`: the size of a pool changes there.

    See docs/decisions/0258-refuse-over-subscription-on-kubernetes.md.
    """
    if section.get("over_subscription", 1.0) != 1.0:
        problem = "on Kubernetes nodes come and go, so the quotas of users are not compared with the size of a pool"
        raise SettingsError("Pools.over_subscription", section["over_subscription"], problem, "remove the line")


def _pod_pool(name: str, entry: JsonMapping) -> PodPool:
    """Return a pool of nodes from its setting; raise `SettingsError` if the setting is wrong."""
    for key in entry:
        if key not in _NODE_KEYS:
            problem = (
                "pools of devices and pools of nodes cannot be mixed, and on Kubernetes there are only those of nodes"
                if key == "devices"
                else "there is no such key"
            )
            fix = f"use {', '.join(_NODE_KEYS)}"
            raise SettingsError(TRAIT, entry[key], problem, fix, path=(name, key))
    if "nodes" not in entry:
        fix = 'add the labels of its nodes, such as "nodes": {"jupyter-gq.org/pool": "build"}'
        raise SettingsError(TRAIT, dict(entry), 'it has no "nodes"', fix, path=(name,))
    provider = _choice(name, "provider", entry, Provider.RESERVATION)
    return PodPool(
        name=name,
        selector=_labels(name, entry["nodes"]),
        resource=_resource(name, entry.get("resource", "nvidia.com/gpu")),
        provider=provider,
        visibility=_choice(name, "visibility", entry, Visibility.ENV),
        hold=_choice(name, "hold", entry, Hold.DEMAND),
        tolerations=_tolerations(name, entry.get("tolerations", ())),
        scale_up=scale_up(name, entry.get("scale_up"), provider),
    )


def _labels(name: str, value: object) -> Mapping[str, str]:
    """Return the node labels in a setting; raise `SettingsError` unless it is a dict of texts."""
    if isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair):
        return dict(value)
    fix = 'use a dict of texts such as {"jupyter-gq.org/pool": "build"}; {} means every node'
    raise SettingsError(TRAIT, value, "these are not labels of nodes", fix, path=(name, "nodes"))


def _resource(name: str, value: object) -> str:
    """Return the resource name in a setting; raise `SettingsError` unless it has the form "vendor/name"."""
    if isinstance(value, str) and value.count("/") == 1 and all(value.split("/")):
        return value
    fix = 'use the name that the device plugin gives, such as "nvidia.com/gpu" or "nvidia.com/mig-1g.10gb"'
    raise SettingsError(TRAIT, value, "this is not the name of a resource", fix, path=(name, "resource"))


def _choice(name: str, key: str, entry: JsonMapping, default: _Choice) -> _Choice:
    """Return the value of a key as a member of the enumeration of `default`, which is used if the key is absent.

    Raises `SettingsError` for any other value.
    """
    value = entry.get(key, default.value)
    possible = [each.value for each in type(default)]
    if value not in possible:
        fix = f"use one of {', '.join(map(repr, possible))}"
        raise SettingsError(TRAIT, value, "there is no such value", fix, path=(name, key))
    return type(default)(value)


def _tolerations(name: str, value: object) -> tuple[JsonMapping, ...]:
    """Return the tolerations in a setting; raise `SettingsError` unless it is a list of dicts."""
    if isinstance(value, list | tuple) and all(isinstance(each, Mapping) for each in value):
        return tuple(dict(each) for each in value)
    fix = 'use a list such as [{"key": "nvidia.com/gpu", "operator": "Exists"}]'
    raise SettingsError(TRAIT, value, "these are not tolerations", fix, path=(name, "tolerations"))


def device_pools(pools: Mapping[str, JsonMapping], devices: Sequence[Device] | None) -> Mapping[str, str] | None:
    """Return the name of the pool of each device, by device id; None if no pool is set, so that one pool has all.

    Pools with a list of devices get theirs first; pools with a number then take free devices in order. Raises
    `SettingsError` for unknown, shared or too few devices. With `devices` None, the devices are not known: only the
    keys and types are checked, and None is returned.
    """
    for name, entry in pools.items():
        _check_keys(name, entry)
    _check_named_once(pools)
    if not pools or devices is None:
        return None
    owner: dict[str, str] = {}
    for name, entry in pools.items():
        if not isinstance(entry["devices"], int):
            for wanted in entry["devices"]:
                device = _find(name, wanted, devices)
                if device.id in owner:
                    problem = f"{wanted!r} is already in the pool {owner[device.id]!r}"
                    raise SettingsError(
                        TRAIT, entry["devices"], problem, "name each device in one pool only", path=(name, "devices")
                    )
                owner[device.id] = name
    for name, entry in pools.items():
        if isinstance(entry["devices"], int):
            _take(name, entry["devices"], devices, owner)
    return owner


def pool_for(purpose: str, chosen: str, pools: Sequence[str]) -> str:
    """Return the pool of notebooks (`purpose` "build") or jobs ("train"): the chosen, the namesake or the only one.

    Raises `SettingsError` if the chosen pool does not exist, or if it is not clear which pool it is.
    """
    names = ", ".join(repr(pool) for pool in pools)
    if chosen:
        if chosen not in pools:
            raise SettingsError(f"Pools.{purpose}", chosen, "there is no such pool", f"use one of {names}")
        return chosen
    if purpose in pools:
        return purpose
    if len(pools) == 1:
        return pools[0]
    raise SettingsError(
        f"Pools.{purpose}", "", "it is not clear which pool it is", f"set c.Pools.{purpose} to one of {names}"
    )


def _check_keys(name: str, entry: JsonMapping) -> None:
    """Raise `SettingsError` unless a pool of devices has only the key "devices", with a number from 0 or a list.

    The list may hold indices and UUIDs.
    """
    for key in entry:
        if key != "devices":
            raise SettingsError(
                TRAIT, entry[key], "there is no such key", 'the only one is "devices"', path=(name, key)
            )
    path = (name, "devices")
    fix = "use a number of devices such as 1, or a list of indices and UUIDs"
    if "devices" not in entry:
        raise SettingsError(TRAIT, dict(entry), 'it has no "devices"', fix, path=(name,))
    wanted = entry["devices"]
    if isinstance(wanted, bool) or not isinstance(wanted, int | list | tuple):
        raise SettingsError(TRAIT, wanted, "it is neither a number nor a list", fix, path=path)
    if not isinstance(wanted, int):
        for device in wanted:
            if isinstance(device, bool) or not isinstance(device, int | str):
                raise SettingsError(TRAIT, device, "it is neither an index nor a UUID", fix, path=path)
    if isinstance(wanted, int) and wanted < 0:
        raise SettingsError(TRAIT, wanted, "it is negative", fix, path=path)


def _check_named_once(pools: Mapping[str, JsonMapping]) -> None:
    """Raise `SettingsError` if the lists of the pools name an index or UUID twice."""
    owner: dict[int | str, str] = {}
    for name, entry in pools.items():
        for wanted in () if isinstance(entry["devices"], int) else entry["devices"]:
            if wanted in owner:
                problem = f"{wanted!r} is already in the pool {owner[wanted]!r}"
                raise SettingsError(TRAIT, entry["devices"], problem, "name each device once", path=(name, "devices"))
            owner[wanted] = name


def _find(pool: str, wanted: int | str, devices: Sequence[Device]) -> Device:
    """Return the device with that id or index; raise `SettingsError` if there is none, or if the index is ambiguous."""
    found = [device for device in devices if wanted in {device.id, device.index}]
    if not found:
        there = ", ".join(f"{device.index} ({device.id})" for device in devices) or "none"
        problem = f"there is no device {wanted!r}"
        raise SettingsError(TRAIT, wanted, problem, f"devices here: {there}", path=(pool, "devices"))
    if len(found) > 1:
        problem = f"the index {wanted!r} is on more than one node"
        raise SettingsError(TRAIT, wanted, problem, "use the UUID", path=(pool, "devices"))
    return found[0]


def _take(pool: str, count: int, devices: Sequence[Device], owner: dict[str, str]) -> None:
    """Assign the first `count` free devices to the pool, in `owner`; raise `SettingsError` if there are fewer."""
    free = [device for device in devices if device.id not in owner]
    if count > len(free):
        total, others = len(devices), len(devices) - len(free)
        wanted = f"{count} device{'s' if count > 1 else ''}"
        problem = f"it wants {wanted}, but there {'is' if total == 1 else 'are'} {total}"
        problem += f", of which other pools have {others}" if others else ""
        shared = "use one pool for notebooks and jobs, or take devices from another pool"
        fix = shared if others and not free else f"use at most {len(free)}"
        raise SettingsError(TRAIT, count, problem, fix, path=(pool, "devices"))
    owner.update((device.id, pool) for device in free[:count])
