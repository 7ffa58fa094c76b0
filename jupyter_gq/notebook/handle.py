"""The handle of a training job in the user's kernel: its state, outputs, result and end."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Mapping
from html import escape
from numbers import Real
from os import PathLike
from pathlib import Path

from jupyter_gq.domain.phases import ENDED, describe_phase, tell_state

from .clock import monotonic, now
from .options import make_plain
from .pace import INTERVAL, Pace
from .pickled_call import restore_numbers
from .results import ResultError, load
from .server import JobError, Server, check_id, check_path, find_server, find_target

#: Media type by which JupyterLab shows a job with its live state.
JOB_MIME = "application/vnd.jupyter-gq.job+json"
#: What may name a job, for a sentence.
_ID = 'the id of a job, such as "job-4f1c", the beginning of one, or "last"'
#: Most sentences on files that a copy left out.
_MOST_TOLD = 5
#: Seconds that a representation of a job may wait for its present state.
_SHOW_TIMEOUT = 2.0
_LIVE_FIELDS = ("name", "queue", "gpus", "phase", "sentence", "submitted_at", "finished_at")


class JobFailed(JobError):
    """The error for a job that failed or was cancelled; the text ends with `traceback`, the one of its code."""

    def __init__(self, said: str, traceback: str = "") -> None:
        """Create the error from a sentence and the traceback of the code, "" if there is none."""
        super().__init__(f"{said}\n\n{traceback}" if traceback else said)
        self.traceback = traceback


class Job:
    """A training job of the user. The job is kept by the scheduler service, and outlives this handle and the kernel.

    `jupyter_gq.job(id)` makes a new handle for the same job, and `jupyter_gq.job("last")` one for the newest job. Every
    method and property that asks the service raises `JobError` with a sentence if the service refuses or does not
    answer.
    """

    def __init__(self, server: Server, view: Mapping[str, object]) -> None:
        self._server, self._view = server, view

    @property
    def id(self) -> str:
        """The id of the job, such as "job-4f1c"."""
        return str(self._view["id"])

    @property
    def name(self) -> str:
        """The name of the job."""
        return str(self._view.get("name") or self.id)

    @property
    def status(self) -> str:
        """The present state of the job.

        The word is one of waiting, starting, running, pausing, paused, cancelling, done, failed and cancelled.
        """
        self._view = self._server.get("jobs", self.id)
        return self._phase

    @property
    def last_status(self) -> str:
        """The state in the last answer of the service about this job; sends no request."""
        return self._phase

    @property
    def reason(self) -> str:
        """The present state in one sentence: why the job waits, was paused or failed, or what it does."""
        self._view = self._server.get("jobs", self.id)
        return str(self._view.get("sentence") or "")

    @property
    def cost(self) -> float:
        """GPU seconds that the job has used so far: GPUs of all tasks, times the seconds of all runs.

        Pauses and the time of each start do not count. All runs count with the GPUs and tasks that the job has now,
        also if they were changed between runs. Of a job with `min_tasks`, that is the most that it can have used: it
        counts as if it had always run with all of its tasks.
        """
        self._view = self._server.get("jobs", self.id)
        return _count_gpu_seconds(self._view)

    def take(self, view: Mapping[str, object] | None) -> None:
        """Take a newer description of the job from the service, if there is one."""
        self._view = self._view if view is None else view

    def wait(self, timeout: float | None = None) -> str:
        """Wait until the job has ended, at most `timeout` seconds, and return the status that it has then.

        An interrupt of the kernel ends the wait and not the job. While the service restarts, the wait goes on.
        """
        return wait_until(self._has_ended, timeout) or self._phase

    def result(self, timeout: float | None = None) -> object:
        """Wait until the job has ended, and return what its function returned.

        For a job that was sent as a cell, return its variable if it brings back one, a dict by name if it brings back
        several, and the number, text or dict that it has shown if it brings back none. Raises `JobFailed` with the
        traceback as text if the code failed or the job was cancelled, `TimeoutError` if it has not ended within
        `timeout` seconds, and `JobError` if there is no value that this kernel can load.
        """
        status = self.wait(timeout)
        if status not in ENDED:
            raise TimeoutError(f"The job {self.name!r} has not ended within {timeout} s: it {describe_phase(status)}.")
        if status != "done":
            raise self._make_failure(status)
        returns = self._view.get("returns")
        names = [str(name) for name in returns] if isinstance(returns, list) else []
        if not names:
            return self._read_shown_value()
        try:
            values = load(self.id, names)
        except ResultError as error:
            raise JobError(str(error)) from error
        return values[names[0]] if len(names) == 1 else values

    def logs(self) -> str:
        """Return what the cells of the job have printed and shown so far, as text."""
        return str(self._server.get("jobs", self.id, "text").get("text") or "")

    def files(self) -> list[Mapping[str, object]]:
        """Return the files that the job wrote, each with its `path`, its size in `bytes`, and a `reason`.

        The reason says why a file cannot be brought back; it is empty for the others. A job that has not ended has no
        list yet, and raises `JobError`. Of more than 1,000 files, the newest are returned, and a warning counts the
        others.
        """
        results = self._server.get("jobs", self.id, "results")
        found, more = results.get("files"), results.get("omitted_files")
        if more:
            warnings.warn(f"{more} more files of the job are not listed; `download` finds them by name.", stacklevel=2)
        return [file for file in found if isinstance(file, dict)] if isinstance(found, list) else []

    def download(self, name: str | None = None, to: str | PathLike[str] = ".", replace: bool = False) -> list[Path]:
        """Copy a file that the job wrote into the folder `to`, under its path there; without `name`, all files.

        Return the paths of the copies. A file that is there and differs raises `JobError`, unless `replace` is true.
        Hidden files are copied only by name, and so are those that `files` does not list; a warning tells what is left
        out. The folder must exist; folders below it are made.
        """
        body = {
            "paths": [] if name is None else [check_path(name)],
            "existing": "replace" if replace else "ask",
            "folder": find_target(to),
        }
        copied, left = self._server.copy(self.id, body)
        if left:
            more = f" And {len(left) - _MOST_TOLD} more." if len(left) > _MOST_TOLD else ""
            warnings.warn(f"Left out: {' '.join(left[:_MOST_TOLD])}{more}", stacklevel=2)
        return [Path(str(copy["target"])) for copy in copied]

    def change(  # noqa: PLR0913 - each field of a job that can change is a keyword
        self,
        *,
        gpus: float | str | None = None,
        gpu_memory: float | str | None = None,
        tasks: int | None = None,
        min_tasks: int | None = None,
        queue: str | None = None,
        priority: int | None = None,
        max_seconds: float | None = None,
        held: bool | None = None,
    ) -> None:
        """Change the job as the keywords say that are not None: all of them together, or nothing.

        The keywords have the meaning that they have in `submit`. `gpus`, `gpu_memory`, `tasks`, `min_tasks` and `queue`
        change only while the job waits, and a change of the first four ends the suspended run of a paused job. If only
        `tasks` is named, the least number of tasks stays; a job that starts with all of its tasks or not at all stays
        so. `max_seconds=0` removes the job's own limit. `held=True` holds the job, which pauses it if it runs, and
        `held=False` releases it.

        Raises `TypeError` or `ValueError` for values that are no text and no finite number, and `JobError` with the
        reason if the service refuses the change.
        """
        wanted = {
            "gpus": gpus,
            "gpu_memory": gpu_memory,
            "tasks": tasks,
            "min_tasks": min_tasks,
            "queue": queue,
            "priority": priority,
            "max_seconds": max_seconds,
        }
        self._view = self._server.patch("jobs", self.id, body={**make_plain(wanted), "held": held})

    def cancel(self) -> None:
        """Cancel the job: at once if it waits; a running job has a few seconds to save its state.

        Does nothing for a job that has ended.
        """
        try:
            self._view = self._server.delete("jobs", self.id)
        except JobError as error:
            if error.status != 409:
                raise

    def __repr__(self) -> str:
        self._look()
        return self._describe()

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        """Return what notebooks show of the job: data that JupyterLab shows live, and the present state as text."""
        self._look()
        return self.show_last()

    def show_last(self) -> dict[str, object]:
        """Return what notebooks show of the job by the last answer of the service about it; sends no request."""
        text = self._describe()
        live = {"job": self.id, **{field: self._view.get(field) for field in _LIVE_FIELDS}}
        html = f"<p><b>{escape(self.name)}</b> <code>{escape(self.id)}</code>: {escape(self._describe_state())}</p>"
        return {JOB_MIME: live, "text/html": html, "text/plain": text}

    @property
    def _phase(self) -> str:
        return str(self._view.get("phase") or "")

    def _has_ended(self) -> str:
        """Return the status of a job that has ended, "" before."""
        status = self._phase if self._phase in ENDED else self.status
        return status if status in ENDED else ""

    def _look(self) -> None:
        """Ask for the present state if it can still change; keep the last known one if nobody answers soon."""
        if self._phase not in ENDED:
            with contextlib.suppress(JobError):
                self._view = self._server.get("jobs", self.id, timeout=_SHOW_TIMEOUT)

    def _describe(self) -> str:
        return " ".join(f"<Job {self.id} {self.name!r}: {self._describe_state()}>".split())

    def _describe_state(self) -> str:
        sentence = str(self._view.get("sentence") or "")
        return tell_state(sentence, self._phase, self._phase) if sentence else self._phase

    def _make_failure(self, status: str) -> JobFailed:
        said = f"The job {self.name!r} ({self.id}) {tell_state(str(self._view.get('sentence') or ''), status)}"
        traceback = ""
        with contextlib.suppress(JobError):
            traceback = str(self._server.get("jobs", self.id, "text").get("error") or "")
        return JobFailed(said, traceback)

    def _read_shown_value(self) -> object:
        """Return the number, text or dict of them that the job has shown; raise `JobError` if it has shown none."""
        value = restore_numbers(self._server.get("jobs", self.id, "value").get("value"))
        if value is None:
            raise JobError(
                f"The job {self.name!r} has brought nothing back. Name the variables when you send it, or write files "
                "to jupyter_gq.results_dir()."
            )
        return value


def job(id: str) -> Job:
    """Return the handle of a job of yours by its id, such as "job-4f1c", or by the beginning of it.

    "last" is the job that was sent last. Raises `JobError` if there is no such job, or more than one.
    """
    name = check_id(id, _ID)
    server = find_server()
    return Job(server, server.get("jobs", name))


def wait_until(find: Callable[[], str], timeout: float | None, *, every: float | None = None) -> str:
    """Call `find` until it returns a text, and return that; "" after `timeout` seconds.

    Between two calls are `every` seconds, about one by default, and more while nobody answers. Raises `JobError` if a
    request is refused, and `TypeError` or `ValueError` for a `timeout` that is no number.
    """
    _check_timeout(timeout)
    pace = Pace(INTERVAL if every is None else every)
    end = None if timeout is None else monotonic() + timeout
    while True:
        try:
            found = find()
            pause = pace.next_pause(answered=True)
        except JobError as error:
            if not error.is_temporary:
                raise
            found, pause = "", pace.next_pause(answered=False)
        left = pause if end is None else end - monotonic()
        if found or left <= 0:
            return found
        time.sleep(min(pause, left))


def _check_timeout(timeout: float | None) -> None:
    if timeout is not None and not isinstance(timeout, Real):
        raise TypeError(f"timeout is a number of seconds, or None, not {timeout!r:.100}.")
    if timeout is not None and math.isnan(timeout):
        raise ValueError("timeout is a number of seconds, not nan.")


def _count_gpu_seconds(view: Mapping[str, object]) -> float:
    """Return the GPU seconds of all runs of a job."""
    ran, since = view.get("ran_seconds"), view.get("running_since")
    ended = float(ran) if isinstance(ran, (int, float)) else 0.0
    present = max(0.0, now() - float(since)) if isinstance(since, (int, float)) else 0.0
    gpus, tasks = float(str(view.get("gpus") or 0)), int(str(view.get("tasks") or 1))
    return (ended + present) * gpus * tasks


def find_job_id(job: object) -> str:
    """Return the id of a job that an option names by its handle, or by a text as `job` takes; "" for "", which is none.

    Raises `JobError` with a sentence for anything else.
    """
    if isinstance(job, Job):
        return job.id
    if job == "":
        return ""
    name = check_id(job, f"a job, {_ID}")
    return str(find_server().get("jobs", name)["id"])
