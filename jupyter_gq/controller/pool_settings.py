"""Pools: which device serves what."""

from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_gq.domain.cluster import Device

from .traits import SettingsError

TRAIT = "Pools.pools"


def device_pools(pools: Mapping[str, Mapping[str, Any]], devices: Sequence[Device]) -> Mapping[str, str] | None:
    """The pool of each device by its id; None when no pool is set, so that all devices are in one.

    Pools that name their devices take them first; the others then take theirs from what is left, by index.
    """
    if not pools:
        return None
    owner: dict[str, str] = {}
    for name, entry in pools.items():
        _check_keys(name, entry)
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
    """The pool that serves notebooks ("build") or jobs ("train"); raise when it is not clear which."""
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


def _check_keys(name: str, entry: Mapping[str, Any]) -> None:
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
    if isinstance(wanted, int) and wanted < 0:
        raise SettingsError(TRAIT, wanted, "it is negative", fix, path=path)


def _find(pool: str, wanted: object, devices: Sequence[Device]) -> Device:
    found = [device for device in devices if wanted in {device.id, device.index} and not isinstance(wanted, bool)]
    if not found:
        there = ", ".join(f"{device.index} ({device.id})" for device in devices) or "none"
        problem = f"there is no device {wanted!r}"
        raise SettingsError(TRAIT, wanted, problem, f"devices here: {there}", path=(pool, "devices"))
    if len(found) > 1:
        problem = f"the index {wanted!r} is on more than one node"
        raise SettingsError(TRAIT, wanted, problem, "use the UUID", path=(pool, "devices"))
    return found[0]


def _take(pool: str, count: int, devices: Sequence[Device], owner: dict[str, str]) -> None:
    free = [device for device in devices if device.id not in owner]
    if count > len(free):
        others = len(devices) - len(free)
        problem = f"it wants {count} devices, but there are {len(devices)}"
        problem += f", and {others} of them are in other pools" if others else ""
        raise SettingsError(TRAIT, count, problem, f"use at most {len(free)}", path=(pool, "devices"))
    owner.update((device.id, pool) for device in free[:count])
