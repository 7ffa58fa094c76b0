"""CPU and memory of training queues: the settings and their checks.

Rules
-----
Not counted if not named: a queue that names no amount has no limit, and is never above a quota. A GPU quota that is not
named is 0 instead.

Sums: the quotas of the queues below a queue fit its own quota, or else its limit, if it has one. The quotas of
the roots fit the nodes, if these are known. A queue without a quota counts with the sum of the queues below it.

Bounds: a limit is not below the quota. The default of a queue fits every limit above it, and a node, if these are
known.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from jupyter_gq.domain.amount import MiB, MilliCpu, parse_cpus, parse_memory
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.errors import InvalidAmount
from jupyter_gq.domain.json_types import JsonMapping
from jupyter_gq.scheduling.wording import describe_cores, describe_memory

from .traits import SettingsError

T = TypeVar("T")
TRAIT = "TrainingQueues.queues"
#: Names of queues and what the config says of each.
Entries = Mapping[str, JsonMapping]


@dataclass(frozen=True, kw_only=True, slots=True)
class Defaults:
    """The CPU and memory of each task of a job that names none; None = nothing is said."""

    cpu_milli: MilliCpu | None = None
    memory: MiB | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueHostResources:
    """The quotas, limits and defaults of CPU and memory of one queue; None = not set."""

    cpu_quota: MilliCpu | None
    cpu_limit: MilliCpu | None
    memory_quota: MiB | None
    memory_limit: MiB | None
    #: The queue's own defaults, else those of the queue above it.
    defaults: Defaults


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kind:
    """CPU or memory: its keys in the configuration, and how its amounts are written."""

    word: str
    parse: Callable[[object], int]
    text: Callable[[int], str]
    of_node: Callable[[Node], int | None]


_CPU = _Kind(word="cpus", parse=parse_cpus, text=describe_cores, of_node=lambda node: node.cpu_milli)
_MEMORY = _Kind(word="memory", parse=parse_memory, text=describe_memory, of_node=lambda node: node.memory)
_WHATS = ("quota", "limit", "default")
KEYS = tuple(f"{what}_{kind.word}" for kind in (_CPU, _MEMORY) for what in _WHATS)


def host_resources_by_queue(
    order: Sequence[str], entries: Entries, nodes: Sequence[Node]
) -> dict[str, QueueHostResources]:
    """Return the CPU and memory amounts of all queues by name; raise `SettingsError` if they contradict each other.

    `order` has parents before children. `nodes` are those of the pool; () if they cannot be known.
    """
    cpu = _checked(_CPU, order, entries, nodes)
    memory = _checked(_MEMORY, order, entries, nodes)
    return {
        name: QueueHostResources(
            cpu_quota=_or_none(MilliCpu, cpu[name]["quota"]),
            cpu_limit=_or_none(MilliCpu, cpu[name]["limit"]),
            memory_quota=_or_none(MiB, memory[name]["quota"]),
            memory_limit=_or_none(MiB, memory[name]["limit"]),
            defaults=Defaults(
                cpu_milli=_or_none(MilliCpu, cpu[name]["default"]), memory=_or_none(MiB, memory[name]["default"])
            ),
        )
        for name in order
    }


#: Amounts of a queue by "quota", "limit" and "default".
_Amounts = dict[str, int | None]


def _or_none(kind: Callable[[int], T], value: int | None) -> T | None:
    return None if value is None else kind(value)


def _checked(kind: _Kind, order: Sequence[str], entries: Entries, nodes: Sequence[Node]) -> dict[str, _Amounts]:
    """Return the amounts of CPU or of memory by queue, with defaults inherited from the queue above.

    Raises `SettingsError` if an amount is invalid or contradicts another amount or the nodes.
    """
    said: dict[str, _Amounts] = {}
    for name in order:
        said[name] = {what: _amount(kind, name, what, entries[name]) for what in _WHATS}
        parent = entries[name].get("parent")
        if said[name]["default"] is None and parent is not None:
            said[name]["default"] = said[parent]["default"]
    promised = _promised(order, entries, said)
    counted = [amount for node in nodes if (amount := kind.of_node(node)) is not None]
    for name in order:
        _check_limit(kind, name, entries, said)
        _check_below(kind, name, entries, said, promised[name])
    _check_defaults(kind, order, entries, said, counted)
    if counted:
        _check_nodes(kind, promised[None], sum(counted))
    return said


def _amount(kind: _Kind, name: str, what: str, entry: JsonMapping) -> int | None:
    """Return the amount `what` ("quota", "limit" or "default") of a queue; None if it is not set.

    Raises `SettingsError` if it is invalid.
    """
    key = f"{what}_{kind.word}"
    value = entry.get(key)
    if value is None:
        return None
    try:
        return kind.parse(value)
    except InvalidAmount as error:
        raise SettingsError(TRAIT, value, error.problem, error.fix, path=(name, key)) from error


def _check_limit(kind: _Kind, name: str, entries: Entries, said: Mapping[str, _Amounts]) -> None:
    """Raise `SettingsError` if the limit of a queue is below its quota."""
    quota, limit = said[name]["quota"], said[name]["limit"]
    if limit is not None and quota is not None and limit < quota:
        problem, fix = (
            f"the limit is below the quota of {kind.text(quota)}",
            f"use at least {kind.text(quota)}, or None",
        )
        raise _wrong(kind, name, "limit", entries, problem, fix)


def _check_below(
    kind: _Kind, name: str, entries: Entries, said: Mapping[str, _Amounts], below: Mapping[str, int]
) -> None:
    """Raise `SettingsError` if the queues just below a queue are promised more than its quota, or else its limit.

    `below` holds the promised amount of each of them.
    """
    what = "limit" if said[name]["quota"] is None else "quota"
    bound = said[name][what]
    promised = sum(below.values())
    if bound is not None and promised > bound:
        parts = " + ".join(f"{other} {kind.text(amount)}" for other, amount in below.items() if amount)
        problem = f"the queues below it are promised {kind.text(promised)} ({parts})"
        raise _wrong(kind, name, what, entries, problem, f"use at least {kind.text(promised)}, or lower theirs")


def _promised(order: Sequence[str], entries: Entries, said: Mapping[str, _Amounts]) -> dict[str | None, dict[str, int]]:
    """Return the amounts promised to the queues just below each queue, by name; the key None stands for the roots.

    A queue is promised its quota, or without a quota, the sum of what the queues below it are promised.
    """
    found: dict[str | None, dict[str, int]] = {None: {}, **{name: {} for name in order}}
    for name in reversed(order):
        quota = said[name]["quota"]
        found[entries[name].get("parent")][name] = sum(found[name].values()) if quota is None else quota
    return {above: dict(reversed(below.items())) for above, below in found.items()}


def _check_defaults(
    kind: _Kind, order: Sequence[str], entries: Entries, said: Mapping[str, _Amounts], counted: Sequence[int]
) -> None:
    """Raise `SettingsError` if the default of a queue exceeds its limit, a limit above it, or every node.

    The error names the queue that sets the default. `counted` are the amounts of the nodes; () if they are not known.
    `order` has parents before children.
    """
    own: dict[str | None, str | None] = {None: None}
    lowest: dict[str | None, tuple[int, str] | None] = {None: None}
    for name in order:
        parent, limit, default = entries[name].get("parent"), said[name]["limit"], said[name]["default"]
        above = lowest[parent]
        lowest[name] = (limit, name) if limit is not None and (above is None or limit <= above[0]) else above
        own[name] = own[parent] if entries[name].get(f"default_{kind.word}") is None else name
        if default is not None:
            problem = _describe_excess(kind, default, lowest[name], counted)
            if problem:
                fix = "use less: jobs that name nothing could never run"
                raise _wrong(kind, own[name] or name, "default", entries, problem, fix)


def _describe_excess(kind: _Kind, default: int, lowest: tuple[int, str] | None, counted: Sequence[int]) -> str:
    """Return which bound a default exceeds; "" if it exceeds none.

    `lowest` is the lowest limit that binds the queue, with the name of the queue that sets it.
    """
    if lowest is not None and default > lowest[0]:
        return f"the limit of {lowest[1]} is {kind.text(lowest[0])}"
    if counted and default > max(counted):
        return f"no node has more than {kind.text(max(counted))}"
    return ""


def _check_nodes(kind: _Kind, below: Mapping[str, int], there: int) -> None:
    """Raise `SettingsError` if the root queues in `below` are promised more together than `there`, the nodes' total."""
    roots = [name for name, amount in below.items() if amount]
    promised = sum(below.values())
    if promised > there:
        problem = f"the queues {', '.join(roots)} are promised {kind.text(promised)} together"
        problem += f", but the nodes have {kind.text(there)}"
        raise SettingsError(TRAIT, roots, problem, f"lower their quota_{kind.word}")


def _wrong(kind: _Kind, name: str, what: str, entries: Entries, problem: str, fix: str) -> SettingsError:
    """Return the error about the amount `what` of a queue: "quota", "limit" or "default"."""
    key = f"{what}_{kind.word}"
    return SettingsError(TRAIT, entries[name].get(key), problem, fix, path=(name, key))
