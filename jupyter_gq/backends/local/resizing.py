"""The changes of an elastic run's ledger entry while tasks join and leave it: pure functions.

Rules
-----
Numbers stay: a task keeps its number while it has processes, whatever joins or leaves. A task that joins gets the
    lowest free number, so that the numbers stay below the number of tasks that was asked for.
Task 0 stays: the other tasks meet there.
Joining is one at a time, and recorded before the process starts. After a crash the process is found by its mark, or the
    task was not started and its number is free again.

See docs/decisions/0154-resize-runs-of-the-local-backend.md.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from jupyter_gq.domain.workload import TaskPlacement

from .ledger import Elasticity, Run, Slot, TaskProcess

#: File in the folder of an elastic run that tells its tasks which tasks there are; `GQ_SIZE_FILE` is its path.
SIZE_FILE: Final = "size.json"
_Item = TypeVar("_Item")


@dataclass(frozen=True, kw_only=True, slots=True)
class ResizePlan:
    """The difference between the tasks that a run has and the tasks that are wanted."""

    #: Numbers of the tasks that leave.
    leaving: tuple[int, ...]
    #: Places of the tasks that join.
    joining: tuple[TaskPlacement, ...]


def plan_resize(run: Run, wanted: Sequence[TaskPlacement]) -> ResizePlan:
    """Return which tasks leave and join so that the run has one task at each wanted place.

    Of tasks at equal places, the one with the lowest number stays.
    """
    left = Counter(wanted)
    leaving = []
    for number, place in zip(run.numbers, run.placement, strict=True):
        if left[place]:
            left[place] -= 1
        else:
            leaving.append(number)
    return ResizePlan(leaving=tuple(leaving), joining=tuple(left.elements()))


def begin_leaving(run: Run, elastic: Elasticity, number: int, kill_at: float) -> Run:
    """Return the run without this task, which leaves it and is killed at `kill_at`."""
    index = elastic.numbers.index(number)
    slot = Slot(number=number, place=run.placement[index], kill_at=kill_at)
    return replace(
        run,
        placement=_without_index(run.placement, index),
        elastic=replace(elastic, numbers=_without_index(elastic.numbers, index), leaving=(*elastic.leaving, slot)),
    )


def finish_leaving(run: Run, elastic: Elasticity, number: int) -> Run:
    """Return the run after the last process of a leaving task has ended: the number is free again."""
    leaving = tuple(slot for slot in elastic.leaving if slot.number != number)
    return replace(run.with_process(number, None), elastic=replace(elastic, leaving=leaving))


def begin_joining(run: Run, elastic: Elasticity, place: TaskPlacement) -> Run | None:
    """Return the run with a task that joins at this place; None if no number is free now."""
    free = [number for number in range(len(run.tasks)) if number not in run.members]
    if not free:
        return None
    return replace(run.with_process(free[0], None), elastic=replace(elastic, joining=Slot(number=free[0], place=place)))


def finish_joining(run: Run, elastic: Elasticity, slot: Slot, process: TaskProcess) -> Run:
    """Return the run with the task of this slot, whose process was started."""
    index = sum(number < slot.number for number in elastic.numbers)
    return replace(
        run.with_process(slot.number, process),
        placement=(*run.placement[:index], slot.place, *run.placement[index:]),
        elastic=replace(
            elastic,
            numbers=(*elastic.numbers[:index], slot.number, *elastic.numbers[index:]),
            joining=None,
        ),
    )


def give_up_joining(run: Run, elastic: Elasticity, why: str = "") -> Run:
    """Return the run without the task that was about to join; if `why` says why, no task joins any more."""
    return replace(run, elastic=replace(elastic, joining=None, closed=elastic.closed or why))


def describe_size(run: Run, elastic: Elasticity) -> bytes:
    """Return the content of `SIZE_FILE`: the numbers of the present tasks, and the least and the most of them."""
    return json.dumps({"tasks": elastic.numbers, "least": elastic.least, "most": len(run.tasks)}).encode()


def _without_index(items: tuple[_Item, ...], index: int) -> tuple[_Item, ...]:
    return (*items[:index], *items[index + 1 :])
