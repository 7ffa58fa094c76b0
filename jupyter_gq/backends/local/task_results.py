"""The results of the tasks of runs, read from the folders of the tasks."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.domain.errors import BackendError

from .accounts import UnixAccount, UnixAccounts
from .files import find_change_time, is_missing
from .folders import task_folder
from .ledger import Run
from .results import Result, explain_missing_result, read_log_end, read_result


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskResults:
    """The reader of the folders of tasks. Without its owner's account, removed while a job ran, it has no folder."""

    root: Path
    accounts: UnixAccounts
    #: Exit codes of the processes that have ended, by id.
    exit_codes: Mapping[int, int]

    def read(self, run: Run, task: int) -> Result | None:
        """Return the result that a task wrote; None if it wrote none."""
        account = self._find_account(run)
        return None if account is None else read_result(self._folder(run, task), account)

    def written_at(self, run: Run, task: int) -> float | None:
        """Return when a task wrote its result, in seconds since the epoch; None if it wrote none."""
        account = self._find_account(run)
        if account is None or self.read(run, task) is None:
            return None
        return find_change_time(self._folder(run, task) / "result.json", account)

    def of_dead_task(self, run: Run, task: int) -> Result:
        """Return the result of a dead task: the one that it wrote, else that of `explain_missing_result`."""
        process = run.tasks[task]
        return self.read(run, task) or explain_missing_result(
            run,
            None if process is None else self.exit_codes.get(process.pid),
            folder_deleted=process is not None and self.is_folder_deleted(run, task),
            log=lambda: self._read_log_end(run, task),
        )

    def is_folder_deleted(self, run: Run, task: int) -> bool:
        """Return whether the folder of a started task is gone."""
        account = self._find_account(run)
        return account is not None and is_missing(self._folder(run, task), account)

    def _read_log_end(self, run: Run, task: int) -> bytes:
        account = self._find_account(run)
        return b"" if account is None else read_log_end(self._folder(run, task), account)

    def _folder(self, run: Run, task: int) -> Path:
        return task_folder(self.root, run.job, run.number, task)

    def _find_account(self, run: Run) -> UnixAccount | None:
        """Return the account of the run's owner; None if it was removed."""
        try:
            return self.accounts.last_known(run.owner)
        except BackendError:
            return None
