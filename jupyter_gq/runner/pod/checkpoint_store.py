"""Copies of a job's checkpoint folder at a URL that fsspec supports.

`python -m jupyter_gq.runner.pod.checkpoint_store up|down FOLDER JOB RUN TASK [EARLIER]` reads the URL from the first
line of its input. The program runs in a process of its own, which can be killed at any instant. `EARLIER` is the job
from which a job continues that has no states of its own.

Rules
-----
- Immutable copies: a file that a saved state refers to is never written again or removed; each upload of a file gets a
  new name.
- Commit by list: a state counts once its list, `saved-<run>-<number>.json`, is complete; the newest complete one wins.
- Late removal: only after that, files are removed to which no list refers. So a killed upload leaves the state before
  it, complete.
- Later runs win: a run never touches files that a later run has saved. A node that was given up may come back and go
  on uploading.
- States by task: each task has its own states. A task starts with the files of task 0, overwritten by its own.
- Own states first: a task without a state takes a copy of its newest state of the job from which this one continues,
  as its first state. So that job's states are only read, and a copy that is cut short counts for nothing.
- Secret URL: the URL may hold credentials, and the user's code runs beside this program, as the same user. So the URL
  stands in no environment and no command line, and no other process may read the memory of this one.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from jupyter_gq.domain.errors import AdminError, MachineError, UserError
from jupyter_gq.domain.plain_text import hide_urls
from jupyter_gq.runner.files.continuing import describe_copy
from jupyter_gq.runner.processes import protect_memory

URL_VARIABLE = "GQ_CHECKPOINT_URL"
#: Exit codes: the URL can never work; the copying failed this time; the job to continue from has no state.
WRONG_ADDRESS, FAILED, NOTHING_KEPT = 3, 4, 5
_LIST = re.compile(r"saved-(\d+)-(\d+)\.json")
_DATA = re.compile(r"data-(\d+)-\d+-\d+")
#: Number of attempts at a file that changes while it is copied.
_TRIES = 3


class WrongAddress(AdminError):
    """A URL that cannot be used as it is; the text is a sentence without the URL's secrets."""


class TransientError(MachineError):
    """A failure that another attempt may not have: a file vanished or changed during the copying."""


class NothingKept(UserError):
    """A job that continues from one of which no saved state is at the URL."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CopiedFile:
    """A file of a saved state."""

    #: Name of the copy at the URL.
    name: str
    #: In bytes.
    size: int
    #: Time of the last change of the original, in nanoseconds since the epoch.
    mtime: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedState:
    """A complete saved folder."""

    run: int = 0
    #: Number of the state in its run, from 1.
    number: int = 0
    #: Files by path in the folder, with slashes.
    files: dict[str, CopiedFile] = field(default_factory=dict)


class FileSystem(Protocol):
    """The part of fsspec's file systems that is used here; paths are those of the file system."""

    def cat_file(self, path: str) -> bytes:
        """Return the content of a file."""

    def get_file(self, rpath: str, lpath: str) -> None:
        """Download the file `rpath` to the path `lpath` on this machine."""

    def put_file(self, lpath: str, rpath: str) -> None:
        """Upload the file `lpath` of this machine to `rpath`."""

    def cp_file(self, path1: str, path2: str) -> None:
        """Copy the file `path1` to `path2`; raise `NotImplementedError` if the store cannot copy by itself."""

    def pipe_file(self, path: str, value: bytes) -> None:
        """Write a file."""

    def rm_file(self, path: str) -> None:
        """Remove a file."""

    def ls(self, path: str, detail: bool) -> list[str]:
        """Return the paths in a folder; `detail` must be False. Raises `FileNotFoundError` if there is no folder."""

    def makedirs(self, path: str, exist_ok: bool) -> None:
        """Make a folder and those above it."""

    def invalidate_cache(self) -> None:
        """Forget cached listings, so that `ls` asks the store again."""


class CheckpointStore:
    """The saved states of one task of a job."""

    def __init__(self, url: str, job: str, task: int) -> None:
        self._fs, root = _open_file_system(url)
        #: Path of the states of all tasks of the job, and of this task.
        self._job = f"{root.rstrip('/')}/{job}"
        self._base = f"{self._job}/{task}"

    def find_newest(self) -> SavedState:
        """Return the newest state whose list is complete, or an empty state if there is none.

        Raises `OSError` if a list cannot be read now: an older state in its place would cost the work since then.
        """
        for run, number, path in reversed(self._find_lists()):
            with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
                document = json.loads(self._fs.cat_file(path))
                files = {name: CopiedFile(**copy) for name, copy in document["files"].items()}
                return SavedState(run=run, number=number, files=files)
        return SavedState()

    def fetch(self, folder: Path) -> int:
        """Download the newest state into `folder`; return its number of files.

        Raises `TransientError` if a file vanished or is not complete. Files of `folder` that the state lacks stay.
        """
        state = self.find_newest()
        for name, copy in state.files.items():
            path = _resolve_inside(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.down")
            try:
                self._fs.get_file(f"{self._base}/{copy.name}", str(temporary))
            except FileNotFoundError as error:
                raise TransientError(f"{copy.name} is gone") from error
            if temporary.stat().st_size != copy.size:
                raise TransientError(f"{copy.name} is not whole")
            os.utime(temporary, ns=(copy.mtime, copy.mtime))
            temporary.replace(path)
        return len(state.files)

    def find_tasks(self) -> list[int]:
        """Return the numbers of the tasks of the job that have a folder at the URL."""
        return [int(name) for name in map(_base_name, self._list_names(self._job)) if name.isdecimal()]

    def adopt(self, earlier: "CheckpointStore", run: int) -> SavedState | None:
        """Copy the newest state of a task of another job as the first state of this one; return the copy.

        Returns None without a copy if this task has a state, or if that one has none. Raises `TransientError` if a file
        is gone.
        """
        state = earlier.find_newest()
        if not state.number or self.find_newest().number:
            return None
        self._make_folder()
        files = {}
        for index, (name, copy) in enumerate(sorted(state.files.items())):
            own = _name_data(run, 1, index)
            try:
                self._copy_at_store(f"{earlier._base}/{copy.name}", f"{self._base}/{own}")
            except FileNotFoundError as error:
                raise TransientError(f"{copy.name} of the job to continue from is gone") from error
            files[name] = CopiedFile(name=own, size=copy.size, mtime=copy.mtime)
        copied = SavedState(run=run, number=1, files=files)
        self._commit(copied)
        return copied

    def _copy_at_store(self, source: str, target: str) -> None:
        """Copy a file, by way of this machine if the store cannot do it alone."""
        try:
            self._fs.cp_file(source, target)
        except NotImplementedError:
            with tempfile.TemporaryDirectory() as folder:
                self._fs.get_file(source, f"{folder}/file")
                self._fs.put_file(f"{folder}/file", target)

    def _commit(self, state: SavedState) -> None:
        self._fs.pipe_file(f"{self._base}/saved-{state.run:06d}-{state.number:08d}.json", _encode(state))

    def save(self, folder: Path, run: int) -> bool:
        """Upload the changed files of `folder` as a new state, and remove older states; return True.

        Return False without a new state if nothing changed, or if a later run has saved one.
        """
        before = self.find_newest()
        if before.run > run:
            return False
        self._make_folder()
        number = before.number + 1 if before.run == run else 1
        files: dict[str, CopiedFile] = {}
        for index, path in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
            name = path.relative_to(folder).as_posix()
            copy = self._copy_file(path, _name_data(run, number, index), before.files.get(name))
            if copy is not None:
                files[name] = copy
        if files == before.files:
            return False
        state = SavedState(run=run, number=number, files=files)
        self._commit(state)
        self._remove_superseded(state)
        return True

    def _copy_file(self, path: Path, name: str, known: CopiedFile | None) -> CopiedFile | None:
        """Upload a file under `name` and return the copy; return `known` without an upload if that is up to date.

        Also return `known` if the file keeps changing during the upload, and None if the file was removed meanwhile.
        """
        for _ in range(_TRIES):
            try:
                found = path.stat()
                if known is not None and (found.st_size, found.st_mtime_ns) == (known.size, known.mtime):
                    return known
                self._fs.put_file(str(path), f"{self._base}/{name}")
                again = path.stat()
            except FileNotFoundError:
                if not path.exists():
                    return None
                raise
            if (found.st_size, found.st_mtime_ns) == (again.st_size, again.st_mtime_ns):
                return CopiedFile(name=name, size=found.st_size, mtime=found.st_mtime_ns)
        return known

    def _remove_superseded(self, state: SavedState) -> None:
        """Remove older lists, and copies of this and earlier runs to which this state does not refer.

        Files that cannot be removed are skipped. Raises `OSError` if the folder cannot be listed.
        """
        kept = {copy.name for copy in state.files.values()}
        superfluous = [path for run, number, path in self._find_lists() if (run, number) < (state.run, state.number)]
        for path in self._list_names(self._base):
            found = _DATA.fullmatch(_base_name(path))
            if found and int(found[1]) <= state.run and _base_name(path) not in kept:
                superfluous.append(path)
        for path in superfluous:
            with suppress(OSError):
                self._fs.rm_file(path)

    def _find_lists(self) -> list[tuple[int, int, str]]:
        """Return (run, number, path) of the lists of saved states, oldest first."""
        found = ((_LIST.fullmatch(_base_name(path)), path) for path in self._list_names(self._base))
        return sorted((int(match[1]), int(match[2]), path) for match, path in found if match)

    def _list_names(self, folder: str) -> list[str]:
        self._fs.invalidate_cache()
        try:
            return [str(path) for path in self._fs.ls(folder, detail=False)]
        except FileNotFoundError:
            return []

    def _make_folder(self) -> None:
        # Object stores have no folders, and perhaps no permission to make any: the first upload shows an error.
        with suppress(OSError, NotImplementedError):
            self._fs.makedirs(self._base, exist_ok=True)


def _open_file_system(url: str) -> tuple[FileSystem, str]:
    """Return the file system of this URL and the path in it.

    Raises `WrongAddress` if the text is no URL, or if a package for this kind of URL is missing.
    """
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise WrongAddress(
            "The address for checkpoints is no URL: KubernetesBackend.checkpoint_url must be a URL such as "
            "s3://bucket/folder or file:///folder. Ask your administrator to correct it."
        )
    try:
        from fsspec.core import url_to_fs  # imported here: optional, and slow to import
    except ImportError as error:
        raise WrongAddress(
            "Checkpoints must be copied to a URL, but the notebook's image lacks fsspec: install "
            "jupyter-gq[checkpoints] in it (for s3 also s3fs, for gs gcsfs), and send the cell again."
        ) from error
    try:
        fs, path = url_to_fs(url)
    except ImportError as error:
        raise WrongAddress(
            f"Checkpoints must be copied to a URL of the kind {scheme}://, but the notebook's image lacks a package "
            f"for it: {error}. Install the package in the image, and send the cell again."
        ) from error
    except ValueError as error:
        raise WrongAddress(
            f"The address for checkpoints is of a kind that is not known ({scheme}://): "
            "KubernetesBackend.checkpoint_url must be a URL that fsspec supports, such as s3://bucket/folder. "
            "Ask your administrator to correct it."
        ) from error
    return fs, str(path)


def _name_data(run: int, number: int, index: int) -> str:
    return f"data-{run:06d}-{number:08d}-{index:06d}"


def _encode(state: SavedState) -> bytes:
    files = {name: {"name": c.name, "size": c.size, "mtime": c.mtime} for name, c in state.files.items()}
    return json.dumps({"files": files}).encode()


def _resolve_inside(folder: Path, name: str) -> Path:
    """Return the path of the file `name` in the folder; raise `TransientError` if the name leads out of the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise TransientError(f"{name!r} is no path in a folder")
    return folder.joinpath(*path.parts)


def _base_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def run_program(arguments: list[str], url_input: BinaryIO) -> int:
    """Protect the memory of this process, read the URL from `url_input`, and copy; return `main`'s exit code."""
    protect_memory()
    return main(arguments, url_input.readline().decode().strip())


def main(arguments: list[str], url: str) -> int:
    """Upload or download as the arguments say; return 0, `WRONG_ADDRESS`, `FAILED` or `NOTHING_KEPT`.

    The last line of standard error says what went wrong, without secrets of the URL, or what was copied of another job.
    """
    direction, folder, job, run, task, *earlier = arguments
    try:
        if direction == "down":
            for each in earlier:
                _try_again(partial(_continue_from, url, each, job, int(run), int(task)))
            _fetch_all(url, Path(folder), [job, *earlier], int(task))
        else:
            CheckpointStore(url, job, int(task)).save(Path(folder), int(run))
    except WrongAddress as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_ADDRESS
    except NothingKept as error:
        sys.stderr.write(f"{error}\n")
        return NOTHING_KEPT
    except Exception as error:  # noqa: BLE001 - each kind of store has its own errors, and their texts may hold secrets
        sys.stderr.write(f"{type(error).__name__}: {hide_urls(str(error))}\n")
        return FAILED
    return 0


def _continue_from(url: str, earlier: str, job: str, run: int, task: int) -> None:
    """Let a task without a state have a copy of its state of the earlier job; raise `NothingKept` if no task has any.

    Task 0 has made its own copy, or will do so.
    """
    own = [CheckpointStore(url, job, each) for each in sorted({0, task})]
    source = CheckpointStore(url, earlier, task)
    copied = own[-1].adopt(source, run)
    if copied is not None:
        size = sum(file.size for file in copied.files.values())
        sys.stderr.write(f"{describe_copy(earlier, len(copied.files), size)}\n")
    if any(store.find_newest().number for store in own):
        return
    if not any(CheckpointStore(url, earlier, each).find_newest().number for each in source.find_tasks()):
        raise NothingKept(f"{earlier} has no saved state")


def _fetch_all(url: str, folder: Path, jobs: Sequence[str], task: int) -> None:
    """Download the newest state of task 0, then the newest state of this task over it.

    Each is that of the first of these jobs in which the task has one. A transient error is tried again, twice at most,
    and then raised.
    """
    for source_task in sorted({0, task}):
        stores = [CheckpointStore(url, job, source_task) for job in jobs]
        found = next((store for store in stores if store.find_newest().number), stores[0])
        _try_again(partial(found.fetch, folder))


def _try_again(copy: Callable[[], object]) -> None:
    """Call a function again, twice at most, after a transient error; raise the last one."""
    for _ in range(_TRIES - 1):
        with suppress(TransientError):
            copy()
            return
    copy()


if __name__ == "__main__":
    sys.exit(run_program(sys.argv[1:], sys.stdin.buffer))
