"""Results of jobs, brought into the user's own kernel: the only place where they are unpickled.

In a notebook the values come from the user's Jupyter server, through a Unix socket that only this user can open. In a
job on the same machine they come from the folder of the other job. A value is loaded only if its bytes have the hash
that the job's runner saw, and if this kernel has the Python of the job's: pickles of another minor version can crash.

See docs/decisions/0116-load-results-through-a-socket-of-the-users-server.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from jupyter_gq.domain.job_names import LAST, calls_function

from .server_socket import ask_server, server_socket
from .unpickler import Unpickler

#: Name of the variable that holds what the function returned, in a job that was sent as a function.
RETURNED = "returned"
_RUN_DIR = "GQ_RUN_DIR"


class ResultError(RuntimeError):
    """A result that cannot be loaded here; the text says why and what to do."""


class JobHandle(Protocol):
    """A handle of a job, as `submit` returns it."""

    @property
    def id(self) -> str:
        """The id of the job, such as "job-4f1c"."""


class Source(Protocol):
    """A place from which results come."""

    def find(self, job: str) -> Mapping[str, object]:
        """Return the job of that id, or the newest one for "last", as JSON; raise `ResultError` if there is none."""

    def read_list(self, job: str) -> Mapping[str, object]:
        """Return the list of a job's results; raise `ResultError` if there is none."""

    def read_parts(self, job: str, path: str) -> Iterator[bytes]:
        """Yield the bytes of one result in order."""


def result(job: JobHandle | str, name: str | None = None) -> object:
    """Return the value of a variable that a job has brought back; without `name`, all of them, as a dict by name.

    `job` is a handle of the job, its id, such as "job-4f1c", as the line under its cell shows it, or "last" for the job
    that you sent last. Raises `ResultError` with the reason if a value cannot be loaded.
    """
    found = load(find_id(job), None if name is None else [name])
    return found if name is None else found[name]


def load(job: str, names: list[str] | None) -> dict[str, object]:
    """Return the values of these variables of a job by name, all variables if None; for the errors see `result`.

    `job` is an id, as `find_id` returns it.
    """
    return {name: read() for name, read in _find_readers(job, names).items()}


def load_possible(job: str, names: list[str] | None) -> tuple[dict[str, object], list[str]]:
    """Return the values by name that can be loaded of these variables of a job, and a sentence for each other one.

    None are all variables, and `job` is an id, as `find_id` returns it. Raises `ResultError` if the job has brought
    nothing back.
    """
    values, reasons = dict[str, object](), list[str]()
    for name, read in _find_readers(job, names).items():
        try:
            values[name] = read()
        except ResultError as error:
            reasons.append(str(error))
    return values, reasons


def _find_readers(job: str, names: list[str] | None) -> dict[str, Callable[[], object]]:
    """Return functions by name that return the values of these variables of a job, all variables if None."""
    source = find_source()
    listed = source.read_list(job)
    entries = {str(entry["name"]): entry for entry in _entries(listed)}
    if not entries:
        raise ResultError(
            f"The job {job} has brought no variable back. When you send a job, name the variables to bring back."
        )
    python = str(listed.get("python", ""))
    wanted = list(entries) if names is None else names
    return {name: partial(_load_one, source, job, name, entries, python) for name in wanted}


def find_source() -> Source:
    """Return the place from which results come in this kernel; raise `ResultError` if there is none."""
    run_folder = os.environ.get(_RUN_DIR)
    if run_folder:
        return JobFolders(Path(run_folder).parents[3])
    socket = server_socket()
    if socket is None:
        raise ResultError(
            "This kernel cannot reach the results of jobs: it was not started by a Jupyter server with jupyter-gq on a "
            "JupyterHub. Open the notebook there."
        )
    return ServerSource(socket)


class ServerSource:
    """The user's Jupyter server, which fetches results from the scheduler service."""

    def __init__(self, socket: str) -> None:
        self._socket = socket

    def find(self, job: str) -> Mapping[str, object]:
        """Return the job of that id, or the newest one for "last", as JSON."""
        return cast("Mapping[str, object]", json.loads(self._ask(["jobs", job])))

    def read_list(self, job: str) -> Mapping[str, object]:
        """Return the list of a job's results."""
        return cast("Mapping[str, object]", json.loads(self._ask(["jobs", job, "results"])))

    def read_parts(self, job: str, path: str) -> Iterator[bytes]:
        """Yield the bytes of one result, some MiB at a time."""
        start = 0
        while part := self._ask(["jobs", job, "content"], path=path, start=start):
            yield part
            start += len(part)

    def _ask(self, parts: list[str], **query: object) -> bytes:
        status, body = ask_server(self._socket, parts, query)
        if status == 200:
            return body
        try:
            message = str(json.loads(body)["message"])
        except (ValueError, KeyError, TypeError):
            message = f"The Jupyter server answered with status {status}."
        raise ResultError(message)


class JobFolders:
    """The folders of the jobs of this user on this machine, for code that runs in a job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, job: str) -> Mapping[str, object]:
        """Return the id of a job as JSON; raise `ResultError` for "last": here, only the folders are known."""
        if job == LAST:
            raise ResultError(f'"{LAST}" names a job in a notebook only. In a job, give the id of the other job.')
        return {"id": job}

    def read_list(self, job: str) -> Mapping[str, object]:
        """Return the list of a job's results."""
        try:
            return cast("Mapping[str, object]", json.loads((self._of(job) / "results.json").read_bytes()))
        except (OSError, ValueError) as error:
            raise ResultError(
                f"The results of {job} cannot be read in a job: {error}. A job finds the results of other jobs of the "
                "same user only on the same machine; in a cluster, pass them on in files."
            ) from error

    def read_parts(self, job: str, path: str) -> Iterator[bytes]:
        """Yield the bytes of one result, a MiB at a time."""
        with open(self._of(job) / "results" / path, "rb") as file:
            while part := file.read(2**20):
                yield part

    def _of(self, job: str) -> Path:
        return self._folder / os.path.basename(job)


def find_id(job: object) -> str:
    """Return the id of a job, given by itself, by a handle or as "last"; raise `ResultError` if it is none of them."""
    id = getattr(job, "id", job)
    if not isinstance(id, str) or not id.strip():
        raise ResultError(
            f'{job!r:.100} is not a job. Give its id, such as "job-4f1c", what submit() returned, or "{LAST}".'
        )
    if not re.fullmatch(r"[\w.-]+", id.strip()):
        raise ResultError(f"There is no job {id.strip()!r:.100}.")
    return str(find_source().find(LAST)["id"]) if id.strip() == LAST else id.strip()


def _entries(listed: Mapping[str, object]) -> list[Mapping[str, object]]:
    return cast("list[Mapping[str, object]]", listed.get("variables") or [])


def _load_one(source: Source, job: str, name: str, entries: Mapping[str, Mapping[str, object]], python: str) -> object:
    """Return the value of one variable; raise `ResultError` with the reason if it cannot be loaded here."""
    entry = entries.get(name)
    if entry is None:
        there = ", ".join(each for each, known in entries.items() if not known.get("reason"))
        raise ResultError(
            f"The job {job} has brought no variable {name!r} back. It has brought back: {there or 'nothing'}."
        )
    if entry.get("reason"):
        is_call = name == RETURNED and calls_function(source.find(job))
        what = "What the function returned" if is_call else name
        raise ResultError(f"{what} was not brought back by {job}. {entry['reason']}")
    here = "{}.{}".format(*sys.version_info)
    if python != here:
        raise ResultError(
            f"{name} was made by Python {python}, and this kernel has Python {here}: a value of another version may "
            f"crash the kernel, so it is not loaded. Choose a kernel with Python {python}, or write a file in the job."
        )
    with tempfile.TemporaryFile() as file:
        digest = hashlib.sha256()
        for part in source.read_parts(job, str(entry["path"])):
            digest.update(part)
            file.write(part)
        if digest.hexdigest() != entry["sha256"]:
            raise ResultError(f"The bytes of {name} are not those that {job} has saved, so they are not loaded.")
        file.seek(0)
        return _unpickle(cast("BinaryIO", file), name)


def _unpickle(file: BinaryIO, name: str) -> object:
    """Return the value in a pickle; raise `ResultError` with the reason if this environment cannot load it."""
    try:
        return Unpickler(file).load()
    except ModuleNotFoundError as error:
        raise ResultError(
            f"{name} cannot be loaded here, because this kernel lacks a package that the job had: {error.name}. "
            "Install it, then load again."
        ) from error
    except Exception as error:  # unpickling runs code of any library, which may raise anything
        said = str(error) or type(error).__name__
        raise ResultError(f"{name} cannot be loaded here ({type(error).__name__}: {said}).") from error
