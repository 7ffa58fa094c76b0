"""The audit log: who did what to which object, and when.

An entry holds names, amounts and reasons, and never tokens, environment variables or the code of cells.

See docs/decisions/0080-keep-the-audit-log-in-the-database.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from .amount import Instant
from .json_types import JsonValue

# Actors that are no users of the Hub. A user name has no slash.
#: The scheduler, which acts by the administrators' settings.
SCHEDULER: Final = "jupyter-gq/scheduler"
#: The author of the hub's configuration file.
CONFIG_FILE: Final = "jupyter-gq/config-file"


def name_account(account: str) -> str:
    """Return the name of an actor who used a command under this account of the machine."""
    return f"os/{account}"


class Action(StrEnum):
    """The acts that the audit log records."""

    JOB_SUBMIT = "job.submit"
    JOB_CANCEL = "job.cancel"
    JOB_DELETE = "job.delete"
    JOB_EVICT = "job.evict"
    JOB_HOLD = "job.hold"
    JOB_RELEASE = "job.release"
    JOB_MOVE = "job.move"
    JOB_CHANGE = "job.change"
    JOB_SUSPEND = "job.suspend"
    JOB_RESUME = "job.resume"
    NOTEBOOK_REQUEST = "notebook.request"
    NOTEBOOK_KEEP = "notebook.keep"
    NOTEBOOK_RELEASE = "notebook.release"
    NOTEBOOK_EVICT = "notebook.evict"
    NOTEBOOK_SUSPEND = "notebook.suspend"
    NOTEBOOK_RESUME = "notebook.resume"
    MEMORY_WARN = "memory.warn"
    MEMORY_INTERRUPT = "memory.interrupt"
    MEMORY_TERMINATE = "memory.terminate"
    MEMORY_KILL = "memory.kill"
    DRAIN_BEGIN = "drain.begin"
    DRAIN_END = "drain.end"
    SETTINGS_CHANGE = "settings.change"
    DATABASE_BACKUP = "database.backup"
    DATABASE_RESTORE = "database.restore"
    DATABASE_COPY = "database.copy"


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """An entry of the audit log: one act."""

    #: Assigned by the store, and increasing; 0 = not stored yet.
    id: int = 0
    at: Instant
    #: The user or service that acted, or one of the actors above.
    actor: str
    action: Action
    #: Id of the job or ticket; name of the node or device; path of the file.
    object: str
    #: The user whose work it is; None = nobody's.
    owner: str | None = None
    #: Further facts by name, such as the queue of a job or the reason of an eviction.
    details: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditFilter:
    """The entries that a reader wants; None = any."""

    since: Instant | None = None
    #: Before this time.
    until: Instant | None = None
    actor: str | None = None
    action: Action | None = None
    object: str | None = None
    owner: str | None = None
