"""Copies of a job's checkpoint folder at an address that fsspec knows.

`python -m jupyter_gq.runner.checkpoint_store up|down FOLDER JOB RUN TASK`, with the address as its first line of input:
a program of its own, which can be killed at any instant.

Rules
-----
1. Nothing that a saved state refers to is ever written again or removed: each upload of a file gets a new name.
2. A state counts from the moment when its list, `saved-<run>-<number>.json`, is there whole; the newest whole one wins.
3. Only then what no list refers to any more is removed. So a killed upload leaves the state before it, complete.
4. A run never touches what a later run has saved: a node that was given up may come back and go on uploading.
5. Each task has its own states. A task begins with the files of task 0, then its own over them.
6. The address may hold credentials, and the user's code runs beside this program, as the same user: it stands in no
   environment and no command line, and nobody else may look into the memory of who has read it.
"""

import json
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from .processes import hide

URL_VARIABLE = "GQ_CHECKPOINT_URL"
#: Exit codes: it cannot work with this address at all; it did not work this time.
WRONG, FAILED = 3, 4
_LIST = re.compile(r"saved-(\d+)-(\d+)\.json")
_DATA = re.compile(r"data-(\d+)-\d+-\d+")
#: How often a file that changes while it is copied is tried.
_TRIES = 3


class WrongAddress(Exception):
    """The address cannot be used as it is; the text is a sentence without its secrets."""


class NotThisTime(Exception):
    """Something vanished or changed meanwhile."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """One file as it was copied."""

    #: Name of its copy.
    name: str
    size: int
    #: When it was written, in nanoseconds since the epoch.
    mtime: int


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """A whole saved folder."""

    run: int = 0
    number: int = 0
    #: By path in the folder, with slashes.
    files: dict[str, Copy] = field(default_factory=dict)


class CheckpointStore:
    """The saved states of one task of a job."""

    def __init__(self, url: str, job: str, task: int) -> None:
        self._fs, root = _opened(url)
        self._base = f"{root.rstrip('/')}/{job}/{task}"

    def newest(self) -> State:
        """The newest whole state; an empty one when there is none."""
        for run, number, path in reversed(self._lists()):
            with suppress(OSError, ValueError, KeyError, TypeError):
                document = json.loads(self._fs.cat_file(path))
                files = {name: Copy(**copy) for name, copy in document["files"].items()}
                return State(run=run, number=number, files=files)
        return State()

    def fetch(self, folder: Path) -> int:
        """Bring the newest state down; return how many files that were. Raises `NotThisTime` when one vanished."""
        state = self.newest()
        for name, copy in state.files.items():
            path = _inside(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.down")
            try:
                self._fs.get_file(f"{self._base}/{copy.name}", str(temporary))
            except FileNotFoundError as error:
                raise NotThisTime(f"{copy.name} is gone") from error
            if temporary.stat().st_size != copy.size:
                raise NotThisTime(f"{copy.name} is not whole")
            os.utime(temporary, ns=(copy.mtime, copy.mtime))
            temporary.replace(path)
        return len(state.files)

    def save(self, folder: Path, run: int) -> bool:
        """Copy what has changed; False when there was nothing, or a later run has taken over."""
        before = self.newest()
        if before.run > run:
            return False
        self._make_folder()
        number = before.number + 1 if before.run == run else 1
        files: dict[str, Copy] = {}
        for index, path in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
            name = path.relative_to(folder).as_posix()
            copy = self._copied(path, f"data-{run:06d}-{number:08d}-{index:06d}", before.files.get(name))
            if copy is not None:
                files[name] = copy
        if files == before.files:
            return False
        state = State(run=run, number=number, files=files)
        self._fs.pipe_file(f"{self._base}/saved-{run:06d}-{number:08d}.json", _encoded(state))
        self._tidy(state)
        return True

    def _copied(self, path: Path, name: str, known: Copy | None) -> Copy | None:
        """The copy of a file, made now unless it has one; the known one while the file does not hold still."""
        for _ in range(_TRIES):
            try:
                found = path.stat()
                if known is not None and (found.st_size, found.st_mtime_ns) == (known.size, known.mtime):
                    return known
                self._fs.put_file(str(path), f"{self._base}/{name}")
                again = path.stat()
            except FileNotFoundError:
                if not path.exists():
                    return None  # removed meanwhile
                raise
            if (found.st_size, found.st_mtime_ns) == (again.st_size, again.st_mtime_ns):
                return Copy(name=name, size=found.st_size, mtime=found.st_mtime_ns)
        return known

    def _tidy(self, state: State) -> None:
        """Remove what the new state and those of later runs do not refer to; what cannot be removed stays."""
        kept = {copy.name for copy in state.files.values()}
        superfluous = [path for run, number, path in self._lists() if (run, number) < (state.run, state.number)]
        for path in self._names():
            found = _DATA.fullmatch(_last(path))
            if found and int(found[1]) <= state.run and _last(path) not in kept:
                superfluous.append(path)
        for path in superfluous:
            with suppress(OSError):
                self._fs.rm_file(path)

    def _lists(self) -> list[tuple[int, int, str]]:
        """The lists of saved states, oldest first."""
        found = ((_LIST.fullmatch(_last(path)), path) for path in self._names())
        return sorted((int(match[1]), int(match[2]), path) for match, path in found if match)

    def _names(self) -> list[str]:
        self._fs.invalidate_cache()
        try:
            return [str(path) for path in self._fs.ls(self._base, detail=False)]
        except FileNotFoundError:
            return []

    def _make_folder(self) -> None:
        # Where there are buckets there are no folders, and perhaps no right to make any: writing shows it.
        with suppress(OSError, NotImplementedError):
            self._fs.makedirs(self._base, exist_ok=True)


def _opened(url: str) -> tuple[Any, str]:
    """The file system of this address, and the path in it."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise WrongAddress(
            "The address for checkpoints is no URL: one such as s3://bucket/folder or file:///folder is expected in "
            "KubernetesBackend.checkpoint_url. Ask your administrator to mend it."
        )
    try:
        from fsspec.core import url_to_fs  # here: it is optional, and slow to import
    except ImportError as error:
        raise WrongAddress(
            "Checkpoints are to be copied to a URL, but the notebook's image lacks fsspec: install "
            "jupyter-gq[checkpoints] in it (for s3 also s3fs, for gs gcsfs), and send the cell again."
        ) from error
    try:
        fs, path = url_to_fs(url)
    except ImportError as error:
        raise WrongAddress(
            f"Checkpoints are to be copied to a URL of the kind {scheme}://, but the notebook's image lacks what that "
            f"needs: {error}. Install it there, and send the cell again."
        ) from error
    except ValueError as error:
        raise WrongAddress(
            f"The address for checkpoints is of a kind that is not known ({scheme}://): one that fsspec knows is "
            "expected in KubernetesBackend.checkpoint_url, such as s3://bucket/folder. Ask your administrator."
        ) from error
    return fs, str(path)


def _encoded(state: State) -> bytes:
    files = {name: {"name": c.name, "size": c.size, "mtime": c.mtime} for name, c in state.files.items()}
    return json.dumps({"files": files}).encode()


def _inside(folder: Path, name: str) -> Path:
    """The place of a file; a name that leads out of the folder is refused."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise NotThisTime(f"{name!r} is no path in a folder")
    return folder.joinpath(*path.parts)


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def program(arguments: list[str], told: BinaryIO) -> int:
    """This process: hidden first, then told the address."""
    hide()
    return main(arguments, told.readline().decode().strip())


def main(arguments: list[str], url: str) -> int:
    """Copy up or down; say in the last line of standard error what went wrong."""
    what, folder, job, run, task = arguments
    try:
        if what == "down":
            _fetch_all(url, Path(folder), job, int(task))
        else:
            CheckpointStore(url, job, int(task)).save(Path(folder), int(run))
    except WrongAddress as error:
        sys.stderr.write(f"{error}\n")
        return WRONG
    except Exception as error:  # noqa: BLE001 - each kind of store has errors of its own, and the words may hold secrets
        sys.stderr.write(f"{type(error).__name__}: {_without_secrets(str(error))}\n")
        return FAILED
    return 0


def _fetch_all(url: str, folder: Path, job: str, task: int) -> None:
    """What task 0 saved, then what this task did."""
    for whose in sorted({0, task}):
        store = CheckpointStore(url, job, whose)
        for left in reversed(range(_TRIES)):
            try:
                store.fetch(folder)
                break
            except NotThisTime:
                if not left:
                    raise


def _without_secrets(text: str) -> str:
    """One line, without the address and what may stand in it."""
    return re.sub(r"\w+://\S+", "the address", " ".join(text.split()))[:300]


if __name__ == "__main__":
    sys.exit(program(sys.argv[1:], sys.stdin.buffer))
