"""Copies of a whole database, such as from a SQLite file into PostgreSQL.

Rules
-----
- All or nothing: the target must be empty, and it gets every row or none.
- No other writer: the copy locks both databases and takes them over, so a service that still runs on one of them ends,
  and whatever it wrote before is copied.
- Unchanged source: the source keeps everything.
- Named database: an error names the database that failed, the source or the target.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import sqlalchemy as sa

from jupyter_gq.domain.audit import AuditEntry
from jupyter_gq.domain.errors import AdminError

from .address import expect_file
from .engine import describe_database
from .failures import translated_errors
from .rows import add_audit_entries
from .tables import audit_entries, events, files, outputs, part_uses, parts, settings, workloads
from .transactions import Transactions

#: Tables in an order in which references come later, each with the number of rows in memory at a time.
_TABLES = (
    *((workloads, 200), (outputs, 100), (events, 500), (audit_entries, 500), (settings, 100)),
    *((files, 4), (parts, 4), (part_uses, 500)),
)
#: Tables whose ids the database assigns.
_COUNTED = (events, audit_entries)


def copy(source: str, target: str, *, audit: Sequence[AuditEntry] = ()) -> Mapping[str, int]:
    """Copy the database at the URL `source` to the empty one at `target`; return the number of rows by table.

    The target gets further entries of the audit log. Takes over both, so that a service on either ends. Raises
    `AdminError` if the source is missing, the target holds anything, or not all rows arrive.
    """
    expect_file(source)
    with closing(Transactions(source)) as old, closing(Transactions(target)) as new, new.exclusive() as writing:
        if found := describe_contents(writing):
            raise AdminError(
                f"The database {new.place} holds something already ({found}), so nothing was copied. "
                "Empty it, or make another one, and copy again."
            )
        with old.exclusive() as reading:
            copied = copy_rows(reading, writing)
            add_audit_entries(writing, audit)
        return copied


def describe_contents(connection: sa.Connection) -> str:
    """Return a phrase such as "3 workloads, 1 settings"; "" for an empty database."""
    found = {table.name: _count(connection, table) for table, _ in _TABLES}
    return describe_rows({name: number for name, number in found.items() if number})


def describe_rows(counts: Mapping[str, int]) -> str:
    """Return a phrase such as "3 workloads, 1 settings" for the number of rows of each table."""
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in counts.items())


def delete_rows(connection: sa.Connection) -> None:
    """Delete all rows of all tables, except the epoch of the writer."""
    with unlimited(connection):
        for table, _ in reversed(_TABLES):
            connection.execute(sa.delete(table))


def copy_rows(source: sa.Connection, target: sa.Connection) -> Mapping[str, int]:
    """Copy all rows of `source` into the empty tables of `target`; return the number of rows by table.

    Raises `AdminError` if fewer rows arrived than there are, and errors of either database under its name.
    """
    with unlimited(source), unlimited(target):
        copied = {table.name: _copy(source, target, table, size) for table, size in _TABLES}
        if target.dialect.name == "postgresql":
            # PostgreSQL's counters do not see ids that are inserted; without this, ids would repeat.
            for table in _COUNTED:
                counter = sa.func.pg_get_serial_sequence(table.name, "id")
                target.execute(sa.select(sa.func.setval(counter, sa.func.max(table.c.id))))
        return copied


@contextmanager
def unlimited(connection: sa.Connection) -> Iterator[None]:
    """Switch all timeouts of a connection to PostgreSQL off during the block; SQLite has none."""
    if connection.dialect.name != "postgresql":
        yield
        return
    from .silence_timeout import without_timeouts  # the driver of PostgreSQL is needed only here

    with without_timeouts(connection):
        yield


def _copy(source: sa.Connection, target: sa.Connection, table: sa.Table, size: int) -> int:
    """Copy one table, `size` rows at a time; return the number of rows. Raises `AdminError` if rows are missing."""
    place = describe_database(target.engine)
    for rows in _portions(source, table, size):
        with translated_errors(place):
            target.execute(sa.insert(table), rows)
    with translated_errors(place):
        copied = _count(target, table)
    with translated_errors(describe_database(source.engine)):
        wanted = _count(source, table)
    if copied != wanted:
        raise AdminError(f"Only {copied} of {wanted} {table.name} arrived in {place}, so nothing was kept.")
    return copied


def _portions(source: sa.Connection, table: sa.Table, size: int) -> Iterator[list[dict[str, object]]]:
    """Yield all rows of a table, `size` at a time; only errors of reading are raised under the name of the source."""
    with translated_errors(describe_database(source.engine)):
        # An option of the statement: one of the connection would stay, and a restore writes to it later.
        query = sa.select(table).order_by(*table.primary_key.columns).execution_options(yield_per=size)
        for rows in source.execute(query).mappings().partitions(size):
            yield [dict(row) for row in rows]


def _count(connection: sa.Connection, table: sa.Table) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())
