"""Opens the database and tells its failures apart."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from jupyter_gq.domain.errors import AdminError, StorageFull

#: How long a statement waits for another process that writes.
BUSY_MS = 10_000
#: What SQLite says when the disk, or a quota on it, refuses a write. (A quota is an input/output error to SQLite.)
_FULL = frozenset(
    {"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_TRUNCATE", "SQLITE_IOERR_FSYNC"}
)
#: PostgreSQL's "disk full".
_SQLSTATE_FULL = "53100"
#: Execution option of connections that will write.
WRITES = "jupyter_gq_writes"


def open_engine(url: str) -> sa.Engine:
    """An engine for this database; a new SQLite file can be read by its owner only."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return sa.create_engine(parsed)
    if not parsed.database or parsed.database == ":memory:":
        raise AdminError("The store needs a file, such as sqlite:///service.sqlite: jobs must outlive the service.")
    _create_private(Path(parsed.database))
    engine = sa.create_engine(parsed, connect_args={"isolation_level": None, "timeout": BUSY_MS / 1000})
    sa.event.listen(engine, "connect", _prepare_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def storage_full(error: BaseException) -> StorageFull | None:
    """The error to raise when this one means that the disk refused a write; None when it means something else."""
    original = getattr(error, "orig", None) or error
    refused = getattr(original, "sqlite_errorname", "") in _FULL or getattr(original, "sqlstate", "") == _SQLSTATE_FULL
    if not refused:
        return None
    return StorageFull(f"The disk with the scheduler's database refused a write ({original}). Free some space there.")


def _create_private(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            # SQLite gives -wal and -shm the mode of the file itself.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        path.chmod(0o600)
    except OSError as error:
        raise AdminError(f"The database {path} cannot be opened: {error.strerror}.") from error


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    for pragma in (f"busy_timeout={BUSY_MS}", "journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    # The driver's own implicit BEGIN is off (isolation_level=None): a writer takes its lock at the start, so that
    # it waits there instead of failing in the middle, and schema changes are part of the transaction.
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
