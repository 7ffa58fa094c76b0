"""The folders of the local backend: `<state_dir>/jobs/<job>/` is the owner's, `<state_dir>/runs/` is the service's."""

import os
import re
import stat
from pathlib import Path

from jupyter_gq.domain.errors import AdminError, BackendError
from jupyter_gq.domain.plain_text import quoted

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


def require_safe_id(job: str) -> str:
    """Return the id of a job if it is safe as a file name; raise `BackendError` otherwise."""
    if not _ID.fullmatch(job):
        raise BackendError(f"{job!r} is not the id of a job.")
    return job


def job_folder(state_dir: Path, job: str) -> Path:
    """Return the path of a job's folder, which belongs to its owner; raise `BackendError` for an unsafe id."""
    return state_dir / "jobs" / require_safe_id(job)


def run_folder(state_dir: Path, job: str, run: int) -> Path:
    """Return the path of the folder of one run of a job; raise `BackendError` for an unsafe id of the job."""
    return job_folder(state_dir, job) / "runs" / str(run)


def task_folder(state_dir: Path, job: str, run: int, task: int) -> Path:
    """Return the path of the folder of one task of one run; raise `BackendError` for an unsafe id of the job."""
    return run_folder(state_dir, job, run) / str(task)


def check_folder(path: str, setting: str, noun: str) -> None:
    """Raise `AdminError` if no folder can be at this path, because a file is there or the path is invalid.

    A path with "~" is refused unless that folder is there, because no home folder takes the place of the character.
    `setting` is the name of the setting of the service that gives the path, and `noun` says what the folder is.
    """
    try:
        os.fsencode(path)
        there = _find_present(path)
        problem = "" if there.is_dir() else f"{there} is not a folder"
        if not problem and path.startswith("~") and not Path(path.partition("/")[0]).is_dir():
            problem = '"~" does not stand for a home folder here'
    except UnicodeEncodeError:
        problem = "no path has these characters"
    except (OSError, ValueError, RuntimeError) as error:  # a RuntimeError is a loop of links
        problem = str(error)
    if problem:
        raise AdminError(
            f"c.SchedulerService.{setting} = {quoted(path)}: the {noun} cannot be there ({problem}). Use the path of a "
            "folder, which is made if it is missing."
        )


def describe_unwritable(path: str, noun: str) -> str:
    """Return a sentence if this process may not write in a folder, or make it; "" if it may.

    `noun` says what the folder is.
    """
    there = _find_present(path)
    if os.access(there, os.W_OK | os.X_OK, effective_ids=True):
        return ""
    return (
        f"the account {os.geteuid()}, which runs this check, may not write in {there}. The account of the Hub needs "
        f"that right for the {noun} {Path(path).resolve()}"
    )


def _find_present(path: str) -> Path:
    """Return the innermost part of a path that exists, be it a link to nothing, as far as this account may see it."""
    folder = Path(path).resolve()
    return next(each for each in (folder, *folder.parents) if _is_present(each))


def _is_present(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except PermissionError:  # the account of the Hub may have the right to look there
        return False


def jobs_with_files(state_dir: Path) -> int:
    """Return the number of jobs that have a folder, or a run in the ledger."""
    return len(list_jobs(state_dir) | {run.name.partition(".")[0] for run in (state_dir / "runs").glob("*.json")})


def list_jobs(state_dir: Path) -> set[str]:
    """Return the ids of the jobs that have a folder; other names, such as "lost+found", are left out."""
    return {folder.name for folder in (state_dir / "jobs").glob("*") if _ID.fullmatch(folder.name)}


def holding_folder(state_dir: Path) -> Path:
    """Return the folder into which folders of jobs are moved to be deleted."""
    return state_dir / "deleted"


def make_service_folders(state_dir: Path, *, open_path: bool) -> None:
    """Make the folders of the service, or correct their permissions.

    With `open_path`, other users can reach the folders of their own jobs, but cannot list the folders above.
    """
    mode = 0o711 if open_path else 0o700
    state_dir.mkdir(mode=mode, parents=True, exist_ok=True)
    if open_path:
        # The administrator may have made this folder: no permission but the right to pass through is changed.
        state_dir.chmod(stat.S_IMODE(state_dir.stat().st_mode) | 0o011)
    # The folder for deletions is made early: on a full disk it could not be made.
    for folder, wanted in ((state_dir / "jobs", mode), (state_dir / "runs", 0o700), (holding_folder(state_dir), 0o700)):
        folder.mkdir(mode=wanted, exist_ok=True)
        folder.chmod(wanted)
