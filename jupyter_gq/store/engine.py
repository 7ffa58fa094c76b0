"""Engines of the database: a SQLite file, or PostgreSQL by its URL."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from jupyter_gq.domain.errors import AdminError

if TYPE_CHECKING:
    import sqlite3

    import psycopg

#: Milliseconds that a statement on SQLite waits for another process that writes.
BUSY_MS = 10_000
#: Name of the execution option of connections that will write.
WRITES = "jupyter_gq_writes"
#: Names under which PostgreSQL lists the connections of commands, and of a service that works on the database.
COMMAND, SERVICE = "jupyter-gq", "jupyter-gq service"
#: Timeout of making a connection to PostgreSQL, in seconds.
_CONNECT = 3
#: How libpq notices that the server is gone: seconds of silence before it probes, seconds between two probes, number of
#: unanswered probes, and milliseconds for which sent data may stay unacknowledged.
_KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 6_000,
}
#: The same for the server's end, and the longest time of a statement and of a wait for a lock. Both are shorter than
#: the silence timeout, so that the server itself reports what it did not do. The locks of a service that vanished are
#: released soon, because its successor waits for them.
_SESSION = (
    "SET statement_timeout = '4s'; SET lock_timeout = '3s'; SET idle_in_transaction_session_timeout = '8s'; "
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3"
)


def open_engine(url: str, program: str = COMMAND) -> sa.Engine:
    """Return an engine for the database at `url`; create a missing SQLite file, which only its owner can read.

    `program` is the name by which PostgreSQL lists the connections. Raises `AdminError` for an invalid URL or a missing
    driver. The text of the error never contains the URL, which may
    hold a password. Does not connect to the database yet.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "postgresql":
        return _open_postgresql(parsed, program)
    _create_private(Path(parsed.database or ""))
    engine = sa.create_engine(
        parsed, hide_parameters=True, connect_args={"isolation_level": None, "timeout": BUSY_MS / 1000}
    )
    sa.event.listen(engine, "connect", _prepare_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def describe_database(engine: sa.Engine) -> str:
    """Return the name of the database for a sentence: a SQLite file's path, or name and host without credentials."""
    url = engine.url
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    host, port = url.host or url.query.get("host") or "localhost", url.port or url.query.get("port")
    return f"{url.database or ''!r} at {host}" + (f":{port}" if port else "")


def make_sqlite_url(file: Path) -> str:
    """Return the URL of a SQLite file, whatever characters its path has; a % or ? would end up in another file."""
    return sa.URL.create("sqlite", database=str(file)).render_as_string()


def find_file(path: Path) -> bool:
    """Return whether the file of a SQLite database is there.

    Raises `AdminError` if that cannot be seen, as in a folder that this process may not enter.
    """
    try:
        return path.is_file()
    except OSError as error:
        raise AdminError(f"The database {path} cannot be opened: {error.strerror}.") from error


def parse_url(url: str) -> sa.URL:
    """Return the parsed URL of a database.

    Raises `AdminError` for an invalid URL, for a database that is neither SQLite nor PostgreSQL, and for SQLite without
    a file. The sentence of an invalid URL never contains the URL, which may hold a password.
    """
    try:
        parsed: sa.URL | None = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        parsed = None
    # After an unescaped @ of a password, the host begins with the end of the password. No system takes a NUL.
    if parsed is None or "@" in (parsed.host or "") or any("\0" in str(part) for part in parsed):
        raise AdminError(
            "The URL of the database cannot be read. Write it as postgresql://user@host/database or "
            "sqlite:///file; in a password, @ : / and % are written as %40 %3A %2F %25."
        )
    if parsed.drivername not in ("sqlite", "postgresql", "postgresql+psycopg"):
        raise AdminError(
            f"There is no store on {parsed.drivername!r}. Use sqlite:///file or postgresql://user@host/database."
        )
    # With the option `uri`, SQLite reads another file than the path names, or none: file::memory:, ?mode=memory.
    if parsed.drivername == "sqlite" and (parsed.database in (None, "", ":memory:") or "uri" in parsed.query):
        raise AdminError(
            "The store needs a file, such as sqlite:///service.sqlite, and no option uri: jobs outlive the service."
        )
    return parsed


def _open_postgresql(url: sa.URL, program: str) -> sa.Engine:
    """Return an engine for PostgreSQL; raise `AdminError` if its driver is missing or an option of the URL is wrong."""
    try:
        from psycopg import ProgrammingError, conninfo
    except ImportError as error:
        raise AdminError(
            "A database on PostgreSQL needs the driver psycopg. Install it with: pip install 'jupyter-gq[postgresql]'"
        ) from error
    engine = sa.create_engine(
        url.set(drivername="postgresql+psycopg"),
        hide_parameters=True,  # otherwise an error would quote what was to be written
        pool_pre_ping=True,  # so a restart of the server between two statements causes no error
        pool_size=4,
        max_overflow=12,
        pool_timeout=_CONNECT,
        pool_use_lifo=True,
        connect_args={"connect_timeout": _CONNECT, "application_name": program, **_KEEPALIVE},
    )
    try:
        conninfo.make_conninfo(**{name: value for name, value in url.query.items() if isinstance(value, str)})
    except ProgrammingError as error:
        raise AdminError(f"The URL of the database cannot be used: {error}.") from None
    from .silence_timeout import connect  # the driver of PostgreSQL is needed only here

    sa.event.listen(engine, "do_connect", connect)
    sa.event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _prepare_postgresql(connection: "psycopg.Connection[tuple[object, ...]]", _record: object) -> None:
    connection.execute(_SESSION)
    connection.commit()


def _create_private(path: Path) -> None:
    """Create the file and its folder if they are missing, and let only their owner read them.

    Raises `AdminError` if the path leads to something else than a file, or if the disk refuses.
    """
    try:
        # Before the mode is set: without it for others, a folder such as / would stop the machine.
        if path.exists() and not path.is_file():
            raise AdminError(f"The database {path} is no file. Name one in the URL, such as sqlite:////srv/gq.sqlite.")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            # SQLite gives -wal and -shm the mode of the file itself.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        path.chmod(0o600)
    except OSError as error:
        raise AdminError(f"The database {path} cannot be opened: {error.strerror}.") from error


def _prepare_sqlite(connection: "sqlite3.Connection", _record: object) -> None:
    connect = (f"busy_timeout={BUSY_MS}", "journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON")
    # Deleted outputs and earlier settings are overwritten: free pages go into copies of the file. Only some builds of
    # SQLite do so by themselves. See docs/decisions/0475-overwrite-what-is-deleted-and-do-not-vacuum.md.
    for pragma in (*connect, "secure_delete=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    # The driver's own implicit BEGIN is off (isolation_level=None): a writer takes its lock at the start, so that
    # it waits there instead of failing in the middle, and schema changes are part of the transaction.
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
