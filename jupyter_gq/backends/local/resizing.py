"""The changes of an elastic run's ledger entry while tasks join and leave it: pure functions.

Rules
-----
Joining is one at a time, and recorded before the process starts. After a crash the process is found by its mark, or the
    task was not started and its number is free again.

See docs/decisions/0154-resize-runs-of-the-local-backend.md.
"""

from dataclasses import replace
from typing import TypeVar

from jupyter_gq.backends.run_size import find_free_number
from jupyter_gq.domain.workload import TaskPlacement

from .ledger import Elasticity, Run, Slot, TaskProcess

_Item = TypeVar("_Item")


def begin_leaving(run: Run, elastic: Elasticity, number: int, kill_by: float) -> Run:
    """Return the run without this task, which leaves it and is killed at `kill_by`."""
    index = elastic.numbers.index(number)
    slot = Slot(number=number, place=run.placement[index], kill_by=kill_by)
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
    free = find_free_number(run.members, len(run.tasks))
    if free is None:
        return None
    return replace(run.with_process(free, None), elastic=replace(elastic, joining=Slot(number=free, place=place)))


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


def _without_index(items: tuple[_Item, ...], index: int) -> tuple[_Item, ...]:
    return (*items[:index], *items[index + 1 :])
