"""The same state with something changed: a queue, a job, a setting, a node.

A change names its object and field as an administrator would write it: `queue.vision.quota=8`,
`job.j-12.gpus=0.5`, `policy.placement=spread`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from jupyter_gq.domain.amount import ONE_GPU, MiB, Seconds, parse_cpus, parse_memory, parse_quota, parse_request
from jupyter_gq.domain.cluster import SHARE_LABEL, Device, Node
from jupyter_gq.domain.errors import AdminError
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Request, Workload
from jupyter_gq.scheduling.placement import at_its_best
from jupyter_gq.scheduling.policy import Policy

#: What a limit or a min runtime is called that does not exist.
NONE = "none"
_EXPECTED = "write queue.NAME.FIELD=VALUE, job.ID.FIELD=VALUE or policy.FIELD=VALUE"


class InvalidChange(AdminError, ValueError):
    """A change that names nothing, or a value that cannot be."""


def changed(snapshot: Snapshot, policy: Policy, assignment: str) -> tuple[Snapshot, Policy]:
    """The snapshot and the policy after one assignment such as `queue.vision.quota=8`; raise `InvalidChange`."""
    path, equals, value = assignment.partition("=")
    kind, _, rest = path.strip().partition(".")
    name, _, field = rest.rpartition(".")
    if not equals or not rest or (kind != "policy" and not name):
        raise InvalidChange(f"{assignment!r} is no change: {_EXPECTED}.")
    match kind:
        case "queue":
            return _with_queue(snapshot, name, field, value.strip()), policy
        case "job":
            return _with_job(snapshot, name, field, value.strip()), policy
        case "policy":
            return snapshot, _with_setting(policy, rest.split("."), value.strip(), rest)
    raise InvalidChange(f"{assignment!r} begins with {kind!r}: {_EXPECTED}.")


def with_nodes(snapshot: Snapshot, count: int, devices: int, pool: str | None = None) -> Snapshot:
    """So many more nodes like the largest there is (of that pool), each with so many devices; all take new work.

    Where there is none, they are like those that the cluster would add.
    """
    possible = [new.like for new in snapshot.new_nodes]
    pools = sorted({device.pool for node in (*snapshot.nodes, *possible) for device in node.devices})
    if pool is not None and pool not in pools:
        raise InvalidChange(f"There is no pool {pool!r}. {_known(pool, pools)}")
    found = _largest(snapshot.nodes, pool) or _largest(possible, pool)
    if found is None:
        raise InvalidChange("The state has no device, so it cannot be said what a new node is like.")
    model, like = found
    new = tuple(_new_node(f"new-{number}", devices, model, like) for number in range(1, count + 1))
    return replace(snapshot, nodes=(*snapshot.nodes, *new))


def _largest(nodes: Iterable[Node], pool: str | None) -> tuple[Device, Node] | None:
    """The device with the most memory (of that pool), with its node."""
    return max(
        ((device, node) for node in nodes for device in node.devices if pool in (None, device.pool)),
        key=lambda pair: (pair[0].memory, not pair[1].closed, pair[0].id),
        default=None,
    )


def without_node(snapshot: Snapshot, name: str) -> Snapshot:
    """As if the node took no new work, and what runs there had to start elsewhere."""
    names = [node.name for node in snapshot.nodes]
    if name not in names:
        raise InvalidChange(f"There is no node {name!r}. {_known(name, names)}")
    return replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.name != name),
        workloads=tuple(_restarted(w) if _is_on(w, name) else w for w in snapshot.workloads),
    )


# --- one change -------------------------------------------------------------------------------------------------


def _with_queue(snapshot: Snapshot, name: str, field: str, value: str) -> Snapshot:
    parse = _field(_QUEUE_FIELDS, "queue", field)
    names = [queue.name for queue in snapshot.queues]
    if name not in names:
        raise InvalidChange(f"There is no queue {name!r}. {_known(name, names)}")
    new = _parsed(parse, f"queue.{name}.{field}", value)
    return replace(
        snapshot,
        queues=tuple(
            replace(q, **{_QUEUE_NAMES.get(field, field): new}) if q.name == name else q for q in snapshot.queues
        ),
    )


def _with_job(snapshot: Snapshot, name: str, field: str, value: str) -> Snapshot:
    parse = _field(_JOB_FIELDS, "job", field)
    ids = [w for w in snapshot.workloads if w.id == name]
    found = ids or [w for w in snapshot.workloads if w.name == name]
    if len(found) != 1:
        problem = f"There are {len(found)} jobs named {name!r}; use the id" if found else f"There is no job {name!r}"
        raise InvalidChange(f"{problem}. {_known(name, [w.id for w in found or snapshot.workloads])}")
    if field == "queue" and value not in {queue.name for queue in snapshot.queues}:
        raise InvalidChange(f"There is no queue {value!r}. {_known(value, [q.name for q in snapshot.queues])}")
    changes = parse(value) if field == "queue" else _parsed(parse, f"job.{name}.{field}", value)
    if field in _REQUEST_FIELDS:
        request = replace(found[0].request, **changes)
        changes = {"request": _on_its_nodes(snapshot, request) if field == "gpus" else request}
    job = replace(found[0], **changes)
    if field in _REQUEST_FIELDS or field == "tasks":
        job = _restarted(job)
    return replace(snapshot, workloads=tuple(job if w is found[0] else w for w in snapshot.workloads))


def _on_its_nodes(snapshot: Snapshot, request: Request) -> Request:
    """A part of a device goes to nodes whose devices can be shared, where not all can; whole devices go anywhere."""
    other = tuple(label for label in request.node_labels if label != SHARE_LABEL)
    key, value = SHARE_LABEL
    marked = other != request.node_labels or any(node.labels.get(key) == value for node in snapshot.nodes)
    return replace(request, node_labels=(*other, SHARE_LABEL) if marked and 0 < request.milli < ONE_GPU else other)


def _with_setting(target: Any, path: list[str], value: str, whole: str) -> Any:
    known = [field.name for field in fields(target)]
    name = path[0]
    if name not in known:
        raise InvalidChange(f"There is no setting {name!r} in policy. {_known(name, known)}")
    current = getattr(target, name)
    if is_dataclass(current):
        if len(path) == 1:
            raise InvalidChange(f"policy.{whole} has parts: write policy.{whole}.FIELD=VALUE.")
        return replace(target, **{name: _with_setting(current, path[1:], value, whole)})
    if len(path) > 1:
        raise InvalidChange(f"policy.{whole} does not exist: {name!r} has no parts.")
    return replace(target, **{name: _parsed(_like(current), f"policy.{whole}", value)})


def _like(current: Any) -> Callable[[str], Any]:
    """How to read a value of the same kind."""
    if isinstance(current, StrEnum):
        return lambda text: _member(type(current), text)
    if isinstance(current, bool):
        return _flag
    return int if isinstance(current, int) else _or_none(_not_negative)


def _field(known: Mapping[str, Callable[[str], Any]], kind: str, field: str) -> Callable[[str], Any]:
    if field not in known:
        raise InvalidChange(f"A {kind} has no {field!r} that could be changed. {_known(field, list(known))}")
    return known[field]


def _parsed(parse: Callable[[str], Any], path: str, value: str) -> Any:
    try:
        return parse(value)
    except InvalidChange:
        raise
    except ValueError as error:
        raise InvalidChange(f"{path} cannot be {value!r}: {error}") from None


def _or_none(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text.lower() == NONE else parse(text)


def _not_negative(text: str) -> Seconds:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError("expected 0 or more.")
    return Seconds(number)


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError("expected 1 or more.")
    return number


def _weight(text: str) -> int:
    if (number := int(text)) < 0:
        raise ValueError("expected 0 or more.")
    return number


def _flag(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("expected true or false.")
    return text.lower() == "true"


def _member(kind: type[StrEnum], text: str) -> StrEnum:
    names = [member.value for member in kind]
    if text not in names:
        raise ValueError(f"expected {' or '.join(names)}.")
    return kind(text)


def _gpus(text: str) -> dict[str, Any]:
    request = Request.of(parse_request(text))
    return {"devices": request.devices, "milli_per_device": request.milli_per_device, "device_memory": None}


def _tasks(text: str) -> dict[str, Any]:
    return {"tasks": _at_least_one(text), "min_members": _at_least_one(text)}


_QUEUE_FIELDS: dict[str, Callable[[str], Any]] = {
    "quota": parse_quota,
    "limit": _or_none(parse_quota),
    "quota_cpus": _or_none(parse_cpus),
    "limit_cpus": _or_none(parse_cpus),
    "quota_memory": _or_none(parse_memory),
    "limit_memory": _or_none(parse_memory),
    "over_quota_weight": _weight,
    "priority": int,
    "preempt_min_runtime": _or_none(_not_negative),
    "reclaim_min_runtime": _or_none(_not_negative),
}
#: Those that the core calls otherwise.
_QUEUE_NAMES = {
    "quota_cpus": "cpu_quota",
    "limit_cpus": "cpu_limit",
    "quota_memory": "memory_quota",
    "limit_memory": "memory_limit",
}
#: Fields of what each task asks for.
_REQUEST_FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "gpus": _gpus,
    "cpus": lambda text: {"cpu_milli": parse_cpus(text)},
    "memory": lambda text: {"memory": parse_memory(text)},
    "gpu_model": lambda text: {"models": () if text.lower() == NONE else (text,)},
}
_JOB_FIELDS: dict[str, Callable[[str], Any]] = {
    **_REQUEST_FIELDS,
    "tasks": _tasks,
    "priority": lambda text: {"priority": int(text)},
    "queue": lambda text: {"queue": text},
}


def _known(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known: {', '.join(sorted(known)[:10])}{', ...' if len(known) > 10 else ''}." if known else "There is none."


def _new_node(name: str, devices: int, model: Device, like: Node) -> Node:
    made = tuple(replace(model, id=f"{name}-{index}", index=index, healthy=True) for index in range(devices))
    # What a node has beside its devices grows with them, as on the node that it is modelled on.
    part = devices / max(1, len(like.devices))
    new = at_its_best(like)
    return replace(
        new,
        name=name,
        devices=made,
        cpu_milli=None if new.cpu_milli is None else int(new.cpu_milli * part),
        memory=None if new.memory is None else MiB(int(new.memory * part)),
    )


def _is_on(workload: Workload, node: str) -> bool:
    return any(task.node == node for task in workload.placement)


def _restarted(workload: Workload) -> Workload:
    """As it would be at the end of its queue's line for devices: pending, with its seniority."""
    return replace(workload, state=State.PENDING, placement=(), started_at=None, stop=None, stale_since=None)
