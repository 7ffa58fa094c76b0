"""Which processes run what: one small file for each run, in a folder that only the service can write.

The file is there before the first process is, so that a service that was killed in between knows what to look for.
The file is not in the job's folder: the owner of that could write another pid there, and the service would signal that.
"""

import json
import logging
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from jupyter_gq.backends.processes import boot_id
from jupyter_gq.domain.json_types import JsonMapping

from .folders import checked_id

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskProcess:
    """The process of one task's runner."""

    pid: int
    #: Start time, see `processes.Process`.
    ticks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A run of a job."""

    job: str
    number: int
    owner: str
    #: One for each task; None = not known to have been started.
    tasks: tuple[TaskProcess | None, ...]
    #: When it was asked for, in seconds since the epoch.
    launched_at: float
    #: `boot_id` of the machine then.
    boot: str
    #: Devices of all tasks, so that they stay taken if the record of the job is lost.
    devices: tuple[str, ...] = ()
    #: Somebody asked for its end.
    stop_asked: bool = False
    #: When its processes are killed, in seconds since the epoch; None = not at all.
    kill_at: float | None = None
    #: The first task that failed, for which the others were stopped.
    culprit: int | None = None

    @property
    def key(self) -> tuple[str, int]:
        """Job and number."""
        return (self.job, self.number)

    @property
    def complete(self) -> bool:
        """Whether each task was started."""
        return None not in self.tasks

    def mark(self, task: int) -> str:
        """Return the mark that the processes of a task carry in their environment."""
        return f"{self.job}/{self.number}/{task}"


class Ledger:
    """The runs that were launched and not forgotten."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: dict[tuple[str, int], Run] = {}
        for file in sorted(folder.glob("*.json")):
            run = _read(file)
            if run is not None:
                self._runs[run.key] = run

    def all(self) -> tuple[Run, ...]:
        """Return the runs, oldest first."""
        return tuple(sorted(self._runs.values(), key=lambda run: (run.launched_at, run.key)))

    def get(self, job: str, number: int) -> Run | None:
        """Return a run; None if it is not known."""
        return self._runs.get((job, number))

    def put(self, run: Run) -> None:
        """Insert or replace; raise `OSError` when the disk refuses, and then nothing has changed."""
        file = self._file(run.job, run.number)
        temporary = file.with_suffix(".tmp")
        try:
            temporary.write_text(json.dumps(asdict(run)), encoding="utf-8")
            temporary.replace(file)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self._runs[run.key] = run

    def remember(self, run: Run) -> None:
        """Insert or replace for the life of this process only."""
        self._runs[run.key] = run

    def remove(self, job: str, number: int) -> None:
        """Forget a run. No error if it is not there."""
        self._runs.pop((job, number), None)
        self._file(job, number).unlink(missing_ok=True)

    def _file(self, job: str, number: int) -> Path:
        return self._folder / f"{checked_id(job)}.{number}.json"


def _read(file: Path) -> Run | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return _run(json.loads(file.read_text(encoding="utf-8")))
    # Left by a power cut: no process of that run is alive any more.
    log.warning("ledger entry cannot be read and is ignored: %s", os.fspath(file))
    return None


def _run(entry: JsonMapping) -> Run:
    # After a restart of the machine every process is gone, whatever now has the same pid and tick.
    same_boot = entry["boot"] == boot_id()
    gone = TaskProcess(pid=0, ticks=-1)
    tasks = tuple(task and (TaskProcess(**task) if same_boot else gone) for task in entry["tasks"])
    return Run(**{**entry, "tasks": tasks, "devices": tuple(entry.get("devices", ()))})
