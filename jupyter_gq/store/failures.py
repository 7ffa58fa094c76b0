"""The translation of database errors into errors of this package."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from jupyter_gq.domain.errors import (
    AdminError,
    DamagedDatabase,
    JupyterGQError,
    StatementCancelled,
    StorageFull,
    StoreUnavailable,
)
from jupyter_gq.domain.plain_text import strip_controls

#: Names of SQLite's errors when the disk, or a quota on it, refuses a write. SQLite reports a quota as an I/O error.
_SQLITE_FULL = frozenset(
    {"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_TRUNCATE", "SQLITE_IOERR_FSYNC"}
)
#: Beginnings of the names of SQLite's errors when the file cannot be used now: it is locked, or its disk is away.
_SQLITE_AWAY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_READONLY")
#: SQLite errors of a file with a damaged page, with a damaged header, or cut off.
_SQLITE_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
#: PostgreSQL's "disk full".
_FULL = "53100"
#: PostgreSQL's "insufficient privilege".
_FORBIDDEN = "42501"
#: PostgreSQL's "query canceled". See docs/decisions/0189-do-not-count-a-cancelled-statement-as-an-outage.md.
_CANCELLED = "57014"
#: Beginnings of PostgreSQL's states for temporary failures: connection, resources, operator, system, locks,
#: conflicts, a server that has become a read-only copy, a server that ended our idle transaction.
_AWAY_CLASSES = ("08", "53", "57", "58", "55P03", "40", "25006", "25P03")


@contextmanager
def translated_errors(place: str) -> Iterator[None]:
    """Raise errors of the database `place` in the block as errors of this package, except those that are defects.

    Where two databases are open, this names the one that failed.
    """
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        better = translate_error(error, place)
        if better is None:
            raise
        raise better from error


def translate_error(error: sa.exc.SQLAlchemyError, place: str) -> JupyterGQError | None:
    """Return the error to raise instead of an error of the database `place`; None for an error that is a defect.

    A full disk becomes `StorageFull`, a damaged file `DamagedDatabase`, missing privileges `AdminError`, a statement
    that the server cancelled `StatementCancelled`, and a database that is away `StoreUnavailable`.
    """
    original = getattr(error, "orig", None) or error
    told = strip_controls((str(original).strip() or type(original).__name__).splitlines()[0])
    name, state = getattr(original, "sqlite_errorname", "") or "", getattr(original, "sqlstate", "") or ""
    if name in _SQLITE_FULL or state == _FULL:
        return StorageFull(
            f"The disk with the database {place} refused a write ({told}). Free some space there."
            f"{told_file_size_limit()}"
        )
    if name.startswith(_SQLITE_DAMAGED):
        return DamagedDatabase(place, told)
    if state == _FORBIDDEN:
        return AdminError(
            f"The database {place} refuses what the scheduler needs ({told}). Make its user the owner of the database."
        )
    if state == _CANCELLED:
        return StatementCancelled(place, told)
    if name.startswith(_SQLITE_AWAY) or state.startswith(_AWAY_CLASSES) or _connection_lost(error, name, state):
        return StoreUnavailable(place, told)
    return None


def told_file_size_limit() -> str:
    """Return a sentence, after a space, on the limit on the size of files of this process; "" if it has none.

    SQLite does not say whether a write met this limit or a full disk.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit == resource.RLIM_INFINITY:
        return ""
    return f" A file may have at most {limit} bytes here: raise this limit (ulimit -f) if that is too little."


def _connection_lost(error: sa.exc.SQLAlchemyError, name: str, state: str) -> bool:
    """Tell whether the driver failed without an answer from the database, or no connection of the pool became free.

    `name` and `state` are the error codes of SQLite and PostgreSQL; "" = the database sent none.
    """
    if isinstance(error, sa.exc.TimeoutError):
        return True
    if not isinstance(error, sa.exc.DBAPIError) or name:
        return False
    return error.connection_invalidated or (isinstance(error, sa.exc.OperationalError) and not state)
