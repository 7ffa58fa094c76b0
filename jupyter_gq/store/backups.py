"""Backups of a database: made while the service runs, and put back while it does not.

Rules
-----
- One state: a backup holds the rows of one moment, whoever writes meanwhile.
- One format: a backup is a SQLite file that only its owner may read, also a backup of PostgreSQL. So the backup of one
  kind of database can be restored into the other kind.
- All or nothing: a file has the name of a backup only once it is complete, and a restore is one transaction. A restore
  that is refused or fails has changed nothing, not even the schema.
- Nothing is lost: a restore into a database that holds something makes a backup of that first, in the transaction that
  replaces it. Nobody else can write between the two.
- Named database: an error names the database or file that failed, and says what to do.
- Another backup may follow: a setting tells the service of a restore, so that it deletes no contents outside the
  database for a while; see `controller.loop.orphaned_contents`.
- Recorded: the audit log of the database says who made a backup of it, and who put which backup back.

See docs/decisions/0077-back-up-into-one-sqlite-file.md.
"""

import os
import stat
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa

from jupyter_gq.domain.audit import AuditEntry
from jupyter_gq.domain.errors import AdminError, DamagedDatabase, JupyterGQError, StorageFull

from .address import expect_file
from .codec import decode_json, encode_json
from .copying import copy_rows, delete_rows, describe_contents, unlimited
from .engine import make_sqlite_url, parse_url
from .failures import told_file_size_limit
from .outside import CLAIMS, OWNER, RESTORED, RESTORED_HELD
from .reachability import has_content
from .rows import add_audit_entries
from .schema import expect_known, revision
from .statements import put_setting, setting_by_name
from .transactions import Transactions

#: Bytes of a backup that are copied at a time.
_PORTION = 1024 * 1024


def back_up(url: str, file: Path, *, audit: Sequence[AuditEntry] = ()) -> Mapping[str, int]:
    """Write a backup of the database at `url` into a new file; return how many rows of each table it holds.

    Then add the entries to the audit log of the database. The service may run meanwhile. Raises `AdminError` if the
    file exists, the database has another schema, or the disk refuses; no file is left then. Raises `AdminError` also if
    the backup is complete and the audit log could not be written.
    """
    expect_file(url)
    with closing(Transactions(url)) as database:
        database.expect_schema()
        with database.snapshot() as reading:
            copied = _write(reading, file)
        try:
            with database.append() as connection:
                add_audit_entries(connection, audit)
        except (JupyterGQError, sa.exc.SQLAlchemyError) as error:
            raise AdminError(
                f"The backup {file} is complete, but the audit log of the database does not name it: {error}"
            ) from error
        return copied


def restore(file: Path, url: str, *, kept: Path | None = None, audit: Sequence[AuditEntry] = ()) -> Mapping[str, int]:
    """Replace the content of the database at `url` by a backup and `audit`; return the restored rows by table.

    If the database holds something, a backup of that is written to the new file `kept` first. Raises `AdminError` if
    the database holds something and `kept` is None, if a newer release wrote it, or if the file is no complete backup.
    Raises `StoreUnavailable` if a program that writes does not let go of the database. Nothing has changed then. A
    service that still runs on the database ends, unless the restore is refused.
    """
    if kept is not None:
        _expect_new(kept)
    with _opened(file) as backup, _removed_on_failure(url), closing(Transactions(url)) as database:
        with backup.snapshot() as reading, database.exclusive() as writing, unlimited(writing):
            _keep(writing, kept, database.place)
            claims = _read_claims(writing)
            delete_rows(writing)
            copied = copy_rows(reading, writing)
            put_setting(writing, {"name": RESTORED, "value": encode_json({RESTORED_HELD: 0.0})})
            if claims:  # the database stays the same one for the contents outside it
                put_setting(writing, {"name": OWNER, "value": encode_json({CLAIMS: [*_read_claims(writing), *claims]})})
            add_audit_entries(writing, audit)
        return copied


def _read_claims(connection: sa.Connection) -> list[str]:
    """Return the claims of a database on the contents outside it."""
    document = setting_by_name(connection, OWNER)
    return [] if document is None else list(decode_json(document)[CLAIMS])


def _keep(connection: sa.Connection, kept: Path | None, place: str) -> None:
    """Write a backup of what the database `place` holds to the new file `kept`, if one is given.

    Raises `AdminError` if the database holds something and there is no such file.
    """
    if kept is not None:
        _write(connection, kept)
    elif found := describe_contents(connection):
        raise AdminError(
            f"The database {place} holds something already ({found}), so nothing was restored. To replace that, add "
            "--replace KEPT: what the database holds now is written to the new file KEPT first."
        )


@contextmanager
def _removed_on_failure(url: str) -> Iterator[None]:
    """If the block raises, remove the SQLite file of the URL, unless it held something before.

    A service would take the rest of a failed restore for a new database. Raises `AdminError` if the URL names a folder.
    """
    parsed = parse_url(url)
    is_sqlite, file = parsed.get_backend_name() == "sqlite", Path(parsed.database or "")
    is_new = is_sqlite and not has_content(file)
    if is_sqlite and file.is_dir():
        raise AdminError(f"{file} is a folder, so nothing was restored. Give the name of the database's file.")
    try:
        yield
    except BaseException:
        if is_new:
            for name in (file.name, f"{file.name}-wal", f"{file.name}-shm"):
                file.with_name(name).unlink(missing_ok=True)
        raise


def _write(database: sa.Connection, file: Path) -> Mapping[str, int]:
    """Write a backup into the new file `file`, completely or not at all; return the number of rows by table.

    Raises `AdminError` if the file exists, its folder is missing, or the disk refuses.
    """
    _expect_new(file)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
            part = Path(folder, "part.sqlite")
            copied = _copy_into(database, part)
            _sync(part, os.O_RDONLY)
            _move_to_new(part, file)
    except FileExistsError as error:
        raise AdminError(f"{file} exists already, so no backup was made. Give the name of a new file.") from error
    except OSError as error:
        raise AdminError(f"The backup {file} could not be written: {error.strerror or error}.") from error
    except StorageFull as error:
        raise AdminError(f"The backup {file} could not be written. {error}") from error
    return copied


def _expect_new(file: Path) -> None:
    """Raise `AdminError` if the file exists, or its folder is missing or cannot be entered."""
    try:
        is_there, has_folder = file.exists(), file.parent.is_dir()
    except OSError as error:
        raise AdminError(f"The backup {file} could not be written: {error.strerror}.") from error
    if is_there:
        raise AdminError(f"{file} exists already, so no backup was made. Give the name of a new file.")
    if not has_folder:
        raise AdminError(f"There is no folder {file.parent}, so no backup was made. Make it, or name another one.")


def _move_to_new(part: Path, file: Path) -> None:
    """Rename `part` to the new name `file` and flush that to the disk; raise `FileExistsError` if the name is taken.

    The name is taken first, because a rename would replace a file that came meanwhile. A hard link would not, but exFAT
    and many network file systems have none.
    """
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    try:
        part.replace(file)
    except OSError:
        file.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # some file systems cannot write a folder to the disk on request
        _sync(file.parent, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    """Flush a file or a folder from memory to the disk; `flags` are those with which it is opened."""
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _copy_into(database: sa.Connection, part: Path) -> Mapping[str, int]:
    # The last connection, which is closed here, writes the log of SQLite into the file.
    with closing(Transactions(make_sqlite_url(part))) as backup:
        backup.migrate()
        with backup.append() as writing:
            return copy_rows(database, writing)


@contextmanager
def _opened(file: Path) -> Iterator[Transactions]:
    """Provide a temporary copy of a backup as an open database; migrations change the copy, and the file is only read.

    Raises `AdminError` if the file is no complete backup.
    """
    with _temporary_folder() as folder:
        backup = _open_copy(file, Path(folder, "backup.sqlite"))
        try:
            yield backup
        finally:
            backup.close()


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a temporary folder, which the returned context manager removes; raise `AdminError` if none can be made."""
    try:
        return tempfile.TemporaryDirectory(prefix="jupyter-gq-restore-")
    except OSError as error:
        where = "" if error.filename is None else f" {error.filename}"
        raise AdminError(
            f"The temporary folder{where} for a copy of the backup could not be made: {error.strerror}. Nothing was "
            "restored. Name a folder in TMPDIR in which you may write."
        ) from error


def _open_copy(file: Path, copied: Path) -> Transactions:
    """Copy a backup to the path `copied` and return the opened copy; raise `AdminError` if it is no complete backup."""
    _copy_file(file, copied)
    log = file.with_name(file.name + "-wal")  # a database that was copied as files has its last writes there
    if log.is_file():
        _copy_file(log, copied.with_name(copied.name + "-wal"))
    _expect_backup(copied, file)
    backup = Transactions(make_sqlite_url(copied))
    try:
        backup.migrate()
        backup.check_pages()
    except DamagedDatabase as error:
        backup.close()
        raise AdminError(f"{file} is no complete backup ({error.told}), so nothing was restored.") from error
    except BaseException:
        backup.close()
        raise
    return backup


def _copy_file(file: Path, copied: Path) -> None:
    """Copy a file of a backup to `copied`; raise `AdminError` with the name of the file that failed, and why."""
    size = _measure(file)
    try:
        with closing(_read_portions(file)) as portions, copied.open("xb") as writing:
            for portion in portions:
                writing.write(portion)
    except OSError as error:
        raise AdminError(
            f"A copy of the backup could not be written to {copied}: {error.strerror}. Nothing was restored. Make room "
            f"there for files of {size} bytes, or name another folder in TMPDIR.{told_file_size_limit()}"
        ) from error


def _read_portions(file: Path) -> Generator[bytes]:
    """Yield the content of a file of a backup in portions; raise `AdminError` if the file cannot be read."""
    try:
        with file.open("rb") as reading:
            while portion := reading.read(_PORTION):
                yield portion
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error)) from error


def _measure(file: Path) -> int:
    """Return the bytes of a file of a backup; raise `AdminError` if it is no file, or may not be looked at."""
    try:
        found = file.stat()
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error)) from error
    if not stat.S_ISREG(found.st_mode):
        raise _unreadable(file, "it is not a file")
    return found.st_size


def _unreadable(file: Path, why: str) -> AdminError:
    return AdminError(f"The backup {file} could not be read: {why}. Nothing was restored.")


def _expect_backup(copied: Path, file: Path) -> None:
    """Raise `AdminError` if the file has no table of ours: a migration would make an empty database of it.

    `copied` is the copy that is examined; `file` is the original, which the error names.
    """
    engine = sa.create_engine(make_sqlite_url(copied))
    try:
        with engine.connect() as connection:
            found = revision(connection)
    except sa.exc.DatabaseError as error:
        raise AdminError(f"{file} is no backup of jupyter-gq ({error.orig}), so nothing was restored.") from error
    finally:
        engine.dispose()
    if found is None:
        raise AdminError(f"{file} is no backup of jupyter-gq: it has none of its tables. Nothing was restored.")
    expect_known(found, f"The backup {file}")
