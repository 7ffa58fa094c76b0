"""The start of the processes of a run.

The service itself never enters a folder of a user: a dead file system would hold it. See `ENTER`.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jupyter_gq.client.files import working_folder
from jupyter_gq.client.files.user_files import LARGE_FILE
from jupyter_gq.connections.limits import restore_file_limit
from jupyter_gq.devices.linux.processes import read_process
from jupyter_gq.domain.errors import (
    AdminError,
    BackendError,
    StartUnanswered,
    StorageFull,
    UnansweredFile,
    UnusableFile,
)
from jupyter_gq.domain.json_types import JsonMapping, JsonObject

from .accounts import UnixAccount, UnixAccounts
from .environment import MARK
from .files import (
    DISK_FULL_ERRORS,
    make_private_folder,
    open_log,
    read_owned_json,
    remove_file,
    write_private,
)
from .folders import job_folder, task_folder
from .ledger import Run, TaskProcess
from .user_access import run_as

#: Files of an earlier attempt at the same run that ended; the new attempt must not take them for its own.
_STALE_FILES = ("result.json", "stop", "stop_seen", "progress.json")
#: Program that enters the working folder and becomes the command of the task. Python enters a folder before the new
#: program runs, and holds its lock, and so the whole service, until then.
#: See docs/decisions/0355-let-the-process-of-a-task-enter-its-folder.md.
ENTER = "/usr/bin/env"
#: Program that stands before a command with "=" in its path, which `ENTER` takes for a variable; it changes nothing.
SHIELD = "/usr/bin/nice"


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskStarter:
    """The starter of tasks on this machine."""

    state_dir: Path
    #: Beginning of the command; job folder, run, task and what else the runner must know are appended.
    command: Sequence[str]

    def start(self, run: Run, task: int, account: UnixAccount, cwd: str, inputs: "TaskInputs") -> TaskProcess:
        """Start one task in the folder `cwd` and return its process; raise an error with a sentence if that fails.

        The error is `StorageFull` if the disk has no room, `StartUnanswered` if the files of the job do not answer in
        time, and otherwise `BackendError`. The process enters the folder by itself. If it cannot, it ends, and
        `results.explain_missing_result` says why.
        """
        try:
            return self._start(run, task, account, cwd, inputs)
        except OSError as error:
            if error.errno in DISK_FULL_ERRORS:
                raise StorageFull(f"The disk with the jobs has no room for a start: {error.strerror}.") from error
            if isinstance(error, TimeoutError):
                raise StartUnanswered(f"Task {task} could not be started: {error.strerror or error}.") from error
            what = error.filename or self.command[0]
            raise BackendError(f"Task {task} could not be started: {what}: {error.strerror or error}.") from error

    def _start(self, run: Run, task: int, account: UnixAccount, cwd: str, inputs: "TaskInputs") -> TaskProcess:
        """Delete what an earlier attempt left, write the token, and start the process of a task as this account.

        Raises `OSError` if that fails.
        """
        folder = task_folder(self.state_dir, run.job, run.number, task)
        make_private_folder(folder, account)
        for name in _STALE_FILES:
            remove_file(folder / name, account)
        write_private(folder / "token", inputs.token.encode(), account)
        job = job_folder(self.state_dir, run.job)
        environment = {MARK: run.mark(task), **inputs.environment}  # the mark comes first: see `environment_of`
        # A variable, not an argument: a runner of an older release, which another environment may have, ignores it.
        environment["GQ_LAST_SEQ"] = str(inputs.last_seq)
        arguments = [str(job), "--run", str(run.number), "--task", str(task)]
        if inputs.continue_from:
            # An argument, not a variable: a runner of an older release refuses it, and does not begin from nothing.
            arguments += ["--continue-from", inputs.continue_from]
        if os.path.isabs(self.command[0]):
            os.stat(self.command[0])  # else only the log of the task would tell that it is missing
        with _open_log(folder / "log", account) as log:
            process = subprocess.Popen(  # noqa: S603 - the command is the admin's
                [*enter_folder(cwd, self.command), *arguments],
                cwd="/",
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=0o077,
                **_user_arguments(account),
            )
        restore_file_limit(process.pid)
        # The backend reaps its children by process id; the Popen object must not reap this one first.
        process.returncode = 0
        found = read_process(process.pid)
        assert found is not None, "a child stays at least as a zombie until it is collected"
        return TaskProcess(pid=found.pid, ticks=found.ticks)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskInputs:
    """The environment and the secret of one task."""

    environment: Mapping[str, str]
    #: Secret of the task's runner; never logged.
    token: str
    #: Number of the last output piece of earlier runs; see `Launch.last_seq`.
    last_seq: int = 0
    #: Id of the job with a copy of whose checkpoints this one begins; "" = none.
    continue_from: str = ""


def enter_folder(cwd: str, command: Sequence[str]) -> list[str]:
    """Return a command that enters a folder and becomes `command`, in the same process."""
    shield = [SHIELD, "-n", "0"] if "=" in command[0] else []
    return [ENTER, "-C", cwd, *shield, *command]


def check_enter() -> None:
    """Raise `AdminError` if `ENTER` is missing or cannot enter a folder, so that no job could begin."""
    try:
        done = subprocess.run(enter_folder("/", [ENTER]), check=False, stdin=subprocess.DEVNULL, capture_output=True)  # noqa: S603 - fixed
        problem = "" if done.returncode == 0 else f"it ends with the status {done.returncode}"
    except OSError as error:
        problem = error.strerror or str(error)
    if problem:
        raise AdminError(
            f"Jobs cannot be started on this machine, since {ENTER} cannot enter a folder ({problem}). Install GNU "
            "coreutils 8.28 or newer, whose `env` has the option -C."
        )


def read_manifest(state_dir: Path, job: str, account: UnixAccount) -> JsonMapping:
    """Return the manifest in the job's bundle, empty if there is none.

    Raises `StartUnanswered` if the file does not answer in time, and `BackendError` for an unusable bundle.
    """
    try:
        bundle = read_owned_json(job_folder(state_dir, job) / "bundle.json", account, limit=LARGE_FILE)
    except UnansweredFile as error:
        raise StartUnanswered(str(error)) from error
    except UnusableFile as error:
        raise BackendError(str(error)) from error
    manifest = {} if bundle is None else bundle.get("manifest")
    return manifest if isinstance(manifest, dict) else {}


def choose_working_folder(wanted: object, account: UnixAccount, fallback: Path) -> str:
    """Return the folder to start in: `wanted` if the account can enter it, else the home, else `fallback`."""
    for folder in (wanted, account.home):
        if isinstance(folder, str) and os.path.isabs(folder) and _can_enter(folder, account):
            return folder
    return str(fallback)


def find_folder_fault(accounts: UnixAccounts, owner: str, folder: str) -> str:
    """Return why the jobs of this owner cannot work in a folder, as the end of a clause.

    Returns "" if they can, and if that is not known: the account is unknown, or the file system does not answer.
    """
    try:
        account = accounts.look_up(owner)
        return run_as(account, Path(folder), partial(working_folder.find_folder_fault, folder))
    except (OSError, BackendError):
        return ""


def _can_enter(folder: str, account: UnixAccount) -> bool:
    """Return whether the account can enter this folder; False if its file system does not answer."""

    def is_open() -> bool:
        # `run_as` changes only the effective user, so the effective user's rights are checked.
        return "\0" not in folder and os.path.isdir(folder) and os.access(folder, os.X_OK, effective_ids=True)

    try:
        return run_as(account, Path(folder), is_open)
    except OSError:
        return False


@contextlib.contextmanager
def _open_log(path: Path, account: UnixAccount) -> Iterator[int]:
    """Open the log of a task within the block; yield its file descriptor."""
    handle = open_log(path, account)
    try:
        yield handle
    finally:
        os.close(handle)


def _user_arguments(account: UnixAccount) -> JsonObject:
    """Return the arguments of `subprocess.Popen` that start a process as this account."""
    if not account.switch:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": list(account.groups)}
