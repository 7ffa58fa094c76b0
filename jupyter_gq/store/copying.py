"""Copies of a whole database, such as from a SQLite file into PostgreSQL.

Rules
-----
All or nothing: the target must be empty, and it gets every row or none.

No other writer: the copy takes over both databases, so a service that still runs on one of them ends.

Unchanged source: the source keeps everything.
"""

from collections.abc import Mapping
from pathlib import Path

import sqlalchemy as sa

from jupyter_gq.domain.errors import AdminError

from .tables import events, files, outputs, settings, workloads
from .transactions import Transactions

#: The tables, those that others refer to first, each with the number of its rows that are in memory at a time.
_TABLES = ((workloads, 200), (outputs, 100), (events, 500), (settings, 100), (files, 4))


def copy(source: str, target: str) -> Mapping[str, int]:
    """Copy the database at the URL `source` to the one at `target`; return the number of rows by table.

    Raises `AdminError` if the source is missing, the target holds anything, or not all rows arrive.
    """
    _require_file(source)
    old = Transactions(source)
    try:
        new = Transactions(target)
        try:
            _require_empty(new)
            old.take_over()
            new.take_over()
            with old.write() as reading, new.write() as writing:
                return _copy_all(reading, writing)
        finally:
            new.close()
    finally:
        old.close()


def _require_file(source: str) -> None:
    """Raise `AdminError` if a SQLite file is missing, since opening would create it."""
    if source.startswith("sqlite:"):
        path = source.partition(":///")[2].partition("?")[0]
        if not Path(path).is_file():
            raise AdminError(
                f"There is no database at {path or source!r}. A full path has four slashes: sqlite:////var/…"
            )


def _require_empty(new: Transactions) -> None:
    """Raise `AdminError` if a table of the new database has any row."""
    with new.read() as connection:
        found = {table.name: _count(connection, table) for table, _ in _TABLES}
    if any(found.values()):
        told = ", ".join(f"{number} {name}" for name, number in found.items() if number)
        raise AdminError(
            f"The new database holds something already ({told}), so nothing was copied. "
            "Empty it, or make another one, and copy again."
        )


def _copy_all(old: sa.Connection, new: sa.Connection) -> dict[str, int]:
    """Copy all tables; return the number of rows by table."""
    if new.dialect.name == "postgresql":
        from .silence_timeout import without_timeouts  # the driver of PostgreSQL is needed only here

        with without_timeouts(new):
            copied = {table.name: _copy(old, new, table, size) for table, size in _TABLES}
            # PostgreSQL's counter of event ids does not see ids that are inserted; without this, ids would repeat.
            last = sa.select(sa.func.setval(sa.func.pg_get_serial_sequence("events", "id"), sa.func.max(events.c.id)))
            new.execute(last)
            return copied
    return {table.name: _copy(old, new, table, size) for table, size in _TABLES}


def _copy(old: sa.Connection, new: sa.Connection, table: sa.Table, size: int) -> int:
    """Copy one table, `size` rows at a time; return the number of rows. Raises `AdminError` if rows are missing."""
    found = old.execution_options(yield_per=size).execute(sa.select(table).order_by(*table.primary_key.columns))
    for rows in found.mappings().partitions(size):
        new.execute(sa.insert(table), [dict(row) for row in rows])
    copied, wanted = _count(new, table), _count(old, table)
    if copied != wanted:
        raise AdminError(f"Only {copied} of {wanted} {table.name} arrived, so nothing was kept.")
    return copied


def _count(connection: sa.Connection, table: sa.Table) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())
