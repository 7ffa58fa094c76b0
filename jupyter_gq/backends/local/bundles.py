"""The files of jobs on this machine; see `backends.bundles.BundleStore` for the guarantees."""

import json
import os
import shutil
from pathlib import Path

from jupyter_gq.backends.bundles import PodFiles, encode_bundle
from jupyter_gq.domain.errors import BackendError, Conflict, StorageFull
from jupyter_gq.domain.json_types import JsonObject

from .accounts import Account, Accounts, acting_as
from .files import DISK_FULL_ERRORS, make_private_folder, read_owned, write_private
from .folders import job_folder, make_service_folders


class LocalBundles:
    """The store of the files of jobs in `<state_dir>/jobs`; only the account of its owner can read a job's folder."""

    #: Runners read and write these files themselves.
    pod_files: PodFiles | None = None

    def __init__(self, state_dir: str | Path, *, system_users: bool = False) -> None:
        self._root = Path(state_dir).resolve()
        self._accounts = Accounts(system_users)
        make_service_folders(self._root, open_path=system_users)

    def write(self, job: str, owner: str, bundle: JsonObject, max_bytes: int) -> None:
        """Store the bundle of a new job; on any error nothing is left. For the errors see `BundleStore.write`."""
        content = encode_bundle(bundle, max_bytes)
        account = self._accounts.look_up(owner)
        folder = job_folder(self._root, job)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError as error:
            raise Conflict(f"There are already files of a job {job}.") from error
        except OSError as error:
            raise _translate_error(error) from error
        try:
            self._write_files(folder, content, account)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, PermissionError) and account.switch:
                raise BackendError(
                    f"The system user {account.name} cannot reach {folder.parent}. Let others pass (chmod o+x) the "
                    "folders above it, or choose another SchedulerService.state_dir."
                ) from error
            raise _translate_error(error) from error

    def executed_notebook(self, job: str, owner: str) -> JsonObject | None:
        """Return the notebook with the outputs so far; None before there is one."""
        content = read_owned(job_folder(self._root, job) / "output.ipynb", self._accounts.look_up(owner))
        try:
            notebook = json.loads(content or b"null")
        except ValueError:
            return None
        return notebook if isinstance(notebook, dict) else None

    def log(self, job: str, owner: str, tail: int) -> str | None:
        """Return the end of the newest run's log, `tail` bytes for all tasks together; None before the first run."""
        account = self._accounts.look_up(owner)
        run = _find_newest_run(job_folder(self._root, job) / "runs", account)
        if run is None:
            return None
        tasks = _list_numbered(run, account)
        logs = [(task.name, read_owned(task / "log", account, tail=tail // len(tasks))) for task in tasks]
        texts = [(name, content.decode(errors="replace")) for name, content in logs if content is not None]
        if len(texts) <= 1:
            return texts[0][1] if texts else None
        return "\n".join(f"== task {name} ==\n{text}" for name, text in texts)

    def delete(self, job: str, owner: str) -> None:
        """Delete all files of the job; do nothing if there are none."""
        # rmtree uses file descriptors of folders and follows no link, so it is safe for root too.
        shutil.rmtree(job_folder(self._root, job), ignore_errors=True)

    def _write_files(self, folder: Path, content: bytes, account: Account) -> None:
        """Give the folder to the account, and write the bundle and the folder for checkpoints into it."""
        if account.switch:
            os.chown(folder, account.uid, account.gid)
        write_private(folder / "bundle.json", content, account)
        make_private_folder(folder / "checkpoint", account)


def _translate_error(error: OSError) -> StorageFull | BackendError:
    """Return the error for the owner of a job whose files the disk did not take."""
    if error.errno in DISK_FULL_ERRORS:
        return StorageFull(
            "The disk that keeps the jobs is full, so nothing was sent. Free some space, or ask your "
            "administrator for more."
        )
    return BackendError(f"The files of the job could not be written: {error.strerror or error}.")


def _find_newest_run(runs: Path, account: Account) -> Path | None:
    found = _list_numbered(runs, account)
    return found[-1] if found else None


def _list_numbered(folder: Path, account: Account) -> list[Path]:
    """Return the entries of a folder whose names are numbers, in the order of the numbers."""
    with acting_as(account):
        try:
            return sorted((entry for entry in folder.iterdir() if entry.name.isdecimal()), key=lambda e: int(e.name))
        except OSError:
            return []
