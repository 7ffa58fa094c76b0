"""Request classes: if one member cannot start, no other member can, so each question is asked once for a class."""

from collections.abc import Callable

from jupyter_gq.domain.workload import Request, TaskGroup, TopologyConstraint, Workload

from .replicas import Replica, is_surplus


class ClassKey:
    """The fields that make two requests alike. Their hash is kept, since keys are looked up very often."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, *parts: Request | bool | int | str | tuple[TaskGroup, ...] | TopologyConstraint | None) -> None:
        self._parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ClassKey) and self._parts == other._parts)


def request_class(workload: Workload) -> ClassKey:
    """Return the class of a workload among the workloads of one queue.

    Members of a class in one queue have the same request and priority. They differ in seniority and a little in their
    estimates, by less than a factor of two. So where a reservation is in the way of one member, another may be short
    enough to pass it (see `JobOrder.skip_longer`); only then does the answer differ within a class.
    """
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
    """Return the id of the workload beside whose tasks a replica must stand; "" if it may stand anywhere.

    Only replicas of a workload with a topology constraint are bound.
    """
    if not isinstance(workload, Replica):
        return ""
    bound = workload.topology is not None or any(group.topology is not None for group in workload.groups)
    return workload.whole.id if bound else ""


#: A question about a workload.
WorkloadTest = Callable[[Workload], bool]
#: A question about a class, asked with one of its members.
ClassTest = Callable[[ClassKey, Workload], bool]


def any_workload(_: Workload) -> bool:
    """Return True for every workload: the test for callers that leave nothing out."""
    return True


def any_class(_: ClassKey, __: Workload) -> bool:
    """Return True for every class: the test for callers that leave nothing out."""
    return True


def once_for_each_class(test: WorkloadTest) -> ClassTest:
    """Return a test that asks `test` once for each class, with the first member given, and remembers the answer."""
    known: dict[ClassKey, bool] = {}

    def ask(key: ClassKey, workload: Workload) -> bool:
        answer = known.get(key)
        if answer is None:
            answer = known[key] = test(workload)
        return answer

    return ask
