"""Invariants that hold after every step, whatever happened. A breach is a defect of this package, found early."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from jupyter_gq.backends.protocol import Backend, Observation, Phase
from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.errors import DefectError
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.queue_tree import path_of, sum_up
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import TaskGroup, TaskPlacement, Workload
from jupyter_gq.scheduling.decision import Decision, Grow, Resume, Shrink, Suspend
from jupyter_gq.scheduling.workloads import gang


class InvariantBroken(DefectError):
    """A breach of an invariant; the message names the objects and numbers."""


def check_placements(workloads: Iterable[Workload]) -> None:
    """Raise `InvariantBroken` if too much of a device is given away, a holder lacks tasks, or other work has a place.

    Too much is more than 1 GPU, with the tasks that are leaving. A suspended notebook has lent its part.
    """
    used: dict[str, int] = {}
    for workload in workloads:
        _check_whole(workload)
        if workload.state is State.SUSPENDED:
            continue
        for task in workload.held_places:
            for device in task.devices:
                used[device] = used.get(device, 0) + workload.request_of(task.group).milli_per_device
    for device, milli in used.items():
        if milli > ONE_GPU:
            raise InvariantBroken(f"{milli} thousandths of the device {device} are given away")


def check_limits(workloads: Sequence[Workload], queues: Sequence[Queue], admitted: Iterable[str]) -> None:
    """Raise `InvariantBroken` if a queue on the path of a workload in `admitted` holds more than its limit of GPUs.

    `admitted` are ids of workloads. Queues under which nothing starts are not checked.
    """
    by_name = {queue.name: queue for queue in queues}
    new = set(admitted)
    held: Counter[str] = Counter()
    for workload in workloads:
        held[workload.queue] += gang.occupied(workload) if workload.holds else 0
    used = sum_up(held, by_name)
    touched = {workload.queue for workload in workloads if workload.id in new}
    for queue in {queue for name in touched for queue in path_of(name, by_name)}:
        if queue.limit is not None and used[queue.name] > queue.limit:
            raise InvariantBroken(
                f"queue {queue.name} holds {used[queue.name]} milli-GPU, above its limit of {queue.limit}"
            )


def check_capabilities(decision: Decision, backends: Mapping[str, Backend]) -> None:
    """Raise `InvariantBroken` if the backend of a workload cannot carry out its instruction.

    `backends` has the backend of each workload, by the id of the workload.
    """
    for instruction in decision.instructions:
        backend = backends.get(instruction.workload)
        possible = (
            backend is None
            or (isinstance(instruction, Grow | Shrink) and backend.capabilities.resizing is not None)
            or (isinstance(instruction, Suspend | Resume) and backend.capabilities.suspension is not None)
            or not isinstance(instruction, Grow | Shrink | Suspend | Resume)
        )
        if not possible:
            raise InvariantBroken(f"{instruction.workload} gets a {type(instruction).__name__} that nobody can do")


def check_runs(workloads: Iterable[Workload], seen: Iterable[Observation]) -> None:
    """Raise `InvariantBroken` if one of these workloads has two live runs in the observations `seen`."""
    runs: dict[str, int] = {}
    for observation in seen:
        if observation.phase is not Phase.ENDED:
            runs[observation.workload] = runs.get(observation.workload, 0) + 1
    known = {workload.id for workload in workloads}
    for workload, count in runs.items():
        if count > 1 and workload in known:
            raise InvariantBroken(f"workload {workload} runs {count} times at once")


def _check_whole(workload: Workload) -> None:
    """Raise `InvariantBroken` if a workload that holds devices lacks tasks, or if any other workload has a place."""
    if not workload.holds:
        if workload.placement:
            raise InvariantBroken(f"{workload.id} is {workload.state} and still has a place")
        return
    for group in gang.groups_of(workload):
        _check_group(workload, group, [task for task in workload.placement if task.group == group.name])


def _check_group(workload: Workload, group: TaskGroup, placed: Sequence[TaskPlacement]) -> None:
    """Raise `InvariantBroken` if a group has too few or too many tasks, or if a task lacks devices.

    Too few are fewer than the min replicas, unless the group lost tasks.
    """
    who = f"{workload.id} ({group.name})" if group.name else workload.id
    least = 0 if workload.stale_since is not None else group.min_members
    if not least <= len(placed) <= group.tasks:
        raise InvariantBroken(f"{who} is placed with {len(placed)} of {group.tasks} tasks")
    for task in placed:
        if len(task.devices) != group.request.devices or len(set(task.devices)) != len(task.devices):
            raise InvariantBroken(f"{who} needs {group.request.devices} devices a task: {task.devices}")
