"""Many jobs of one function with different arguments, as one group: `jupyter_gq.sweep`.

The group and its limit are fields of each job in the scheduler service, so a sweep goes on without this kernel.
See docs/decisions/0128-limit-groups-of-jobs-in-the-input-of-the-cycle.md.
"""

from __future__ import annotations

import importlib
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from jupyter_gq.domain.phases import ENDED
from jupyter_gq.domain.plain_text import join_name

from .grid import list_points
from .handle import Job, find_job_id, wait_until
from .options import MAX_NAME, check_count, check_function, check_order, check_parallel, list_names, make_plain
from .pickled_call import check_arguments, check_call, describe_call, name_function, pickle_call, restore_numbers
from .server import JobError, Server, check_id, find_folder, find_kernel_id, find_server
from .submit import print_notes, send_pickled
from .table import Table

if TYPE_CHECKING:
    from typing import TypeGuard

    from .pickled_call import Function

    #: A column of the table: whether it describes the job, an argument or a returned number; and its name.
    _Column = tuple[str, str]

_ID, _STATE = ("job", "id"), ("job", "state")
#: Most names of numbers that an error lists.
_MOST_NAMES = 10


def sweep(  # noqa: PLR0913 - the options of a job are keywords of the one function that users call
    function: Function,
    grid: Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]],
    *,
    gpus: float | str = 1,
    gpu_memory: float | str | None = None,
    parallel: int | None = None,
    metric: str = "",
    mode: str = "max",
    queue: str = "",
    name: str = "",
    cpus: float | str | None = None,
    memory: float | str | None = None,
    gpu_model: str | None = None,
    preferred_gpu_models: str | Sequence[str] = (),
    tasks: int = 1,
    min_tasks: int | None = None,
    within: str | None = None,
    priority: int = 0,
    expected_seconds: float | None = None,
    max_seconds: float | None = None,
    secrets: str | Sequence[str] = (),
    also: str | Sequence[str] = (),
    software: str = "",
    continue_from: str | Job = "",
    check: bool = True,
) -> Sweep:
    """Send one job for each point of a grid, as one group, and return the handle of the group at once.

    `grid` is a dict of lists, such as `{"lr": [0.1, 0.01], "depth": [2, 4]}`, for all combinations, or a list of dicts,
    one for each job. Each job calls `function(**point)`. The function returns a number, or a dict of numbers.

    - `parallel`: jobs of the group that run at the same time at most; None is as many as the queue lets run.
    - `metric`: the entry of the returned dict by which the table is ordered; "" is the first one, or the number itself.
    - `mode`: "max" if a higher number is better, "min" if a lower one is.
    - All others are the options of `submit`, for each job.

    Unless `check` is False, the first point is loaded in a new process before anything is sent. Raises `ValueError` for
    an empty grid, one of more than 1000 points, a value that a list of the dict has twice, and wrong options;
    `TypeError` for points that do not fit the function, and for async and generator functions; and `JobError` if the
    jobs cannot be sent. If the service refuses a job after others were sent, those are cancelled.
    """
    check_function(function, "sweep takes a function and a grid of its arguments")
    points = list_points(grid)
    check_order(metric, mode)
    check_parallel(parallel)
    for point in points:
        check_arguments(function, (), point)
    group = f"sweep-{uuid.uuid4().hex[:8]}"
    options: dict[str, object] = {
        "gpus": gpus,
        "gpu_memory": gpu_memory,
        "queue": queue,
        "name": name,
        "cpus": cpus,
        "memory": memory,
        "gpu_model": gpu_model,
        "preferred_gpu_models": list_names("preferred_gpu_models", preferred_gpu_models),
        "tasks": tasks,
        "min_tasks": min_tasks,
        "within": within,
        "priority": priority,
        "expected_seconds": expected_seconds,
        "max_seconds": max_seconds,
        "secrets": list_names("secrets", secrets),
        "file_patterns": list_names("also", also, each="pattern"),
        "software": software,
        "continue_from": find_job_id(continue_from),
        "group": group,
        "group_parallel": parallel,
        "group_metric": metric,
        "group_mode": mode,
    }
    options = make_plain(options)
    find_folder()  # raises if it was deleted
    server = find_server()
    find_kernel_id()  # raises in a process that is no kernel
    calls = [pickle_call(function, (), point) for point in points]
    if check:
        check_call(calls[0])
    sent = Sweep(server, group, metric=metric, mode=mode)
    try:
        for call, point in zip(calls, points):  # noqa: B905 - Python 3.8 too
            described = describe_call(function, (), point)
            shown = described[len(name_function(function)) + 1 : -1]
            named = {**options, "name": join_name(name or name_function(function), shown, MAX_NAME)}
            job, notes = send_pickled(server, call, described, named)
            if not sent.jobs:  # the others have the same files
                print_notes(notes)
            sent.add(job, point)
    except (JobError, KeyboardInterrupt):
        sent.cancel()
        raise
    return sent


def find_sweep(group: str, *, metric: str | None = None, mode: str | None = None) -> Sweep:
    """Return the handle of a sweep by its id, such as "sweep-4f1c", also after a restart of the kernel.

    `metric` and `mode` are those with which it was sent, unless they are named. The table shows the names of the jobs
    in place of the arguments, which are not kept. Raises `JobError` if there is no job of this group, and `ValueError`
    or `TypeError` for a wrong `metric` or `mode`.
    """
    check_order("" if metric is None else metric, "max" if mode is None else mode)
    name = check_id(group, 'the id of a sweep, such as "sweep-4f1c"')
    server = find_server()
    views = _list_views(server, name)
    if not views:
        raise JobError(f"There is no sweep {name!r} of yours, or its jobs were deleted.")
    sent_metric, sent_mode = str(views[0].get("group_metric") or ""), str(views[0].get("group_mode") or "max")
    found = Sweep(
        server, name, metric=sent_metric if metric is None else metric, mode=sent_mode if mode is None else mode
    )
    for view in reversed(views):
        found.add(Job(server, view), {"job": str(view.get("name") or "")})
    return found


class Sweep:
    """A group of jobs that differ in their arguments. The group outlives this handle and the kernel."""

    def __init__(self, server: Server, group: str, *, metric: str, mode: str) -> None:
        self._server, self._metric, self._mode = server, metric, mode
        self._points: dict[str, Mapping[str, object]] = {}
        self._values: dict[str, object] = {}
        #: The id of the group, such as "sweep-4f1c".
        self.id = group
        #: The handles of the jobs, in the order of the grid.
        self.jobs: list[Job] = []

    def add(self, job: Job, point: Mapping[str, object]) -> None:
        """Add a job that was sent for a point."""
        self.jobs.append(job)
        self._points[job.id] = point

    def list_views(self) -> list[Mapping[str, object]]:
        """Return all jobs of the group as the service describes them, newest first."""
        return _list_views(self._server, self.id)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all jobs have ended, and return True; after `timeout` seconds return False.

        An interrupt of the kernel ends the wait and not the jobs.
        """
        return bool(wait_until(self._has_ended, timeout))

    def table(self) -> object:
        """Return the jobs with their arguments, states and numbers, best first.

        Jobs without a number, or with nan, come last. The columns are `id`, the arguments, `state`, and the returned
        entries. An argument or an entry whose name is taken is shown as "argument id" or "returned id".

        The table is a pandas DataFrame if pandas is installed, else a table that is shown as HTML or text. Values are
        read from the outputs of the jobs: nothing is unpickled.
        """
        rows = [self._make_row(job) for job in self._sort_jobs()]
        columns = _name_columns(dict.fromkeys(column for row in rows for column in row))
        header, lines = list(columns.values()), [[row.get(column) for column in columns] for row in rows]
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            return Table(header, lines, "The sweep has no jobs.")
        frame: object = pandas.DataFrame(lines, columns=header)
        return frame

    def best(self) -> Job:
        """Return the job with the best number so far.

        Raises `JobError` if no job has a number yet. If jobs have returned numbers, but none with the name `metric`,
        the error lists their names.
        """
        jobs = self._sort_jobs()
        self._check_metric()
        if not jobs or self._score(jobs[0].id) is None:
            ended = bool(jobs) and all(job.last_status in ENDED for job in jobs)
            raise JobError(f"No job of the sweep has returned a number{', and all have ended' if ended else ' yet'}.")
        return jobs[0]

    def cancel(self, keep_best: int = 0) -> int:
        """Cancel all jobs of the sweep that have not ended, and return the number of jobs that were cancelled.

        Jobs that have ended keep their results. With `keep_best=n`, nothing is cancelled, and 0 is returned, until `n`
        jobs have returned a number. To end a sweep early, call the method in a loop with `wait(60)`. Raises `TypeError`
        or `ValueError` if `keep_best` is no whole number from 0, and with `keep_best` `JobError` if jobs have returned
        numbers, but none with the name `metric`.
        """
        check_count("keep_best", keep_best, "jobs", least=0)
        if keep_best and not self._has_numbers(keep_best):
            return 0
        going = [str(view["id"]) for view in self.list_views() if view.get("phase") not in ENDED]
        ended = 0
        for start in range(0, len(going), 500):
            answer = self._server.post("cancel", body={"jobs": going[start : start + 500]})
            ended += len(cast("list[object]", answer.get("jobs") or []))
        return ended

    def __repr__(self) -> str:
        phases = [str(view.get("phase")) for view in self.list_views()]
        counts = ", ".join(f"{phases.count(phase)} {phase}" for phase in dict.fromkeys(phases))
        return f"<Sweep {self.id}: {len(phases)} jobs ({counts})>"

    def _has_ended(self) -> str:
        return self.id if all(view.get("phase") in ENDED for view in self.list_views()) else ""

    def _update_jobs(self) -> list[Job]:
        """Return the jobs with their present states; read the values of jobs that are done and have not been read."""
        views = {str(view["id"]): view for view in self.list_views()}
        for job in self.jobs:
            job.take(views.get(job.id))
            if job.last_status == "done" and job.id not in self._values:
                simple = self._server.get("jobs", job.id, "value").get("value")
                self._values[job.id] = restore_numbers(simple)
        return self.jobs

    def _has_numbers(self, count: int) -> bool:
        """Return whether so many jobs have returned a number; raise `JobError` if all numbers have other names."""
        scores = [self._score(job.id) for job in self._update_jobs()]
        self._check_metric()
        return sum(score is not None for score in scores) >= count

    def _check_metric(self) -> None:
        """Raise `JobError` with the names of the returned numbers if no job has the one by which it is ordered."""
        if any(self._score(job.id) is not None for job in self.jobs):
            return
        values = [value for value in self._values.values() if isinstance(value, Mapping)]
        names = list(dict.fromkeys(name for value in values for name, each in value.items() if _is_number(each)))
        if names:
            wrong = f"a number named {self._metric!r}" if self._metric else "a number first"
            listed = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
            raise JobError(
                f"No job of the sweep has returned {wrong}. The returned numbers are {listed}: choose one with "
                f'jupyter_gq.find_sweep("{self.id}", metric={names[0]!r}).'
            )

    def _sort_jobs(self) -> list[Job]:
        """Return the jobs, best first, then in the order of the grid."""
        sign = -1 if self._mode == "max" else 1

        def rank(job: Job) -> tuple[bool, float]:
            score = self._score(job.id)
            return (score is None, 0.0 if score is None else sign * score)

        return sorted(self._update_jobs(), key=rank)

    def _make_row(self, job: Job) -> dict[_Column, object]:
        value = self._values.get(job.id)
        numbers = value if isinstance(value, Mapping) else {} if value is None else {self._metric or "value": value}
        return {
            _ID: job.id,
            **{("argument", name): each for name, each in self._points[job.id].items()},
            _STATE: job.last_status,
            **{("returned", name): each for name, each in numbers.items()},
        }

    def _score(self, job: str) -> float | None:
        """Return the number by which a job is ordered; None if it has none."""
        value = self._values.get(job)
        if isinstance(value, Mapping):
            value = value.get(self._metric) if self._metric else next(iter(value.values()), None)
        return float(value) if _is_number(value) else None


def _list_views(server: Server, group: str) -> list[Mapping[str, object]]:
    """Return all jobs of a group as the service describes them, newest first."""
    return cast("list[Mapping[str, object]]", server.get("jobs", group=group).get("jobs") or [])


def _name_columns(columns: Iterable[_Column]) -> dict[_Column, str]:
    """Return the columns in their order with their headings, which differ.

    A heading is the name of its column. If that is taken, "argument" or "returned" comes before it.
    """
    listed = list(columns)
    arguments, returned = ([column for column in listed if column[0] == kind] for kind in ("argument", "returned"))
    headings = {_ID: _ID[1], _STATE: _STATE[1]}
    for column in (*arguments, *returned):
        heading = column[1]
        while heading in headings.values():
            heading = f"{column[0]} {heading}"
        headings[column] = heading
    return {column: headings[column] for column in (_ID, *arguments, _STATE, *returned)}


def _is_number(value: object) -> TypeGuard[float]:
    """Return whether a value can be compared with others: nan cannot."""
    return isinstance(value, (int, float)) and not math.isnan(value)
