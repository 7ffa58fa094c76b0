"""The files of jobs on this machine; see `backends.bundles.BundleStore` for the guarantees.

All of them are on the disk: see docs/decisions/0423-keep-the-large-files-of-one-machine-on-its-disk.md.
"""

import os
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from jupyter_gq.backends.bundles import LeftOutputs, LogName, LogSpan, PodFiles, encode_bundle, require_inner_path
from jupyter_gq.client.files.checkpoint_folder import CHECKPOINTS, has_checkpoints
from jupyter_gq.client.files.frozen_files import PACK
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.errors import BackendError, Conflict, StorageFull
from jupyter_gq.domain.json_types import JsonObject

from .accounts import UnixAccount, UnixAccounts
from .deletion import delete_folder
from .disk_use import describe_shortage, measure_folder
from .files import (
    DISK_FULL_ERRORS,
    cut_owned_beginning,
    find_owned_extent,
    make_private_folder,
    read_owned_end,
    read_owned_json,
    read_owned_notebook,
    read_owned_part,
    write_private,
)
from .folders import holding_folder, job_folder, list_jobs, make_service_folders, task_folder
from .spools import read_spool
from .user_access import run_as

#: Most bytes of the list of a job's results: a thousand files with long paths.
_LONGEST_RECORD = 8 * 1024 * 1024


class LocalBundles:
    """The store of the files of jobs in `<state_dir>/jobs`; only the account of its owner can read a job's folder."""

    #: Runners read and write these files themselves.
    pod_files: PodFiles | None = None

    def __init__(self, state_dir: str | Path, *, system_users: bool = False) -> None:
        self._root = Path(state_dir).resolve()
        self._accounts = UnixAccounts(system_users)
        self._own_account = UnixAccounts(system_users=False).look_up("")
        #: Disk space of folders whose measurement took longer than its caller waited.
        self._late_uses: dict[str, MiB] = {}
        make_service_folders(self._root, open_path=system_users)

    def write(self, job: str, owner: str, bundle: JsonObject, max_bytes: int, files: bytes = b"") -> None:
        """Store the bundle and the files of a new job; `max_bytes` limits the bundle alone.

        If writing fails, what was written is deleted. For errors see `BundleStore`.
        """
        content = encode_bundle(bundle, max_bytes)
        account = self._accounts.look_up(owner)
        folder = job_folder(self._root, job)
        try:
            run_as(self._own_account, folder, partial(folder.mkdir, mode=0o700))
        except FileExistsError as error:
            raise Conflict(f"There are already files of a job {job}.") from error
        except OSError as error:
            raise _translate_error(error) from error
        try:
            self._write_files(folder, content, files, account)
        except OSError as error:
            self.delete(job, owner)
            if isinstance(error, PermissionError) and account.switch:
                raise BackendError(
                    f"The system user {account.name} cannot reach {folder.parent}. Let others pass (chmod o+x) the "
                    "folders above it, or choose another SchedulerService.state_dir."
                ) from error
            raise _translate_error(error) from error

    def executed_notebook(self, job: str, owner: str) -> JsonObject | None:
        """Return the notebook with the outputs so far; None before there is one. For the errors see `BundleStore`."""
        return read_owned_notebook(job_folder(self._root, job) / "output.ipynb", self._accounts.look_up(owner))

    def log(self, job: str, owner: str, tail: int, *, run: int, tasks: Sequence[int]) -> str | None:
        """Return the ends of the logs of these tasks of that run; None before there is one; see `BundleStore.log`."""
        account = self._accounts.look_up(owner)
        files = {task: task_folder(self._root, job, run, task) / "log" for task in tasks}
        logs = {task: read_owned_end(file, account, size=tail // len(tasks)) for task, file in files.items()}
        texts = [(task, log.decode(errors="replace")) for task, log in logs.items() if log is not None]
        if len(texts) <= 1:
            return texts[0][1] if texts else None
        return "\n".join(f"== task {task} ==\n{text}" for task, text in texts)

    def log_span(self, log: LogName) -> LogSpan | None:
        """Return which bytes of a log are kept; None before there is one. For the errors see `BundleStore.log_span`."""
        extent = find_owned_extent(self._log_file(log), self._accounts.look_up(log.owner))
        return None if extent is None else LogSpan(start=extent[0], end=extent[1])

    def log_part(self, log: LogName, start: int, size: int) -> bytes:
        """Return a part of a log; for the errors see `BundleStore.log_span`."""
        path = self._log_file(log)
        return read_owned_part(path.parent, path.name, self._accounts.look_up(log.owner), start=start, size=size)

    def cut_log(self, log: LogName, keep: int) -> int:
        """Free the beginning of a log, and return the freed bytes; for the errors see `BundleStore.cut_log`."""
        return cut_owned_beginning(self._log_file(log), self._accounts.look_up(log.owner), keep=keep)

    def results(self, job: str, owner: str, *, limit: int | None = None) -> JsonObject | None:
        """Return the document that lists the job's results; None before there is one. See `BundleStore.results`."""
        record = job_folder(self._root, job) / "results.json"
        return read_owned_json(record, self._accounts.look_up(owner), limit=limit or _LONGEST_RECORD)

    def result_part(self, job: str, owner: str, path: str, start: int, size: int) -> bytes:
        """Return a part of one of the job's results; for the errors see `BundleStore.result_part`."""
        folder, inner = job_folder(self._root, job), f"results/{require_inner_path(path)}"
        return read_owned_part(folder, inner, self._accounts.look_up(owner), start=start, size=size)

    def is_outside(self, job: str, owner: str, path: str | None, start: int) -> bool:
        """Return False: all files are on the disk of this machine."""
        return False

    def left_outputs(self, job: str, owner: str, run: int, start: int) -> LeftOutputs:
        """Return some of the outputs in the spool of a run, from byte `start` on; see `BundleStore.left_outputs`."""
        return read_spool(task_folder(self._root, job, run, 0) / "spool.jsonl", self._accounts.look_up(owner), start)

    def shortage(self) -> str:
        """Return a sentence that says that the disk has no room for a new job; "" if it has."""
        return describe_shortage(self._root / "jobs")

    def trouble(self) -> str:
        """Return "": no contents are outside this machine."""
        return ""

    def disk_use(self, job: str) -> MiB | None:
        """Return the space that the folder of the job takes; see `disk_use.measure_folder`.

        Returns None if there is no answer in time. If one comes later, the next call returns it.
        """
        folder, late = job_folder(self._root, job), self._late_uses.pop(job, None)

        def keep(used: MiB) -> None:
            self._late_uses[job] = used

        try:
            return run_as(self._own_account, folder / "any file", partial(measure_folder, folder), discard=keep)
        except TimeoutError:
            return late

    def has_checkpoints(self, job: str, owner: str) -> bool | None:
        """Return whether the job's folder has complete checkpoints; None if it cannot be read now or in time.

        Raises `BackendError` if jobs cannot run as the owner.
        """
        folder = job_folder(self._root, job) / CHECKPOINTS
        try:
            return run_as(self._accounts.look_up(owner), folder, partial(has_checkpoints, folder))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return None

    def jobs(self) -> Collection[str]:
        """Return the ids of all jobs that have a folder."""
        return list_jobs(self._root)

    def delete(self, job: str, owner: str) -> None:
        """Delete all files of the job; do nothing if there are none. What cannot be deleted is logged."""
        delete_folder(job_folder(self._root, job), holding_folder(self._root))

    def withdraw(self, job: str, owner: str) -> None:
        """Delete all files of a job that was refused, as `delete` does."""
        self.delete(job, owner)

    def _log_file(self, log: LogName) -> Path:
        return task_folder(self._root, log.job, log.run, log.task) / "log"

    def _write_files(self, folder: Path, content: bytes, files: bytes, account: UnixAccount) -> None:
        """Give the folder to the account, and write the bundle, the files and the folder for checkpoints into it."""
        if account.switch:
            run_as(self._own_account, folder, partial(os.chown, folder, account.uid, account.gid))
        write_private(folder / "bundle.json", content, account)
        if files:
            write_private(folder / PACK, files, account)
        make_private_folder(folder / CHECKPOINTS, account)


def _translate_error(error: OSError) -> StorageFull | BackendError:
    """Return the error for the owner of a job whose files the disk did not take."""
    if error.errno in DISK_FULL_ERRORS:
        return StorageFull(
            "The disk that keeps the jobs is full, so nothing was sent. Free some space, or ask your "
            "administrator for more."
        )
    return BackendError(f"The files of the job could not be written: {error.strerror or error}.")
