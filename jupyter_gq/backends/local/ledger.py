"""The ledger of runs: a small file for each run with its processes, in a folder that only the service can write.

The file is written before the first process starts. So after a crash the service knows which processes to search
for. The file is not in the job's folder, because the owner of that folder could replace a process id in it, and the
service would signal that process.
"""

import json
import logging
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from jupyter_gq.backends.control_groups import RunLimits
from jupyter_gq.backends.machine_clock import MachineClock
from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.files.user_files import SMALL_FILE, read_json
from jupyter_gq.devices.linux.processes import boot_id
from jupyter_gq.domain.amount import ONE_GPU, MilliGpu
from jupyter_gq.domain.errors import UnusableFile
from jupyter_gq.domain.workload import TaskPlacement

from .folders import require_safe_id

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskProcess:
    """The process of one task's runner."""

    pid: int
    #: Start time in clock ticks; see `processes.Process`.
    ticks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A task of an elastic run that is about to join it, or that leaves it: its number and its place."""

    number: int
    place: TaskPlacement
    #: When the processes of a task that leaves are killed, in seconds awake since the start of the machine.
    kill_by: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Elasticity:
    """The facts about an elastic run: which tasks it has now, and which join or leave it."""

    #: The least number of tasks with which the run goes on.
    least: int
    #: Number of the task at each place of the run's `placement`, ascending.
    numbers: tuple[int, ...]
    #: The task that is being started now; None = none.
    joining: Slot | None = None
    #: Tasks that were told to stop while the run goes on, and have processes still.
    leaving: tuple[Slot, ...] = ()
    #: Why no task is added any more, as a sentence; "" = tasks can be added.
    closed: str = ""
    #: The limits of one task.
    limits: RunLimits = field(default_factory=RunLimits)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A run of a job, as it is stored in the ledger."""

    job: str
    number: int
    owner: str
    #: Process of each task, by its number; None if it is not known that the task was started.
    tasks: tuple[TaskProcess | None, ...]
    #: Time of the launch, in seconds since the epoch.
    launched_at: float
    #: `boot_id` of the machine at that time.
    boot: str
    #: Place of each task and `hash_token` of the runner's secret, so that a record that lost them gets them back.
    placement: tuple[TaskPlacement, ...] = ()
    #: Part of each device that a task has, in thousandths; a whole device if an earlier release began the run.
    milli: MilliGpu = ONE_GPU
    token_hash: str = ""
    #: Port on which the tasks meet; 0 = there is only one task.
    port: int = 0
    #: Path of the run's control group; "" if it has none.
    group: str = ""
    #: Whether the run was told to stop.
    stop_asked: bool = False
    #: When the processes of the run are killed, in seconds awake since the start of the machine; None if they are not.
    kill_by: float | None = None
    #: Number of the failed task because of which the other tasks were stopped; None if there is none.
    culprit: int | None = None
    #: How the run ends, and why, if its start failed and left processes; None = its tasks tell.
    failed_as: Outcome | None = None
    failure: str = ""
    #: None = the run keeps all of its tasks until its end.
    elastic: Elasticity | None = None

    @property
    def key(self) -> tuple[str, int]:
        """The job and the number of the run."""
        return (self.job, self.number)

    @property
    def log_fields(self) -> dict[str, object]:
        """The fields of the service's log that name the run."""
        return {"workload": self.job, "run": self.number}

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the tasks that the run has, without those that join or leave it."""
        return tuple(range(len(self.tasks))) if self.elastic is None else self.elastic.numbers

    @property
    def members(self) -> tuple[int, ...]:
        """The numbers of all tasks that may have processes."""
        if self.elastic is None:
            return self.numbers
        joining = () if self.elastic.joining is None else (self.elastic.joining.number,)
        return (*self.numbers, *joining, *(slot.number for slot in self.elastic.leaving))

    @property
    def is_complete(self) -> bool:
        """Whether all tasks are known to have been started."""
        return all(self.tasks[number] is not None for number in self.numbers)

    def with_process(self, number: int, process: TaskProcess | None) -> "Run":
        """Return a copy of the run in which this is the process of one task."""
        return replace(self, tasks=(*self.tasks[:number], process, *self.tasks[number + 1 :]))

    def mark(self, task: int) -> str:
        """Return the mark that the processes of a task carry in their environment."""
        return f"{self.job}/{self.number}/{task}"


_RUN = TypeAdapter(Run)


class Ledger:
    """The runs that were launched and are not forgotten yet."""

    def __init__(self, folder: Path, clock: MachineClock) -> None:
        self._folder = folder
        self._runs: dict[tuple[str, int], Run] = {}
        for file in sorted(folder.glob("*.json")):
            run = _read_entry(file, until=lambda at: clock.awake() + max(0.0, at - clock.now()))
            if run is not None:
                self._runs[run.key] = run

    def all(self) -> tuple[Run, ...]:
        """Return the runs, oldest first."""
        return tuple(sorted(self._runs.values(), key=lambda run: (run.launched_at, run.key)))

    def get(self, job: str, number: int) -> Run | None:
        """Return a run of a job by its number; None if the ledger does not have it."""
        return self._runs.get((job, number))

    def renew(self, run: Run) -> Run:
        """Return the run as it is now; as it is given if the ledger does not have it."""
        return self._runs.get(run.key, run)

    def put(self, run: Run) -> None:
        """Store the run on disk, replacing its entry; raise `OSError` and change nothing if the disk refuses."""
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
        """Keep the run in memory only, replacing its entry: after a restart of the service the old entry holds."""
        self._runs[run.key] = run

    def remove(self, job: str, number: int) -> None:
        """Remove the entry of a run from memory and disk; do nothing if there is none."""
        self._runs.pop((job, number), None)
        self._file(job, number).unlink(missing_ok=True)

    def _file(self, job: str, number: int) -> Path:
        return self._folder / f"{require_safe_id(job)}.{number}.json"


def _read_entry(file: Path, until: Callable[[float], float]) -> Run | None:
    """Return the run in this file; log a damaged file and return None.

    `until` turns a time since the epoch, as entries of older releases have it, into one in seconds awake. If the
    machine was started anew since the launch, the processes of the run count as ended.
    """
    try:
        entry = read_json(file, limit=SMALL_FILE)
        _convert_deadlines(entry, until)
        run = _RUN.validate_python(entry)
    except (UnusableFile, ValidationError) as error:
        # A power cut leaves such a file, and then no process of the run is alive any more.
        log.warning("ledger entry cannot be read and is ignored: %s: %s", os.fspath(file), error)
        return None
    if run.boot == boot_id():
        return run
    # After a restart of the machine another process may have the same id and start time.
    gone = TaskProcess(pid=0, ticks=-1)
    return replace(run, tasks=tuple(task and gone for task in run.tasks))


def _convert_deadlines(entry: object, until: Callable[[float], float]) -> None:
    """Replace each `kill_at` of an entry of an older release, and of the tasks that leave its run, by a `kill_by`."""
    if isinstance(entry, list):
        for each in entry:
            _convert_deadlines(each, until)
    elif isinstance(entry, dict):
        at = entry.pop("kill_at", None)
        if isinstance(at, int | float):
            entry["kill_by"] = until(at)
        elastic = entry.get("elastic")
        _convert_deadlines(elastic.get("leaving") if isinstance(elastic, dict) else None, until)
