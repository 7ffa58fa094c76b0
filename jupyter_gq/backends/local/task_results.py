"""The results of the tasks of runs, read from the folders of the tasks in threads.

Rules
-----
After the table: a folder is read after the table of processes, so that a task that is dead in the table has written all
that it will write.

Nobody waits for long: an observation waits for `PATIENCE` seconds for the folders of an owner that answered last time,
and for no others. Until a folder has answered, the run counts as it was read last, and does not end; but a run without
processes holds its devices for `LONGEST_SILENCE` seconds at most. A task then counts as one that wrote no result. A
folder that was not even asked, because other file systems of the user do not answer, is not silent.

Threads of their own: starts that hang in one folder of a user keep no reading of that user's other runs waiting.

See docs/decisions/0339-go-on-without-files-that-answer-late.md.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import groupby
from pathlib import Path

from jupyter_gq.backends.processes import ProcessTable
from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.backends.user_threads import UserThreads
from jupyter_gq.domain.errors import BackendError, UnansweredFile
from jupyter_gq.domain.workload import RunKey

from .accounts import UnixAccount, UnixAccounts
from .files import find_change_time, is_missing
from .folders import task_folder
from .ledger import Run, TaskProcess
from .members import find_gone
from .results import Result, explain_missing_result, read_log_end, read_result

#: Seconds that an observation waits for the folders of one owner.
PATIENCE = 1.0
#: Seconds for which the end of a run waits for a folder that does not answer.
LONGEST_SILENCE = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskReading:
    """The content of a task's folder, or the error that came instead."""

    #: The process of the task, and whether it was dead, when the reading began.
    process: TaskProcess | None = None
    dead: bool = False
    #: The result that the task wrote; None if it wrote none.
    result: Result | None = None
    #: When the task wrote its result, in seconds since the epoch; None if it wrote none, or is alive.
    written_at: float | None = None
    folder_deleted: bool = False
    #: Whether the folder did not answer in time.
    unanswered: bool = False
    #: Whether it was asked; False = other file systems of the user are silent, so nothing is known about this one.
    asked: bool = True
    #: The end of the log of a dead task without a result; empty if only an earlier attempt at this run wrote to it.
    log_end: bytes = b""
    error: Exception | None = None


@dataclass
class TaskResults:
    """The reader of the folders of tasks.

    If the account of an owner was removed while a job ran, its tasks have no result, and no folder counts as deleted.
    """

    root: Path
    accounts: UnixAccounts
    _: KW_ONLY
    #: Exit codes of the processes that have ended, by id.
    exit_codes: Mapping[int, int]
    #: Returns the seconds for which the machine has been awake since its start.
    awake: Callable[[], float]
    #: Since when the folder of a dead task has not answered, by run and task.
    _silent_since: dict[tuple[RunKey, int], float] = field(init=False, default_factory=dict)
    _threads: UserThreads = field(
        init=False, default_factory=lambda: UserThreads("results of runs", most=32, most_of_user=1)
    )
    #: Owners whose folders answered late the last time.
    _late: set[str] = field(init=False, default_factory=set)
    #: What was read last, by run and task.
    _readings: dict[RunKey, dict[int, TaskReading]] = field(init=False, default_factory=dict)
    #: The readings that go on, by owner of the runs.
    _pending: "dict[str, asyncio.Task[dict[RunKey, dict[int, TaskReading]]]]" = field(init=False, default_factory=dict)

    async def look(self, runs: Sequence[Run], table: ProcessTable) -> None:
        """Read the folders of these runs, of which the table of processes was read before; forget all other runs."""
        self._collect()
        begun = []
        for owner, group in groupby(sorted(runs, key=lambda run: run.owner), lambda run: run.owner):
            if owner not in self._pending:
                wanted = [(run, frozenset(find_gone(run, table))) for run in group]
                self._pending[owner] = asyncio.create_task(self._threads.run(owner, self._read_all, wanted))
                begun.append(owner)
        awaited = {owner: self._pending[owner] for owner in begun if owner not in self._late}
        if awaited:
            await asyncio.wait(awaited.values(), timeout=PATIENCE)
            self._late |= {owner for owner, reading in awaited.items() if not reading.done()}
        self._collect()
        keys = {run.key for run in runs}
        self._readings = {key: readings for key, readings in self._readings.items() if key in keys}
        self._silent_since = {each: since for each, since in self._silent_since.items() if each[0] in keys}

    def knows_end(self, run: Run, gone: Sequence[int]) -> bool:
        """Return whether it is known how the dead tasks `gone` ended, or will not be known any more.

        That is so once each folder was read after the death of its task, or has not answered for `LONGEST_SILENCE`
        seconds. Raises an error of the reading.
        """
        for task in run.numbers:
            if error := self._find(run, task).error:
                raise error
        return all([self._is_read(run, task) for task in gone])

    def _is_read(self, run: Run, task: int) -> bool:
        reading = self._find(run, task)
        if not (reading.dead and reading.unanswered):
            self._silent_since.pop((run.key, task), None)
            return reading.dead
        if not reading.asked:
            return False
        now = self.awake()
        return now - self._silent_since.setdefault((run.key, task), now) >= LONGEST_SILENCE

    def read(self, run: Run, task: int) -> Result | None:
        """Return the result that a task wrote; None if it wrote none, as far as known."""
        return self._find(run, task).result

    def written_at(self, run: Run, task: int) -> float | None:
        """Return when a dead task wrote its result, in seconds since the epoch; None if it wrote none."""
        return self._find(run, task).written_at

    def of_dead_task(self, run: Run, task: int) -> Result:
        """Return the result of a dead task: the one that it wrote, else that of `explain_missing_result`."""
        process, reading = run.tasks[task], self._find(run, task)
        return reading.result or explain_missing_result(
            run,
            None if process is None else self.exit_codes.get(process.pid),
            has_started=process is not None or bool(reading.log_end),
            folder_deleted=process is not None and reading.folder_deleted,
            log_end=reading.log_end,
        )

    def is_folder_deleted(self, run: Run, task: int) -> bool:
        """Return whether the folder of a started task is gone, as far as known."""
        return self._find(run, task).folder_deleted

    def find_culprit(self, run: Run, gone: Sequence[int]) -> int | None:
        """Return the first task because of which all tasks must stop; None if there is none, as far as known.

        The others would wait for a dead task that has failed, and a task without its folder cannot report its result.
        """
        if not self.knows_end(run, gone):
            return None
        for task in run.numbers:
            if task in gone and self.of_dead_task(run, task).outcome not in (Outcome.SUCCEEDED, Outcome.PAUSED):
                return task
            if task not in gone and self.is_folder_deleted(run, task):
                return task
        return None

    def _find(self, run: Run, task: int) -> TaskReading:
        """Return the last reading of a task; an empty one if its process was another one then."""
        reading = self._readings.get(run.key, {}).get(task)
        return TaskReading() if reading is None or reading.process != run.tasks[task] else reading

    def _collect(self) -> None:
        """Keep the readings that have ended."""
        for owner, reading in list(self._pending.items()):
            if reading.done():
                del self._pending[owner]
                if reading.cancelled():
                    continue
                for key, tasks in reading.result().items():
                    self._readings[key] = {number: self._keep(key, number, task) for number, task in tasks.items()}
                is_late = any(task.unanswered for tasks in reading.result().values() for task in tasks.values())
                self._late = self._late | {owner} if is_late else self._late - {owner}

    def _keep(self, key: RunKey, number: int, reading: TaskReading) -> TaskReading:
        """Return what is known of a task now: without an answer, what was read last, with the present end."""
        before = self._readings.get(key, {}).get(number)
        if not reading.unanswered or before is None or before.process != reading.process:
            return reading
        return replace(before, dead=reading.dead, unanswered=True, asked=reading.asked)

    # -- in a thread

    def _read_all(self, wanted: Iterable[tuple[Run, Set[int]]]) -> dict[RunKey, dict[int, TaskReading]]:
        """Read the folders of runs of one owner, each with the numbers of its dead tasks."""
        return {
            run.key: {task: self._read_task(run, task, task in gone) for task in run.numbers} for run, gone in wanted
        }

    def _read_task(self, run: Run, task: int, dead: bool) -> TaskReading:
        reading = TaskReading(process=run.tasks[task], dead=dead)
        try:
            account = self._find_account(run)
            return reading if account is None else self._read_folder(run, reading, account, task)
        except UnansweredFile as error:
            return replace(reading, unanswered=True, asked=error.asked)
        except Exception as error:  # noqa: BLE001 - `knows_end` raises it, for this run only
            return replace(reading, error=error)

    def _read_folder(self, run: Run, reading: TaskReading, account: UnixAccount, task: int) -> TaskReading:
        folder = task_folder(self.root, run.job, run.number, task)
        result = read_result(folder, account)
        if result is None:
            log_end = read_log_end(folder, account) if reading.dead else b""
            written_at = find_change_time(folder / "log", account) if log_end else None
            if written_at is not None and written_at < run.launched_at:
                log_end = b""  # a launch that is repeated appends to the same log: nothing of it is of this attempt
            return replace(reading, folder_deleted=is_missing(folder, account), log_end=log_end)
        written_at = find_change_time(folder / "result.json", account) if reading.dead else None
        return replace(reading, result=result, written_at=written_at)

    def _find_account(self, run: Run) -> UnixAccount | None:
        """Return the account of the run's owner; None if it was removed."""
        try:
            return self.accounts.last_known(run.owner)
        except BackendError:
            return None
