"""Training queues and fixed quotas, and the checks that pools can keep what they promise."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import ceil, inf

from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.amount import ONE_GPU, MilliGpu, Seconds, format_gpus, parse_quota
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.errors import InvalidAmount
from jupyter_gq.domain.json_types import JsonMapping
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.domain.queue import BUILD_ROOT, MAX_PRIORITY, Queue

from . import queue_resources
from .queue_resources import TRAIT, Defaults, QueueHostResources, host_resources_by_queue
from .traits import SettingsError, as_float, check_plain

KEYS = (
    "quota",
    "limit",
    *queue_resources.KEYS,
    "over_quota_weight",
    "priority",
    "preempt_min_runtime",
    "reclaim_min_runtime",
    "parent",
    "users",
    "groups",
    "max_priority",
    "max_seconds",
    "managers",
    "manager_groups",
)
#: The most levels of queues: the scheduler visits all queues above a job for each decision about it.
MOST_LEVELS = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingQueue:
    """A training queue, who may send jobs to it, and with which priority."""

    queue: Queue
    #: Names of users, own ones or those of the nearest queue above that names some.
    users: frozenset[str] = frozenset()
    #: Names of hub groups.
    groups: frozenset[str] = frozenset()
    #: Names of users and of hub groups who manage the queue, or a queue above it.
    managers: frozenset[str] = frozenset()
    manager_groups: frozenset[str] = frozenset()
    #: The highest priority that users who do not manage the queue may give to a job.
    max_priority: int = 0
    #: The longest time that a job may run, over all of its runs; None = no limit.
    max_seconds: Seconds | None = None
    #: What each task of a job has that names no CPU or memory.
    defaults: Defaults = Defaults()  # noqa: RUF009 - it is frozen

    def admits(self, user: str, groups: frozenset[str]) -> bool:
        """Return whether the user may send jobs to the queue, as a named user, a member of a named group, or a manager.

        If the queue names no users and no groups, everybody may.
        """
        everybody = not self.users and not self.groups
        return everybody or user in self.users or bool(self.groups & groups) or self._names_manager(user, groups)

    def highest_priority(self, caller: Caller) -> int:
        """Return the highest priority that the caller may give to a job: `MAX_PRIORITY` for admins and managers."""
        return MAX_PRIORITY if caller.admin or self.is_managed_by(caller) else self.max_priority

    def is_managed_by(self, caller: Caller) -> bool:
        """Return whether the settings name the caller, or a group of the caller, as a manager of the queue."""
        return self._names_manager(caller.user, caller.groups)

    def _names_manager(self, user: str, groups: frozenset[str]) -> bool:
        return user in self.managers or bool(self.manager_groups & groups)


def training_queues(
    entries: Mapping[str, JsonMapping], pool: str, devices: int | None, nodes: Sequence[Node] = ()
) -> tuple[TrainingQueue, ...]:
    """Return the training queues of the config, parents before children; raise `SettingsError` for a fault.

    `devices` is the number of devices of the pool, and `nodes` are its nodes; None and () if they are not known.
    """
    for name, entry in entries.items():
        _check_name(name, entry)
    depths = _depths(entries)
    order = sorted(entries, key=depths.__getitem__)
    below = _queues_below(order, entries)
    quotas = _quotas(order, entries, below)
    _check_sums(order, entries, quotas, below)
    roots = below[None]
    _check_pool(sum(quotas[name] for name in roots), pool, devices, roots)
    host = host_resources_by_queue(order, entries, nodes)
    built: dict[str, TrainingQueue] = {}
    for name in order:
        parent = entries[name].get("parent")
        training = TrainingQueue(
            queue=_queue(name, entries[name], pool, quotas[name], host[name]), defaults=host[name].defaults
        )
        built[name] = _with_people(training, entries[name], None if parent is None else built[parent])
    return tuple(built.values())


def check_fixed_quotas(
    default: int, groups: Mapping[str, int], users: Mapping[str, int], pool: tuple[str, int, float]
) -> None:
    """Raise `SettingsError` if a fixed quota exceeds the build pool, or if the quotas of all named users do together.

    Quotas are in milli-GPU. `pool` is (name, number of devices, factor); the factor multiplies the pool for the sum.
    """
    name, devices, factor = pool
    total = devices * ONE_GPU
    named: list[tuple[str, tuple[str, ...], int]] = [("FixedQuota.default", (), default)]
    named += [("FixedQuota.groups", (group,), quota) for group, quota in groups.items()]
    named += [("FixedQuota.users", (user,), quota) for user, quota in users.items()]
    for trait, path, quota in named:
        if quota > total:
            problem = f"the build pool {name!r} has only {format_gpus(total)} GPU"
            raise SettingsError(
                trait,
                format_gpus(quota),
                problem,
                f"use at most {format_gpus(total)}, or give the pool more devices",
                path=path,
            )
    promised = sum(users.values())
    if promised > total * factor:
        problem = (
            f"the named users are promised {format_gpus(promised)} GPU together, but the build pool {name!r} has "
            f"{format_gpus(total)}" + (f" (times {factor:g})" if factor != 1 else "")
        )
        needed = ceil(100 * promised / total) / 100 if total else 1
        fix = f"lower them, or allow waiting with c.Pools.over_subscription = {needed:g} or more"
        raise SettingsError(
            "FixedQuota.users", {user: format_gpus(quota) for user, quota in users.items()}, problem, fix
        )


def _check_name(name: str, entry: JsonMapping) -> None:
    """Raise `SettingsError` if the queue has a reserved name, an unknown key, or a parent that is not text."""
    if name == BUILD_ROOT or "/" in name:
        raise SettingsError(
            TRAIT, name, f'"{BUILD_ROOT}" and names with "/" are taken by notebooks', "use another name"
        )
    for key in entry:
        if key not in KEYS:
            close = get_close_matches(key, KEYS, n=1)
            fix = f'did you mean "{close[0]}"?' if close else f"use one of {', '.join(KEYS)}"
            raise SettingsError(TRAIT, entry[key], "there is no such key", fix, path=(name, key))
    parent = entry.get("parent")
    if parent is not None and not isinstance(parent, str):
        raise SettingsError(TRAIT, parent, "it is not a name", "use the name of another queue", path=(name, "parent"))


def _depths(entries: Mapping[str, JsonMapping]) -> dict[str, int]:
    """Return the number of queues above each.

    Raises `SettingsError` for an unknown parent, a cycle of parents, or more than `MOST_LEVELS` levels.
    """
    depths: dict[str, int] = {}
    for name in entries:
        chain: dict[str, None] = {}
        above: str | None = name
        while above is not None and above not in depths:
            chain[above] = None
            above = _parent(above, entries, chain)
        first = 0 if above is None else depths[above] + 1
        depths.update((each, depth) for depth, each in enumerate(reversed(chain), first))
        if depths[name] >= MOST_LEVELS:
            problem, fix = f"the queue has {depths[name]} queues above it", f"use at most {MOST_LEVELS} levels"
            raise SettingsError(TRAIT, entries[name].get("parent"), problem, fix, path=(name, "parent"))
    return depths


def _parent(name: str, entries: Mapping[str, JsonMapping], chain: Collection[str]) -> str | None:
    """Return the parent of a queue, None for a root; raise `SettingsError` if it is unknown, or in the chain below."""
    parent: str | None = entries[name].get("parent")
    path = (name, "parent")
    if parent is not None and parent not in entries:
        known = ", ".join(repr(other) for other in entries if other != name) or "none"
        fix = f"use one of the other queues ({known}), or None"
        raise SettingsError(TRAIT, parent, "there is no queue of that name", fix, path=path)
    if parent in chain:
        circle = " -> ".join([*chain, str(parent)])
        raise SettingsError(
            TRAIT, parent, f"the queues are above one another: {circle}", "use None for one of them", path=path
        )
    return parent


#: The names of the queues just below each queue; None stands for the roots.
_Below = Mapping[str | None, Sequence[str]]


def _queues_below(order: Sequence[str], entries: Mapping[str, JsonMapping]) -> _Below:
    """Return the names of the queues just below each queue, in this order; the key None stands for the roots."""
    below: dict[str | None, list[str]] = {None: [], **{name: [] for name in order}}
    for name in order:
        below[entries[name].get("parent")].append(name)
    return below


def _quotas(order: Sequence[str], entries: Mapping[str, JsonMapping], below: _Below) -> dict[str, MilliGpu]:
    """Return the quota of each queue in milli-GPU; a queue that sets none has the sum of the queues just below it."""
    quotas: dict[str, MilliGpu] = {}
    for name in reversed(order):
        if entries[name].get("quota") is not None:
            quotas[name] = _amount(name, "quota", entries[name]["quota"])
        else:
            quotas[name] = MilliGpu(sum(quotas[child] for child in below[name]))
    return quotas


def _check_sums(
    order: Sequence[str], entries: Mapping[str, JsonMapping], quotas: Mapping[str, MilliGpu], below: _Below
) -> None:
    """Raise `SettingsError` if the quotas of the queues just below a queue are larger together than its own quota."""
    for name in order:
        children = {child: quotas[child] for child in below[name]}
        promised = sum(children.values())
        if promised > quotas[name]:
            parts = " + ".join(f"{child} {format_gpus(quota)}" for child, quota in children.items())
            problem = f"the queues below it are promised {format_gpus(promised)} GPU ({parts})"
            fix = f"use at least {format_gpus(promised)}, or lower theirs"
            raise SettingsError(TRAIT, entries[name]["quota"], problem, fix, path=(name, "quota"))


def _check_pool(promised: int, pool: str, devices: int | None, roots: Sequence[str]) -> None:
    """Raise `SettingsError` if the root queues are promised more milli-GPU than the pool has; None = not known."""
    if devices is not None and promised > devices * ONE_GPU:
        problem = f"the queues {', '.join(roots)} are promised {format_gpus(promised)} GPU together"
        problem += f", but the pool {pool!r} has {devices}"
        raise SettingsError(TRAIT, roots, problem, "lower their quotas, or give the pool more devices")


def _queue(name: str, entry: JsonMapping, pool: str, quota: MilliGpu, host: QueueHostResources) -> Queue:
    """Return a training queue from its setting; raise `SettingsError` if a value is wrong or the limit is too low.

    The limit is too low if it is below `quota`, which is in milli-GPU.
    """
    limit = None if entry.get("limit") is None else _amount(name, "limit", entry["limit"])
    if limit is not None and limit < quota:
        problem = f"the limit is below the quota of {format_gpus(quota)}"
        fix = f"use at least {format_gpus(quota)}, or None for no limit"
        raise SettingsError(TRAIT, entry["limit"], problem, fix, path=(name, "limit"))
    return Queue(
        name=name,
        pool=pool,
        parent=entry.get("parent"),
        quota=quota,
        limit=limit,
        cpu_quota=host.cpu_quota,
        cpu_limit=host.cpu_limit,
        memory_quota=host.memory_quota,
        memory_limit=host.memory_limit,
        over_quota_weight=_integer(name, "over_quota_weight", entry.get("over_quota_weight", 1), minimum=0),
        priority=_integer(name, "priority", entry.get("priority", 0), minimum=None),
        preempt_min_runtime=_seconds(name, "preempt_min_runtime", entry),
        reclaim_min_runtime=_seconds(name, "reclaim_min_runtime", entry),
    )


def _with_people(training: TrainingQueue, entry: JsonMapping, above: TrainingQueue | None) -> TrainingQueue:
    """Return the queue with those who may use and manage it, its `max_priority` and its `max_seconds`.

    A queue that names neither users nor groups has those of the queue above; a queue that sets no `max_priority` has
    that of the queue above. Managers of the queue above manage this one too. Of `max_seconds`, the smaller one counts.
    See docs/decisions/0242-let-a-queue-inherit-its-users.md.
    """
    name, above = training.queue.name, above or TrainingQueue(queue=training.queue)
    users, groups = _names(name, "users", entry), _names(name, "groups", entry)
    highest = entry.get("max_priority")
    return replace(
        training,
        users=users if users or groups else above.users,
        groups=groups if users or groups else above.groups,
        managers=_names(name, "managers", entry) | above.managers,
        manager_groups=_names(name, "manager_groups", entry) | above.manager_groups,
        max_priority=above.max_priority if highest is None else _priority(name, highest),
        max_seconds=min(filter(None, (_max_seconds(name, entry), above.max_seconds)), default=None),
    )


def _max_seconds(name: str, entry: JsonMapping) -> Seconds | None:
    """Return the setting "max_seconds", None if it is not set; raise `SettingsError` unless it is a number above 0."""
    seconds = _seconds(name, "max_seconds", entry)
    if seconds is not None and seconds <= 0:
        fix = "use a number of seconds above 0, or None for no limit"
        raise SettingsError(TRAIT, entry["max_seconds"], "no job could run", fix, path=(name, "max_seconds"))
    return seconds


def _priority(name: str, value: object) -> int:
    """Return the setting "max_priority"; raise `SettingsError` unless it is a whole number from 0 to `MAX_PRIORITY`.

    0 is the least, because a job that names no priority has 0.
    """
    priority = _integer(name, "max_priority", value, minimum=0)
    if priority > MAX_PRIORITY:
        fix = f"use a whole number from 0 to {MAX_PRIORITY}"
        raise SettingsError(TRAIT, value, f"it is above {MAX_PRIORITY}", fix, path=(name, "max_priority"))
    return priority


def _amount(name: str, key: str, value: object) -> MilliGpu:
    """Return a setting of GPUs in milli-GPU; raise `SettingsError` if it is invalid."""
    try:
        return parse_quota(value)
    except InvalidAmount as error:
        raise SettingsError(TRAIT, value, error.problem, error.fix, path=(name, key)) from error


def _integer(name: str, key: str, value: object, *, minimum: int | None) -> int:
    """Return a setting; raise `SettingsError` unless it is a whole number that is not below `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int) or (minimum is not None and value < minimum):
        wanted = "a whole number" if minimum is None else f"a whole number, at least {minimum}"
        raise SettingsError(TRAIT, value, f"it is not {wanted}", f"use {wanted}", path=(name, key))
    return value


def _seconds(name: str, key: str, entry: JsonMapping) -> Seconds | None:
    """Return a setting in seconds; None if it is not set. Raises `SettingsError` unless it is a number from 0."""
    value = entry.get(key)
    if value is None:
        return None
    seconds = as_float(value)
    if seconds is None or not 0 <= seconds < inf:
        fix = "use a number of seconds, at least 0, or None to leave it to the queue above"
        raise SettingsError(TRAIT, value, "it is not a length of time", fix, path=(name, key))
    return Seconds(seconds)


def _names(name: str, key: str, entry: JsonMapping) -> frozenset[str]:
    """Return a setting of names, empty if it is not set; raise `SettingsError` unless it is a list of texts."""
    value = entry.get(key, ())
    listed = isinstance(value, list | tuple | set | frozenset)
    if not listed or not all(isinstance(item, str) for item in value):
        example = value if isinstance(value, str) else key[:-1].replace("manager_", "")
        fix = f"write [{quoted(example)}]"
        raise SettingsError(TRAIT, value, "it is not a list of names", fix, path=(name, key))
    for item in value:
        check_plain(TRAIT, item, (name, key))
    return frozenset(value)
