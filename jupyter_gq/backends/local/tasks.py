"""Starts the processes of a run."""

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.backends.processes import read_process
from jupyter_gq.client.user_files import LARGE_FILE
from jupyter_gq.domain.errors import BackendError, UnusableFile
from jupyter_gq.domain.json_types import JsonMapping, JsonObject

from .accounts import Account, acting_as
from .environment import MARK
from .files import make_private_folder, open_log, read_owned_json, write_private
from .folders import job_folder, task_folder
from .ledger import Run, TaskProcess

#: Left by an attempt of which nothing runs; the new one must not take them for its own.
_STALE = ("result.json", "stop", "stop_seen", "progress.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Starter:
    """How this machine starts a task."""

    state_dir: Path
    #: Beginning of the command; job folder, run and task follow.
    command: Sequence[str]

    def start(self, run: Run, task: int, account: Account, cwd: str, setup: "Setup") -> TaskProcess:
        """Start one task; raise `BackendError` with a sentence when it cannot be, and then nothing of it runs."""
        try:
            return self._start(run, task, account, cwd, setup)
        except OSError as error:
            what = error.filename or self.command[0]
            raise BackendError(f"Task {task} could not be started: {what}: {error.strerror or error}.") from error

    def _start(self, run: Run, task: int, account: Account, cwd: str, setup: "Setup") -> TaskProcess:
        folder = task_folder(self.state_dir, run.job, run.number, task)
        make_private_folder(folder, account)
        with acting_as(account):
            for name in _STALE:
                (folder / name).unlink(missing_ok=True)
        write_private(folder / "token", setup.token.encode(), account)
        job = job_folder(self.state_dir, run.job)
        with _opened_folder(cwd, account) as place, _opened_log(folder / "log", account) as log:
            process = subprocess.Popen(  # noqa: S603 - the command is the admin's
                [*self.command, str(job), "--run", str(run.number), "--task", str(task)],
                cwd=place,
                env={MARK: run.mark(task), **setup.environment},  # the mark comes first: see `environment_of`
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=0o077,
                **_identity(account),
            )
        # The backend collects ended children by pid; the Popen object must not do so behind its back.
        process.returncode = 0
        found = read_process(process.pid)
        assert found is not None, "a child stays at least as a zombie until it is collected"
        return TaskProcess(pid=found.pid, ticks=found.ticks)


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """The inputs of one task."""

    environment: Mapping[str, str]
    #: Not to be logged.
    token: str


def manifest_of(state_dir: Path, job: str, account: Account) -> JsonMapping:
    """Return the manifest in the job's bundle, empty if there is none; raise `BackendError` for an unusable bundle."""
    try:
        bundle = read_owned_json(job_folder(state_dir, job) / "bundle.json", account, limit=LARGE_FILE)
    except UnusableFile as error:
        raise BackendError(str(error)) from error
    manifest = {} if bundle is None else bundle.get("manifest")
    return manifest if isinstance(manifest, dict) else {}


def working_folder(wanted: object, account: Account, fallback: Path) -> str:
    """Return the folder to start in: the wanted one, else the account's home, else `fallback`."""
    with acting_as(account):
        for folder in (wanted, account.home):
            if isinstance(folder, str) and os.path.isabs(folder) and _can_enter(folder):
                return folder
    return str(fallback)


def _can_enter(folder: str) -> bool:
    # The effective user is asked: only that one is changed while we act as somebody.
    return "\0" not in folder and os.path.isdir(folder) and os.access(folder, os.X_OK, effective_ids=True)


def free_port() -> int:
    """Return a port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _opened_folder(path: str, account: Account) -> Iterator[str]:
    """Return a name for the folder that stays valid whatever the user does to the path meanwhile.

    The child enters its folder before it becomes the user, so the folder is opened with the user's rights here.
    """
    with acting_as(account):
        handle = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


@contextlib.contextmanager
def _opened_log(path: Path, account: Account) -> Iterator[int]:
    handle = open_log(path, account)
    try:
        yield handle
    finally:
        os.close(handle)


def _identity(account: Account) -> JsonObject:
    if not account.switch:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": list(account.groups)}
