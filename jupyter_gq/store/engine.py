"""Engines of the database: a SQLite file, or PostgreSQL by its URL."""

import os
import re
import stat
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from jupyter_gq.client.connection.service_address import VIRTUAL_FOLDERS
from jupyter_gq.domain.errors import AdminError
from jupyter_gq.domain.plain_text import quoted, shorten

if TYPE_CHECKING:
    import sqlite3

    import psycopg

#: Milliseconds that a statement on SQLite waits for another process that writes.
BUSY_MS = 10_000
#: Name of the execution option of connections that will write.
WRITES = "jupyter_gq_writes"
#: Names under which PostgreSQL lists the connections of commands, and of a service that works on the database.
COMMAND, SERVICE = "jupyter-gq", "jupyter-gq service"
#: What to do about the path of a SQLite file.
_NAME_ANOTHER = "Name a file in the URL, such as sqlite:////srv/gq.sqlite."
#: Options of a URL of PostgreSQL that may be there several times, for several hosts.
_LISTED = frozenset({"host", "port"})
#: The number of ports, with 0, which is none.
_PORTS = 65536
#: Options of a URL of PostgreSQL that say where the server is, and those whose values are whole numbers.
_PLACES = frozenset({"host", "hostaddr", "port", "service"})
_WHOLE_NUMBERS = frozenset(
    {"connect_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"}
)
#: A whole number as libpq reads it, with up to ten digits behind zeros, and the bounds of one.
_WHOLE_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)0*([0-9]{1,10})[ \t\n\v\f\r]*")
_LEAST_INT, _MOST_INT = -(2**31), 2**31 - 1
#: Bytes of a path that Linux does not take any more.
_LONGEST_PATH = 4096
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
    """Return a SQLAlchemy engine for the database at `url`, without connecting to it.

    `url` is a URL of SQLAlchemy, such as "sqlite:////srv/gq/service.sqlite" or "postgresql://user@host/database"; see
    `parse_url`. The path of a SQLite file begins in the working folder if it is not absolute. A missing file is
    created together with its folders. From then on only its owner can read it, also if it was there. `program` is the
    name by which PostgreSQL lists the connections.

    On SQLite, a statement waits up to `BUSY_MS` for another writer. On PostgreSQL, the connections of the engine are
    made in `_CONNECT` seconds or fail, and a server that is silent counts as gone. The caller closes the engine with
    `dispose`.

    Raises `AdminError` for a URL that `parse_url` refuses, if the driver of PostgreSQL is not installed, and if the
    SQLite file cannot be created or is not a regular file. The text of the error never contains the URL, which may hold
    a password; it has the path of a SQLite file.
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
    """Return the SQLAlchemy URL of a SQLite file, such as "sqlite:////srv/gq.sqlite" for /srv/gq.sqlite.

    The path may have any characters: a % or ? is escaped, so that `parse_url` finds the same path again. A relative
    path stays relative. The file need not exist, and nothing is created or checked.
    """
    return sa.URL.create("sqlite", database=str(file)).render_as_string()


def find_file(path: Path) -> bool:
    """Return whether there is a regular file at the path of a SQLite database, or a link to one; open nothing.

    Returns False if the path is missing, leads through a file, or leads to something else, such as a folder or a pipe.
    Raises `AdminError` with the path if that cannot be seen, as in a folder that this process may not enter, in a loop
    of links, or with a path that no system takes.
    """
    try:
        return stat.S_ISREG(path.stat().st_mode)  # `is_file` hides errors, since Python 3.14 all of them
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        raise _refuse_path(path, error) from error


def parse_url(url: str) -> sa.URL:
    """Return the parts of the URL of a database, such as "sqlite:///service.sqlite" or "postgresql://user@host/db".

    The driver of the result is "sqlite", "postgresql" or "postgresql+psycopg". For SQLite, `database` is the path of
    the file: relative after three slashes, absolute after four. Nothing is opened, and no server is asked; see
    `check_url` for the place of a SQLite file.

    Raises `AdminError` for a text that is no URL, for one with a NUL or with characters that have no bytes, for a
    database that is neither SQLite nor PostgreSQL, for SQLite without a file or with the option `uri`, and for an
    option, a host or a port with which no connection could be made. Options of PostgreSQL are known only if its driver
    is installed. The sentence of the error never contains the URL, which may hold a password.
    """
    try:
        parsed: sa.URL | None = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        parsed = None
    # After an unescaped @ of a password, the host begins with the end of the password.
    if parsed is None or "@" in (parsed.host or "") or not _has_plain_parts(parsed):
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
    if "plugin" in parsed.query:
        raise _refuse_option("plugin would let SQLAlchemy load other code")
    if parsed.drivername == "sqlite":
        _check_sqlite_options(parsed)
    else:
        _check_postgresql_options(parsed)
    return parsed


def _refuse_option(problem: str) -> AdminError:
    """Return the error for an option of the URL of a database."""
    return AdminError(f"An option in the URL of the database cannot be used: {problem}. Leave it out.")


def _check_sqlite_options(url: sa.URL) -> None:
    """Raise `AdminError` for an option of a URL of SQLite whose value its driver does not take, or for a host."""
    if url.host or url.username:
        raise AdminError(
            "A URL of SQLite names no host. Write sqlite:///file, or sqlite:////folder/file for a full path."
        )
    dialect = url.get_dialect()()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of options that the driver does not know, which change nothing
        try:
            _, options = dialect.create_connect_args(url)
            dialect.import_dbapi().connect(":memory:", **options).close()
        except (sa.exc.ArgumentError, TypeError, ValueError, OverflowError) as error:
            raise _refuse_option(shorten(str(error))) from None


def _check_postgresql_options(url: sa.URL) -> None:
    """Raise `AdminError` for a host, a port or an option of a URL of PostgreSQL that no server can have."""
    repeated = [name for name, given in url.query.items() if not isinstance(given, str) and name not in _LISTED]
    if repeated:
        raise _refuse_option(f"{quoted(repeated[0])} is there several times")
    try:
        _, found = url.set(drivername="postgresql+psycopg").get_dialect()().create_connect_args(url)
        ports = [int(port) for port in str(found.get("port") or "").split(",") if port]
    except (sa.exc.ArgumentError, ValueError):
        ports = [0]
    if any(not 0 < port < _PORTS for port in ports):
        raise AdminError(
            f"The ports in the URL of the database cannot be used. Write one number from 1 to {_PORTS - 1}, as in "
            "postgresql://user@host:5432/database, or one for each host: ?host=first,second&port=5432,5433."
        )
    for host in str(found.get("host") or "").split(","):
        if host.startswith(("/", "@")):
            continue  # the folder of a socket
        try:
            host.encode("idna")  # as the names of hosts are looked up
        except UnicodeError:
            raise AdminError(
                "The host in the URL of the database is no name of a machine: each part between two points has 1 to 63 "
                "letters. Write it as postgresql://user@host/database."
            ) from None
    with suppress(ImportError):  # told when the database is opened
        from psycopg.pq import Conninfo

        unknown = sorted(set(url.query) - {each.keyword.decode() for each in Conninfo.get_defaults()})
        if unknown:
            raise _refuse_option(f"PostgreSQL has no option {quoted(unknown[0])}")
        if problem := _find_wrong_value(url):
            raise _refuse_option(problem)


def _find_wrong_value(url: sa.URL) -> str:
    """Return what libpq says against the value of an option; "" if it would try to connect. Looks for no server."""
    from psycopg.conninfo import make_conninfo
    from psycopg.pq import ConnStatus, PGconn

    given = {name: text for name, text in url.query.items() if isinstance(text, str) and name not in _PLACES}
    for name in sorted(_WHOLE_NUMBERS & given.keys()):
        if not _is_whole_number(given[name]):
            return f"{name}={quoted(given[name])} is no whole number"
    nowhere = make_conninfo(**given, host="/dev/null")  # the folder of no socket
    connection = PGconn.connect_start(nowhere.encode())
    try:
        told = connection.error_message.decode(errors="replace").strip() if connection.status == ConnStatus.BAD else ""
    finally:
        connection.finish()
    return shorten(told) if told.startswith("invalid ") else ""


def _is_whole_number(text: str) -> bool:
    """Return whether libpq reads a text as a number of 32 bits; it tells so only once it connects to a server."""
    found = _WHOLE_NUMBER.fullmatch(text)
    return found is not None and _LEAST_INT <= int(found[1] + found[2]) <= _MOST_INT


def check_url(url: str) -> None:
    """Raise `AdminError` for a URL that `parse_url` refuses, or if no SQLite file can be at its path; open nothing.

    The file and its folders may be missing. What this account may not see, or may not write, is not checked.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite":
        return
    given = Path(parsed.database or "")
    path = given.absolute()
    if len(os.fsencode(path)) >= _LONGEST_PATH:
        raise AdminError(f"The path of the database, {quoted(str(path))}, is too long for any system. {_NAME_ANOTHER}")
    first = given.parts[0] if given.parts else ""
    if first.startswith("~") and not Path(first).exists():
        raise AdminError(f'The database {given} cannot be there: "~" does not stand for a home folder. {_NAME_ANOTHER}')
    folder = Path(os.path.realpath(path.parent))
    if not VIRTUAL_FOLDERS.isdisjoint((folder, *folder.parents)):
        raise AdminError(
            f"The database {path} cannot be there: no program can make a file in {folder}. {_NAME_ANOTHER}"
        )
    for each in (path, *path.parents):
        try:
            mode = each.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue  # what is missing is made, and so is the file to which a link leads
        except PermissionError:  # the account of the Hub may have the right to look there
            return
        except (OSError, ValueError) as error:
            raise _refuse_path(path, error) from error
        if not (stat.S_ISREG(mode) if each == path else stat.S_ISDIR(mode)):
            kind = "no file" if each == path else f"in {each}, which is no folder"
            raise AdminError(f"The database {path} is {kind}. {_NAME_ANOTHER}")
        return


def _has_plain_parts(url: sa.URL) -> bool:
    """Return whether all parts of a URL can be given to a system, which takes no NUL and no lone surrogate."""
    query = [
        text for name, given in url.query.items() for text in (name, *([given] if isinstance(given, str) else given))
    ]
    parts = [url.username, url.password, url.host, url.database, *query]
    text = "".join(str(part) for part in parts if part is not None)
    try:
        text.encode("utf-8", "surrogateescape")  # so Python writes bytes of a path that are no text
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _refuse_path(path: Path, error: OSError | ValueError) -> AdminError:
    """Return the error for the path of a SQLite file that cannot be opened, with the reason of `error`."""
    why = error.strerror if isinstance(error, OSError) else error
    return AdminError(f"The database {path} cannot be opened: {why}. {_NAME_ANOTHER}")


def _open_postgresql(url: sa.URL, program: str) -> sa.Engine:
    """Return an engine for PostgreSQL; raise `AdminError` if its driver is missing."""
    try:
        from .silence_timeout import connect  # the driver of PostgreSQL is needed only here
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
        if path.exists() and not find_file(path):
            raise AdminError(f"The database {path} is no file. {_NAME_ANOTHER}")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            # SQLite gives -wal and -shm the mode of the file itself.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        path.chmod(0o600)
    except (OSError, ValueError) as error:
        raise _refuse_path(path, error) from error


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
