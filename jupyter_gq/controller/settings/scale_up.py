"""The setting "scale_up" of a pool of nodes: the size of a new node, and the most nodes of the pool."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from jupyter_gq.domain.amount import parse_cpus, parse_memory
from jupyter_gq.domain.errors import InvalidAmount
from jupyter_gq.domain.json_types import JsonMapping
from jupyter_gq.domain.pod_pool import Provider, ScaleUp

from .traits import SettingsError

TRAIT = "Pools.pools"
#: The keys of "scale_up"; the first two must be there.
KEYS = ("gpus", "nodes", "cpus", "memory")

_Amount = TypeVar("_Amount", bound=int)


def scale_up(pool: str, value: object, provider: Provider) -> ScaleUp | None:
    """Return the setting "scale_up" of a pool: the size and largest number of its nodes; None if it is not set.

    Raises `SettingsError` if it is wrong, or if the provider of the pool is HAMi.
    """
    if value is None:
        return None
    path = (pool, "scale_up")
    if provider is Provider.HAMI:
        # HAMi's device plugin counts parts of devices: whole nodes cannot be asked for by their number.
        fix = 'leave it out, or use the provider "reservation"'
        raise SettingsError(TRAIT, value, 'a pool with the provider "hami" cannot grow', fix, path=path)
    if not isinstance(value, Mapping):
        fix = 'use a dict such as {"gpus": 8, "nodes": 4}, or leave it out'
        raise SettingsError(TRAIT, value, "it does not say what a new node has", fix, path=path)
    for key in value:
        if key not in KEYS:
            raise SettingsError(TRAIT, value[key], "there is no such key", f"use {', '.join(KEYS)}", path=(*path, key))
    return ScaleUp(
        gpus=_count(path, "gpus", value, "the GPUs of a new node, such as 8"),
        nodes=_count(path, "nodes", value, "the most nodes that the pool may have, such as 4"),
        cpu_milli=_amount(path, "cpus", value, parse_cpus),
        memory=_amount(path, "memory", value, parse_memory),
    )


def _count(path: tuple[str, ...], key: str, entry: JsonMapping, what: str) -> int:
    """Return the whole number above 0 under a required key; raise `SettingsError` if it is missing or anything else."""
    if key not in entry:
        raise SettingsError(TRAIT, dict(entry), f'it has no "{key}"', f"add {what}", path=path)
    value = entry[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingsError(TRAIT, value, "it is no whole number above 0", f"use {what}", path=(*path, key))
    return value


def _amount(path: tuple[str, ...], key: str, entry: JsonMapping, parse: Callable[[object], _Amount]) -> _Amount | None:
    """Return the amount above 0 under a key; None if the key is absent.

    Raises `SettingsError` if it is invalid or 0.
    """
    value = entry.get(key)
    if value is None:
        return None
    try:
        amount = parse(value)
    except InvalidAmount as error:
        raise SettingsError(TRAIT, value, error.problem, error.fix, path=(*path, key)) from error
    if not amount:
        fix = "use what pods can have of it, or leave it out where that is not known"
        raise SettingsError(TRAIT, value, "a node without any could run nothing", fix, path=(*path, key))
    return amount
