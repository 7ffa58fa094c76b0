"""The tasks of elastic runs by their numbers: which leave and join at a change, and how tasks are told. Pure.

Rules
-----
Numbers stay: a task keeps its number as long as anything of it runs, whatever joins or leaves. A task that joins gets
    the lowest free number, so that the numbers stay below the number of tasks that was asked for.
Task 0 stays: the other tasks meet there.

See docs/decisions/0154-resize-runs-of-the-local-backend.md.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jupyter_gq.domain.workload import TaskPlacement

#: File that tells the tasks of an elastic run which tasks there are; `GQ_SIZE_FILE` is its path.
SIZE_FILE: Final = "size.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResizePlan:
    """The difference between the tasks that a run has and the tasks that are wanted."""

    #: Numbers of the tasks that leave.
    leaving: tuple[int, ...]
    #: Places of the tasks that join.
    joining: tuple[TaskPlacement, ...]


def plan_resize(members: Mapping[int, TaskPlacement], wanted: Sequence[TaskPlacement]) -> ResizePlan:
    """Return which tasks leave and join so that a run with these members has one task at each wanted place.

    Of tasks at equal places, the one with the lowest number stays. Task 0 may be among those that leave; the caller
    refuses that.
    """
    left = Counter(wanted)
    leaving = []
    for number, place in sorted(members.items()):
        if left[place]:
            left[place] -= 1
        else:
            leaving.append(number)
    return ResizePlan(leaving=tuple(leaving), joining=tuple(left.elements()))


def find_free_number(used: Collection[int], most: int) -> int | None:
    """Return the lowest number below `most` that is not used; None if all are."""
    return next((number for number in range(most) if number not in used), None)


def describe_size(numbers: Sequence[int], least: int, most: int) -> bytes:
    """Return the content of `SIZE_FILE`, JSON: the numbers of the present tasks, and how few and how many may be."""
    return json.dumps({"tasks": numbers, "least": least, "most": most}).encode()
