"""The files of jobs on this machine; see `backends.bundles.BundleStore` for the guarantees."""

import json
import os
import shutil
from pathlib import Path

from jupyter_gq.backends.bundles import PodFiles, encode_bundle
from jupyter_gq.domain.errors import BackendError, Conflict, StorageFull
from jupyter_gq.domain.json_types import JsonObject

from .accounts import Account, Accounts, acting_as
from .files import FULL, make_private_folder, read_owned, write_private
from .folders import job_folder, make_service_folders


class LocalBundles:
    """Keeps the files of jobs in `<state_dir>/jobs`, each folder for its owner's account alone."""

    #: Runners read and write these files themselves.
    pod_files: PodFiles | None = None

    def __init__(self, state_dir: str | Path, *, system_users: bool = False) -> None:
        self._root = Path(state_dir).resolve()
        self._accounts = Accounts(system_users)
        make_service_folders(self._root, open_path=system_users)

    def write(self, job: str, owner: str, bundle: JsonObject, max_bytes: int) -> None:
        """Keep the bundle of a new job; everything or nothing."""
        content = encode_bundle(bundle, max_bytes)
        account = self._accounts.of(owner)
        folder = job_folder(self._root, job)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError as error:
            raise Conflict(f"There are already files of a job {job}.") from error
        except OSError as error:
            raise _refused(error) from error
        try:
            self._fill(folder, content, account)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, PermissionError) and account.switch:
                raise BackendError(
                    f"The system user {account.name} cannot reach {folder.parent}. Let others pass (chmod o+x) the "
                    "folders above it, or choose another SchedulerService.state_dir."
                ) from error
            raise _refused(error) from error

    def executed_notebook(self, job: str, owner: str) -> JsonObject | None:
        """Return the notebook with the outputs so far; None before there is one."""
        content = read_owned(job_folder(self._root, job) / "output.ipynb", self._accounts.of(owner))
        try:
            notebook = json.loads(content or b"null")
        except ValueError:
            return None
        return notebook if isinstance(notebook, dict) else None

    def log(self, job: str, owner: str, tail: int) -> str | None:
        """Return the last `tail` bytes of the newest run's log, of all its tasks; None before a run."""
        account = self._accounts.of(owner)
        run = _newest(job_folder(self._root, job) / "runs", account)
        if run is None:
            return None
        tasks = _numbered(run, account)
        logs = [(task.name, read_owned(task / "log", account, tail=tail // len(tasks))) for task in tasks]
        texts = [(name, content.decode(errors="replace")) for name, content in logs if content is not None]
        if len(texts) <= 1:
            return texts[0][1] if texts else None
        return "\n".join(f"== task {name} ==\n{text}" for name, text in texts)

    def delete(self, job: str, owner: str) -> None:
        """Forget all files of the job. No error if there are none."""
        # rmtree works with handles of folders and follows no link, so it is safe as root too.
        shutil.rmtree(job_folder(self._root, job), ignore_errors=True)

    def _fill(self, folder: Path, content: bytes, account: Account) -> None:
        if account.switch:
            os.chown(folder, account.uid, account.gid)
        write_private(folder / "bundle.json", content, account)
        make_private_folder(folder / "checkpoint", account)


def _refused(error: OSError) -> StorageFull | BackendError:
    if error.errno in FULL:
        return StorageFull("The disk that keeps the jobs is full, so nothing was sent. Free some space, or ask for it.")
    return BackendError(f"The files of the job could not be written: {error.strerror or error}.")


def _newest(runs: Path, account: Account) -> Path | None:
    found = _numbered(runs, account)
    return found[-1] if found else None


def _numbered(folder: Path, account: Account) -> list[Path]:
    with acting_as(account):
        try:
            return sorted((entry for entry in folder.iterdir() if entry.name.isdecimal()), key=lambda e: int(e.name))
        except OSError:
            return []
