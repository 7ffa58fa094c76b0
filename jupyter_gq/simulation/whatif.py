"""A changed state for `jupyter-gq whatif`: another queue, job, setting or set of nodes.

A change names its object and field as an administrator would write them: `queue.vision.quota=8`, `job.j-12.gpus=0.5`,
`policy.placement=spread`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from types import NoneType
from typing import TYPE_CHECKING, TypeVar, get_args, get_type_hints

from jupyter_gq.domain.amount import ONE_GPU, MiB, Seconds, parse_cpus, parse_memory, parse_quota, parse_request
from jupyter_gq.domain.cluster import SHARE_LABEL, Device, Node
from jupyter_gq.domain.errors import AdminError
from jupyter_gq.domain.plain_text import quoted, shorten
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Request, Workload
from jupyter_gq.scheduling.placement import MemoryParts, at_its_best
from jupyter_gq.scheduling.policy import Policy

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
#: A policy, or a part of one.
Settings = TypeVar("Settings", bound="DataclassInstance")
#: What a limit or a min runtime is called that does not exist.
NONE = "none"
_EXPECTED = "write queue.NAME.FIELD=VALUE, job.ID.FIELD=VALUE or policy.FIELD=VALUE"


class InvalidChange(AdminError, ValueError):
    """A change that names no existing object or field, or a value that cannot be."""


def apply_change(snapshot: Snapshot, policy: Policy, assignment: str) -> tuple[Snapshot, Policy]:
    """Return the snapshot and the policy after one assignment such as `queue.vision.quota=8`.

    Raises `InvalidChange` if the assignment names nothing that exists or its value cannot be.
    """
    path, equals, value = assignment.partition("=")
    kind, _, rest = path.strip().partition(".")
    name, _, field = rest.rpartition(".")
    if not equals or not rest or (kind != "policy" and not name):
        raise InvalidChange(f"{quoted(assignment)} is no change: {_EXPECTED}.")
    match kind:
        case "queue":
            return _with_queue(snapshot, name, field, value.strip()), policy
        case "job":
            return _with_job(snapshot, name, field, value.strip()), policy
        case "policy":
            return snapshot, _with_setting(policy, rest.split("."), value.strip(), rest)
    raise InvalidChange(f"{quoted(assignment)} begins with {quoted(kind)}: {_EXPECTED}.")


def with_nodes(snapshot: Snapshot, count: int, devices: int, pool: str | None = None) -> Snapshot:
    """Return the snapshot with `count` more nodes of `devices` devices each, open to new work.

    Each is modelled on the node that has the device with the most memory (of the pool, if one is named). If no such
    node is present, the model is a node that the cluster would add. Raises `InvalidChange` for an unknown pool, or if
    there is no model either.
    """
    possible = [new.like for new in snapshot.new_nodes]
    pools = sorted({device.pool for node in (*snapshot.nodes, *possible) for device in node.devices})
    if pool is not None and pool not in pools:
        raise InvalidChange(f"There is no pool {quoted(pool)}. {_known(pool, pools)}")
    found = _largest(snapshot.nodes, pool) or _largest(possible, pool)
    if found is None:
        raise InvalidChange("The state has no device, so it cannot be said what a new node is like.")
    model, like = found
    new = tuple(_new_node(f"new-{number}", devices, model, like) for number in range(1, count + 1))
    return replace(snapshot, nodes=(*snapshot.nodes, *new))


def _largest(nodes: Iterable[Node], pool: str | None) -> tuple[Device, Node] | None:
    """Return the device with the most memory (of that pool; None = of any), with its node.

    Returns None if there is no device.
    """
    return max(
        ((device, node) for node in nodes for device in node.devices if pool in (None, device.pool)),
        key=lambda pair: (pair[0].memory, not pair[1].closed, pair[0].id),
        default=None,
    )


def without_node(snapshot: Snapshot, name: str) -> Snapshot:
    """Return the snapshot without the node of that name; the work on it is pending.

    Raises `InvalidChange` if there is none.
    """
    names = [node.name for node in snapshot.nodes]
    if name not in names:
        raise InvalidChange(f"There is no node {quoted(name)}. {_known(name, names)}")
    return replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.name != name),
        workloads=tuple(_restarted(w) if _is_on(w, name) else w for w in snapshot.workloads),
    )


# --- one change -------------------------------------------------------------------------------------------------


def _with_queue(snapshot: Snapshot, name: str, field: str, value: str) -> Snapshot:
    """Return the snapshot with another value of one field of the named queue.

    Raise `InvalidChange` if that is impossible.
    """
    setter = _setter(_QUEUE_FIELDS, "queue", field)
    found = next((queue for queue in snapshot.queues if queue.name == name), None)
    if found is None:
        raise InvalidChange(
            f"There is no queue {quoted(name)}. {_known(name, [queue.name for queue in snapshot.queues])}"
        )
    new = _checked(lambda: setter(found, value), f"queue.{name}.{field}", value)
    return replace(snapshot, queues=tuple(new if queue is found else queue for queue in snapshot.queues))


def _with_job(snapshot: Snapshot, name: str, field: str, value: str) -> Snapshot:
    """Return the snapshot with another value of one field of a job; raise `InvalidChange` if that is impossible.

    The job is named by its id, or by its name if only one job has that name. If its request or its number of tasks
    changes, it is pending.
    """
    setter = _setter(_JOB_FIELDS, "job", field)
    ids = [w for w in snapshot.workloads if w.id == name]
    found = ids or [w for w in snapshot.workloads if w.name == name]
    if len(found) != 1:
        several = f"There are {len(found)} jobs named {quoted(name)}; use the id"
        problem = several if found else f"There is no job {quoted(name)}"
        raise InvalidChange(f"{problem}. {_known(name, [w.id for w in found or snapshot.workloads])}")
    if field == "queue" and value not in {queue.name for queue in snapshot.queues}:
        raise InvalidChange(f"There is no queue {quoted(value)}. {_known(value, [q.name for q in snapshot.queues])}")
    job = _checked(lambda: setter(found[0], value), f"job.{name}.{field}", value)
    if field in ("gpus", "gpu_memory"):
        job = replace(job, request=_on_its_nodes(snapshot, job.request))
    if field in _REQUEST_FIELDS or field == "tasks":
        pool = next((queue.pool for queue in snapshot.queues if queue.name == job.queue), "")
        job = MemoryParts(snapshot.nodes).of_workload(_restarted(job), pool)
    return replace(snapshot, workloads=tuple(job if w is found[0] else w for w in snapshot.workloads))


def _on_its_nodes(snapshot: Snapshot, request: Request) -> Request:
    """Return the request; a request for a part of a device is bound to nodes that share their devices.

    Other requests lose that bond. Nothing is bound if the snapshot marks no such nodes.
    """
    other = tuple(label for label in request.node_labels if label != SHARE_LABEL)
    key, value = SHARE_LABEL
    marked = other != request.node_labels or any(node.labels.get(key) == value for node in snapshot.nodes)
    is_part = 0 < request.milli < ONE_GPU or request.device_memory is not None
    return replace(request, node_labels=(*other, SHARE_LABEL) if marked and is_part else other)


def _with_setting(target: Settings, path: list[str], value: str, whole: str) -> Settings:
    """Return the policy, or a part of it, with another value at this path; raise `InvalidChange` if that is impossible.

    `whole` is the whole path, for messages.
    """
    known = [field.name for field in fields(target)]
    name = path[0]
    if name not in known:
        raise InvalidChange(f"There is no setting {quoted(name)} in policy. {_known(name, known)}")
    current = getattr(target, name)
    if is_dataclass(current) and not isinstance(current, type):
        if len(path) == 1:
            raise InvalidChange(f"policy.{whole} has parts: write policy.{whole}.FIELD=VALUE.")
        return replace(target, **{name: _with_setting(current, path[1:], value, whole)})
    if len(path) > 1:
        raise InvalidChange(f"policy.{shorten(whole)} does not exist: {quoted(name)} has no parts.")
    parse = _parser_of(get_type_hints(type(target))[name])
    return _checked(lambda: replace(target, **{name: parse(value)}), f"policy.{whole}", value)


def _parser_of(kind: object) -> Callable[[str], object]:
    """Return the function that reads a value of this declared type: a name, a flag, a number, or seconds.

    If the type allows None, the function reads "none" as None. The function raises `ValueError` for other text.
    """
    options = [each for each in get_args(kind) if each is not NoneType]
    if options:
        parse = _parser_of(options[0])
        return lambda text: _or_none(parse, text)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return lambda text: _member(kind, text)
    if kind is bool:
        return _flag
    return int if kind is int else _not_negative


def _setter(known: Mapping[str, T], kind: str, field: str) -> T:
    """Return the function that sets this field; raise `InvalidChange` if a `kind` has no such field."""
    if field not in known:
        raise InvalidChange(f"A {kind} has no {quoted(field)} that could be changed. {_known(field, list(known))}")
    return known[field]


def _checked(change: Callable[[], T], path: str, value: str) -> T:
    """Return the result of `change`.

    Raise `InvalidChange`, with `path` and `value`, if `change` raises `ValueError`.
    """
    try:
        return change()
    except InvalidChange:
        raise
    except ValueError as error:
        raise InvalidChange(f"{path} cannot be {quoted(value)}: {error}") from None


def _or_none(parse: Callable[[str], T], text: str) -> T | None:
    """Return None for the text "none", and else what `parse` makes of the text."""
    return None if text.lower() == NONE else parse(text)


def _not_negative(text: str) -> Seconds:
    """Return the text as seconds, 0 or more; raise `ValueError` for other text."""
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError("expected 0 or more.")
    return Seconds(number)


def _at_least_one(text: str) -> int:
    """Return the text as a whole number, 1 or more; raise `ValueError` for other text."""
    if (number := int(text)) < 1:
        raise ValueError("expected 1 or more.")
    return number


def _weight(text: str) -> int:
    """Return the text as a whole number, 0 or more; raise `ValueError` for other text."""
    if (number := int(text)) < 0:
        raise ValueError("expected 0 or more.")
    return number


def _flag(text: str) -> bool:
    """Return True for "true" and False for "false"; raise `ValueError` for other text."""
    if text.lower() not in {"true", "false"}:
        raise ValueError("expected true or false.")
    return text.lower() == "true"


def _member(kind: type[StrEnum], text: str) -> StrEnum:
    """Return the member of an enumeration that has this value; raise `ValueError` if there is none."""
    names = [member.value for member in kind]
    if text not in names:
        raise ValueError(f"expected {' or '.join(names)}.")
    return kind(text)


def _with_gpus(request: Request, text: str) -> Request:
    """Return the request for another amount of GPUs, such as "0.5", without its requirement of device memory."""
    amount = Request.of(parse_request(text))
    return replace(request, devices=amount.devices, milli_per_device=amount.milli_per_device, device_memory=None)


def _with_gpu_memory(request: Request, text: str) -> Request:
    """Return the request for memory of one GPU, such as "12 GiB", in place of an amount of GPUs."""
    return replace(request, devices=1, milli_per_device=ONE_GPU, device_memory=parse_memory(text))


def _of_request(setter: Callable[[Request, str], Request]) -> Callable[[Workload, str], Workload]:
    """Return a function that changes a job's request by `setter`, given the job and the text of the new value."""
    return lambda job, text: replace(job, request=setter(job.request, text))


_QUEUE_FIELDS: dict[str, Callable[[Queue, str], Queue]] = {
    "quota": lambda queue, text: replace(queue, quota=parse_quota(text)),
    "limit": lambda queue, text: replace(queue, limit=_or_none(parse_quota, text)),
    "quota_cpus": lambda queue, text: replace(queue, cpu_quota=_or_none(parse_cpus, text)),
    "limit_cpus": lambda queue, text: replace(queue, cpu_limit=_or_none(parse_cpus, text)),
    "quota_memory": lambda queue, text: replace(queue, memory_quota=_or_none(parse_memory, text)),
    "limit_memory": lambda queue, text: replace(queue, memory_limit=_or_none(parse_memory, text)),
    "over_quota_weight": lambda queue, text: replace(queue, over_quota_weight=_weight(text)),
    "priority": lambda queue, text: replace(queue, priority=int(text)),
    "preempt_min_runtime": lambda queue, text: replace(queue, preempt_min_runtime=_or_none(_not_negative, text)),
    "reclaim_min_runtime": lambda queue, text: replace(queue, reclaim_min_runtime=_or_none(_not_negative, text)),
}
#: Fields of a job's request.
_REQUEST_FIELDS: dict[str, Callable[[Request, str], Request]] = {
    "gpus": _with_gpus,
    "gpu_memory": _with_gpu_memory,
    "cpus": lambda request, text: replace(request, cpu_milli=parse_cpus(text)),
    "memory": lambda request, text: replace(request, memory=parse_memory(text)),
    "gpu_model": lambda request, text: replace(request, models=() if text.lower() == NONE else (text,)),
}
_JOB_FIELDS: dict[str, Callable[[Workload, str], Workload]] = {
    **{field: _of_request(setter) for field, setter in _REQUEST_FIELDS.items()},
    "tasks": lambda job, text: replace(job, tasks=_at_least_one(text), min_members=_at_least_one(text)),
    "priority": lambda job, text: replace(job, priority=int(text)),
    "queue": lambda job, text: replace(job, queue=text),
}


def _known(name: str, known: list[str]) -> str:
    """Return a sentence that names the most similar known name, or the first ten known names if none is similar."""
    close = get_close_matches(name, known, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known: {', '.join(sorted(known)[:10])}{', ...' if len(known) > 10 else ''}." if known else "There is none."


def _new_node(name: str, devices: int, model: Device, like: Node) -> Node:
    """Return a node of that name with so many healthy devices of that model, open to new work.

    The node has the labels of `like`, and CPU and memory in proportion to the devices.
    """
    healthy = replace(model, healthy=True, draining=False)
    made = tuple(replace(healthy, id=f"{name}-{index}", index=index) for index in range(devices))
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
    """Tell whether some task of the workload is placed on the node of that name."""
    return any(task.node == node for task in workload.placement)


def _restarted(workload: Workload) -> Workload:
    """Return the workload as pending, without any place, start or stop; its submission, and so its seniority, stays."""
    return replace(
        workload,
        state=State.PENDING,
        placement=(),
        leaving=(),
        reserved=(),
        nominated=False,
        started_at=None,
        stop=None,
        stale_since=None,
    )
