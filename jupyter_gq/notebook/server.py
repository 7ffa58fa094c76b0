"""The user's Jupyter server, as code in a kernel asks it about training jobs. Standard library only.

The kernel has no token: the server passes each request on with its own.
See docs/decisions/0127-let-kernels-send-jobs-through-the-socket.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import cast

from .server_socket import TIMEOUT, ask_server, server_socket, tell_server

_RUN_DIR = "GQ_RUN_DIR"
#: Longest id of an object; longer texts do not fit into the line of a request.
_MAX_ID = 255


class JobError(RuntimeError):
    """A request about a job that was refused or could not be sent; the text says why and what to do."""

    def __init__(self, message: str, *, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        #: HTTP status of the answer; 0 = nothing was sent.
        self.status = status
        #: Stable word for programs, such as "unknown_queue"; "" if there is none.
        self.code = code

    @property
    def is_temporary(self) -> bool:
        """Whether nobody has answered, so that the same request may succeed later."""
        return self.status in (502, 503, 504)


class Server:
    """The Jupyter server that started this kernel. Every method raises `JobError` if the request is refused."""

    def __init__(self, socket: str) -> None:
        self._socket = socket

    def get(self, *parts: str, timeout: float = TIMEOUT, **query: object) -> Mapping[str, object]:
        """Return the JSON object at a path that has these parts."""
        return _read(*ask_server(self._socket, parts, query, timeout))

    def post(self, *parts: str, body: object) -> Mapping[str, object]:
        """Send a body as JSON to a path, and return the JSON object of the answer."""
        return _read(*tell_server(self._socket, "POST", parts, body))

    def patch(self, *parts: str, body: object) -> Mapping[str, object]:
        """Change the object at a path as a body says that is sent as JSON; return the JSON object of the answer."""
        return _read(*tell_server(self._socket, "PATCH", parts, body))

    def delete(self, *parts: str) -> Mapping[str, object]:
        """Ask for the end of the object at a path, and return the JSON object of the answer."""
        return _read(*tell_server(self._socket, "DELETE", parts))

    def copy(self, job: str, body: object) -> tuple[list[Mapping[str, object]], list[str]]:
        """Let the server copy files of a job; return what it copied, and a sentence on each file that it left out.

        The answer has a line for each part of a file.
        """
        status, answer = tell_server(self._socket, "POST", ["jobs", job, "copies"], body)
        last = _read(status, answer.rstrip().rpartition(b"\n")[2])
        copied, left = last.get("copied"), last.get("left_out")
        if not isinstance(copied, list):
            raise JobError(str(last.get("problem") or "The Jupyter server ended the copies. Copy the files again."))
        sentences = [str(each) for each in left] if isinstance(left, list) else []
        return [each for each in copied if isinstance(each, dict)], sentences


def find_server() -> Server:
    """Return the Jupyter server of this kernel; raise `JobError` with a sentence if jobs cannot be sent from here."""
    if os.environ.get(_RUN_DIR):
        raise JobError("This code runs in a training job, and a job cannot send jobs. Send them from a notebook.")
    socket = server_socket()
    if socket is None:
        raise JobError(
            "Jobs cannot be sent from here: this kernel was not started by a Jupyter server with jupyter-gq on a "
            "JupyterHub. Open the notebook there; on a laptop, `jupyter-gq demo` starts such a Hub."
        )
    return Server(socket)


def find_kernel_id() -> str:
    """Return the id by which the Jupyter server knows this kernel; raise `JobError` in a process that is no kernel."""
    application = getattr(sys.modules.get("ipykernel.kernelapp"), "IPKernelApp", None)
    if application is None or not application.initialized():
        raise JobError(
            "Functions and cells can be sent from a notebook only. For a script, use `jupyter-gq submit` in a terminal."
        )
    stem = PurePath(str(application.instance().connection_file)).stem
    return stem[len("kernel-") :] if stem.startswith("kernel-") else stem


def find_folder() -> str:
    """Return the working folder of this kernel; raise `JobError` if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        raise JobError(
            "The working folder of this kernel was deleted or cannot be reached, and a job runs in that folder. Change "
            "to another one with %cd, then send again."
        ) from None


def check_id(id: object, what: str) -> str:
    """Return an id if it is text that can name an object; raise `JobError` with a sentence for anything else.

    `what` describes an id that would be right, such as 'the id of a job, such as "job-4f1c"'.
    """
    if not isinstance(id, str) or not id.strip() or len(id) > _MAX_ID or not id.strip().isprintable():
        raise JobError(f"{id!r:.100} is not {what}.")
    return id.strip()


def check_path(path: object) -> str:
    """Return the path of a file of a job if it is text; raise `JobError` with a sentence for anything else."""
    if not isinstance(path, str) or not path:
        raise JobError(f"{path!r:.100} is not the path of a file of a job, as `files()` lists it.")
    return path


def find_target(folder: str | os.PathLike[str]) -> str:
    """Return the absolute path of a folder into which files are copied; raise `JobError` if there is no such folder."""
    try:
        path = os.path.abspath(os.fspath(folder))
        exists = isinstance(path, str) and os.path.isdir(path)
    except (TypeError, ValueError, OSError):
        exists = False
    if not exists:
        raise JobError(f"There is no folder {folder!r:.200}. Make it, or name another one.")
    return path


def _read(status: int, body: bytes) -> Mapping[str, object]:
    """Return the JSON object of an answer; raise `JobError` for every other answer."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise JobError(f"The Jupyter server gave an answer that is not understood (status {status}).", status=status)
    if status < 300:
        return cast("Mapping[str, object]", document)
    said = document.get("message") or f"The Jupyter server answered with status {status}."
    raise JobError(str(said), status=status, code=str(document.get("code") or ""))
