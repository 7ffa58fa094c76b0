"""The number of tasks of the job in which code runs, which changes while a job with `min_tasks` runs."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

#: Path of the file that tells the tasks of such a job which tasks there are now.
_SIZE_FILE = "GQ_SIZE_FILE"


@dataclass(frozen=True)
class Tasks:
    """The tasks of a job, as this task sees them."""

    #: Number of this task, from 0. It is kept while the task runs.
    number: int
    #: Numbers of the tasks that there are now, ascending. A task that was told to stop is not among them.
    present: tuple[int, ...]
    #: The least and the most tasks that the job may have.
    least: int
    most: int

    @property
    def count(self) -> int:
        """The number of tasks that there are now."""
        return len(self.present)

    @property
    def rank(self) -> int | None:
        """The place of this task among the present ones, from 0; None if this task was told to stop."""
        return self.present.index(self.number) if self.number in self.present else None


def tasks() -> Tasks:
    """Return the tasks of this job as they are now; in a notebook, and in a job of one task, that is one task.

    The numbers of the present tasks change only in a job with `min_tasks`. The call reads a small file, so call it once
    for each epoch, not for each batch.
    """
    number = _read_number("NODE_RANK", 0)
    size_file = os.environ.get(_SIZE_FILE)
    if size_file is None:
        count = max(_read_number("NNODES", 1), number + 1)
        return Tasks(number=number, present=tuple(range(count)), least=count, most=count)
    with open(size_file, encoding="utf-8") as file:
        size = json.load(file)
    return Tasks(number=number, present=tuple(size["tasks"]), least=size["least"], most=size["most"])


def _read_number(variable: str, default: int) -> int:
    """Return the whole number in an environment variable; `default` if there is none."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else default
