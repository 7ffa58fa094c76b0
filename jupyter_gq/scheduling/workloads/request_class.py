"""Requests that are alike: what cannot be had for one of them cannot be had for any, so it is asked once for all."""

from collections.abc import Callable

from jupyter_gq.domain.workload import Request, TaskGroup, TopologyConstraint, Workload

from .replicas import Replica, is_surplus


class ClassKey:
    """What makes requests alike. It is looked up again and again, so its hash is kept."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, *parts: Request | bool | int | str | tuple[TaskGroup, ...] | TopologyConstraint | None) -> None:
        self._parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ClassKey) and self._parts == other._parts)


def request_class(workload: Workload) -> ClassKey:
    """Those that agree in this are the same to every rule, but for their seniority."""
    return ClassKey(
        workload.request,
        workload.tasks,
        workload.min_members,
        workload.preemptible,
        workload.priority,
        workload.kind,
        is_surplus(workload),
        workload.elastic,
        workload.groups,
        workload.topology,
        _standing(workload),
        # What is expected to be short may go where a longer one must not (see `reservations`).
        0 if workload.estimate is None else 1 + int(workload.estimate).bit_length(),
    )


def _standing(workload: Workload) -> str:
    """The workload beside whose tasks it has to stand; "" where it may be anywhere."""
    if not isinstance(workload, Replica):
        return ""
    bound = workload.topology is not None or any(group.topology is not None for group in workload.groups)
    return workload.whole.id if bound else ""


#: A question about a workload.
Test = Callable[[Workload], bool]
#: A question about a class, asked with one of it.
ClassTest = Callable[[ClassKey, Workload], bool]


def always(_: Workload) -> bool:
    """It is so of every workload."""
    return True


def any_class(_: ClassKey, __: Workload) -> bool:
    """It is so of every class."""
    return True


def once_for_each_class(test: Test) -> ClassTest:
    """The same question, asked once for all of a class."""
    known: dict[ClassKey, bool] = {}

    def ask(key: ClassKey, workload: Workload) -> bool:
        answer = known.get(key)
        if answer is None:
            answer = known[key] = test(workload)
        return answer

    return ask
