"""Answers and events that this server makes itself, beside those of the service that it passes on.

Plain dataclasses, so that a server starts without loading pydantic. The OpenAPI document of the lab extension
describes them.
"""

from dataclasses import dataclass, field

from jupyter_gq.client.files.target_folder import PresentKind


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerStatus:
    """The answer of GET status. If the service cannot be used, `message` says why and what to do."""

    available: bool
    message: str
    #: Name of the user on the Hub; None without a Hub.
    user: str | None
    #: Name of this server on the Hub; empty for the default server.
    server: str
    #: Whether this server runs on a JupyterHub that has the service.
    hub: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultPath:
    """The answer of POST open-result: the place of the executed notebook, relative to the root folder."""

    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SameFile:
    """The answer of GET same-file: whether two paths, relative to the root folder, lead to one file."""

    same: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ExistingFile:
    """An object beside the notebook in the place of a file of the job, from which it differs."""

    path: str
    #: Only a file can be replaced.
    kind: PresentKind
    bytes: int
    #: When its content changed last.
    changed_at: float
    #: Whether it changed after the job had ended.
    newer: bool
    #: A text that changes with the object.
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyConflict:
    """The answer, with status 409, of POST jobs/<id>/copies if files that differ are there. Nothing was copied."""

    code: str
    message: str
    files: list[ExistingFile]


@dataclass(frozen=True, kw_only=True, slots=True)
class AlreadySent:
    """The answer, with status 409, of POST send and POST sweep for a cell that another page has sent since."""

    code: str
    message: str
    #: Ids of the jobs of that cell which have not ended and were not known. A page whose user was told of them names
    #: them in `known_jobs`.
    other_jobs: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class CopiedFile:
    """A file of a job that is beside the notebook now."""

    #: Path as the results of the job list it.
    path: str
    #: Place of the copy, relative to the root folder of this server.
    target: str
    #: Whether it was there already, with the same content.
    unchanged: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyNews:
    """A line of the answer of POST jobs/<id>/copies. The last line has `copied` or `problem`."""

    #: The file that is copied now.
    path: str = ""
    #: Bytes of all files that are written, and that will be.
    done: int = 0
    total: int = 0
    #: What is there in the end; null before.
    copied: list[CopiedFile] | None = None
    #: A sentence for each file that was left out.
    left_out: list[str] = field(default_factory=list)
    #: Why the copies ended early; "" = they did not.
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionNotice:
    """The data of an event of kind `connection`: the service was lost or can be reached again."""

    available: bool
    message: str
