"""Backups of a database: made while the service runs, and put back while it does not.

Rules
-----
- One state: a backup holds the rows of one moment, whoever writes meanwhile.
- One format: a backup is a SQLite file that only its owner may read, also a backup of PostgreSQL. So the backup of one
  kind of database can be restored into the other kind.
- All or nothing: a file has the name of a backup only once it is complete, and a restore is one transaction.
- Nothing is lost: a restore into a database that holds something makes a backup of that first.
- Recorded: the audit log of the database says who made a backup of it, and who put which backup back.

See docs/decisions/0077-back-up-into-one-sqlite-file.md.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa

from jupyter_gq.domain.audit import AuditEntry
from jupyter_gq.domain.errors import AdminError, DamagedDatabase, JupyterGQError

from .address import expect_file
from .copying import copy_rows, delete_rows, describe_contents
from .rows import add_audit_entries
from .schema import revision
from .transactions import Transactions


def back_up(url: str, file: Path, *, audit: Sequence[AuditEntry] = ()) -> Mapping[str, int]:
    """Write a backup of the database at `url` into a new file; return how many rows of each table it holds.

    Then add the entries to the audit log of the database. The service may run meanwhile. Raises `AdminError` if the
    file exists, the database has another schema, or the disk refuses; no file is left then. Raises `AdminError` also if
    the backup is complete and the audit log could not be written.
    """
    expect_file(url)
    database = Transactions(url, read_only=True)
    try:
        copied = _write(database, file)
        try:
            with database.append() as connection:
                add_audit_entries(connection, audit)
        except (JupyterGQError, sa.exc.SQLAlchemyError) as error:
            raise AdminError(
                f"The backup {file} is complete, but the audit log of the database does not name it: {error}"
            ) from error
        return copied
    finally:
        database.close()


def restore(file: Path, url: str, *, kept: Path | None = None, audit: Sequence[AuditEntry] = ()) -> Mapping[str, int]:
    """Replace the content of the database at `url` by a backup and `audit`; return the restored rows by table.

    If the database holds something, a backup of that is written to the new file `kept` first. Raises `AdminError` if
    the database holds something and `kept` is None, or if the file is no complete backup; nothing has changed then. A
    service that still runs on the database ends, unless the restore is refused.
    """
    if kept is not None:
        _expect_new(kept)
    with _opened(file) as backup:
        database = Transactions(url)
        try:
            if (found := describe_contents(database)) and kept is None:
                raise AdminError(
                    f"The database holds something already ({found}), so nothing was restored. To replace that, add "
                    "--replace KEPT: what the database holds now is written to the new file KEPT first."
                )
            database.take_over()
            if kept is not None:
                _write(database, kept)
            with backup.snapshot() as reading, database.write() as writing:
                delete_rows(writing)
                copied = copy_rows(reading, writing)
                add_audit_entries(writing, audit)
                return copied
        finally:
            database.close()


def _write(database: Transactions, file: Path) -> Mapping[str, int]:
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
    return copied


def _expect_new(file: Path) -> None:
    """Raise `AdminError` if the file exists, or its folder is missing."""
    if file.exists():
        raise AdminError(f"{file} exists already, so no backup was made. Give the name of a new file.")
    if not file.parent.is_dir():
        raise AdminError(f"There is no folder {file.parent}, so no backup was made. Make it, or name another one.")


def _move_to_new(part: Path, file: Path) -> None:
    """Rename `part` to the new name `file` and write that to the disk; raise `FileExistsError` if the name is taken.

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
    """Write a file or a folder to the disk."""
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _copy_into(database: Transactions, part: Path) -> Mapping[str, int]:
    backup = Transactions(f"sqlite:///{part}")
    try:
        with database.snapshot() as reading, backup.write() as writing:
            return copy_rows(reading, writing)
    finally:
        backup.close()  # the last connection writes the log of SQLite into the file


@contextmanager
def _opened(file: Path) -> Iterator[Transactions]:
    """Provide a temporary copy of a backup as an open database; migrations change the copy, and the file is only read.

    Raises `AdminError` if the file is no complete backup.
    """
    with tempfile.TemporaryDirectory(prefix="jupyter-gq-restore-") as folder:
        backup = _open_copy(file, Path(folder, "backup.sqlite"))
        try:
            yield backup
        finally:
            backup.close()


def _open_copy(file: Path, copied: Path) -> Transactions:
    """Copy a backup to the path `copied` and return the opened copy; raise `AdminError` if it is no complete backup."""
    try:
        shutil.copyfile(file, copied)
        log = file.with_name(file.name + "-wal")  # a database that was copied as files has its last writes there
        if log.is_file():
            shutil.copyfile(log, copied.with_name(copied.name + "-wal"))
    except OSError as error:
        raise AdminError(f"The backup {file} could not be read: {error.strerror or error}.") from error
    _expect_backup(copied, file)
    backup = Transactions(f"sqlite:///{copied}")
    try:
        backup.check_pages()
    except DamagedDatabase as error:
        backup.close()
        raise AdminError(f"{file} is no complete backup ({error.told}), so nothing was restored.") from error
    return backup


def _expect_backup(copied: Path, file: Path) -> None:
    """Raise `AdminError` if the file has no table of ours: a migration would make an empty database of it.

    `copied` is the copy that is examined; `file` is the original, which the error names.
    """
    engine = sa.create_engine(f"sqlite:///{copied}")
    try:
        with engine.connect() as connection:
            found = revision(connection)
    except sa.exc.DatabaseError as error:
        raise AdminError(f"{file} is no backup of jupyter-gq ({error.orig}), so nothing was restored.") from error
    finally:
        engine.dispose()
    if found is None:
        raise AdminError(f"{file} is no backup of jupyter-gq: it has none of its tables. Nothing was restored.")
