"""The reserve of a SQLite database: empty pages inside the file, for changes of state on a full disk.

Rules
-----
Journal: the journal is copied into the database at every step, and so begins anew in the room that it had. The reserve
    passes through the journal when it is made, so that the journal has as much room.
Inside the file: SQLite uses the empty pages before it asks the disk for more. So no other program can take the room
    between its release and its use, as it could take that of a file which is deleted.
For changes of state: while less than half of the reserve is left, and the disk has no room to restore it, new outputs
    and new jobs are refused. Starts, stops and ends are recorded all the same.

See `postgresql_reserve` for the reserve of PostgreSQL.
See docs/decisions/0091-keep-a-reserve-inside-the-database.md.
"""

import os
from pathlib import Path

import sqlalchemy as sa

#: Bytes of the reserve. A change of state takes some kilobytes at most, and most changes replace earlier ones.
RESERVE = 16 * 1024 * 1024
#: Part of the disk that the reserve may take.
_PART = 0.05


def measure_reserve(connection: sa.Connection) -> int:
    """Return the bytes of empty pages in the database file."""
    pages = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
    return int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())


def is_short(reserve: int, wanted: int, file: Path) -> bool:
    """Tell whether `reserve` bytes are less than half of the wanted reserve, or of the part of a small disk."""
    return reserve < _target(wanted, file) // 2


def choose_growth(reserve: int, wanted: int, file: Path) -> int:
    """Return by how many bytes to enlarge a reserve of `reserve` bytes that is short; 0 if the disk has no room."""
    disk = os.statvfs(file)
    growth = _target(wanted, file) - reserve
    return growth if 2 * growth <= disk.f_bavail * disk.f_frsize else 0  # the journal takes as many bytes as the pages


def _target(wanted: int, file: Path) -> int:
    """Return the size of the reserve in bytes: as wanted, but at most `_PART` of the disk."""
    disk = os.statvfs(file)
    return min(wanted, int(disk.f_blocks * disk.f_frsize * _PART))


def fill_reserve(connection: sa.Connection, growth: int) -> None:
    """Write pages of `growth` bytes in this transaction; `free_reserve` empties them in a later one."""
    connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS reserve (room BLOB)")
    connection.exec_driver_sql("INSERT INTO reserve VALUES (zeroblob(?))", (growth,))


def free_reserve(connection: sa.Connection) -> None:
    """Make the pages that `fill_reserve` has written empty; do nothing if there are none."""
    connection.exec_driver_sql("DROP TABLE IF EXISTS reserve")


def reuse_journal(connection: sa.PoolProxiedConnection) -> None:
    """Copy the journal into the database, outside of a transaction; the next write then begins a new journal."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
    cursor.close()
