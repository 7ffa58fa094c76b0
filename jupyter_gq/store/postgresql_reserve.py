"""The reserve of a PostgreSQL database: a table that is dropped when the disk is full, for changes of state.

Rules
-----
Released in need: once the server has refused a write for lack of room, the table is dropped, which needs no room.
    Changes of state use the room, since new outputs and new jobs are refused from then on.
Made again: after a while the table is made again. Once that succeeds, there is room, and new outputs and new jobs are
    accepted again. An attempt that fails leaves nothing behind.

See docs/decisions/0091-keep-a-reserve-inside-the-database.md.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import sqlalchemy as sa

from jupyter_gq.domain.errors import AdminError, StorageFull

log = logging.getLogger(__name__)

_MIB = 1024 * 1024
#: Calls of `keep` between two attempts to make the table again.
_PAUSE = 10


class PostgresqlReserve:
    """The reserve of one database, in bytes; several stores may keep it, one after the other."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._is_kept = False
        #: Calls of `keep` until the next attempt.
        self._pause = 0

    def keep(self, write: Callable[[], AbstractContextManager[sa.Connection]], *, refused: bool) -> bool:
        """Make or drop the table as the rules say; return whether only changes of state may be written.

        `write` provides a transaction that writes; `refused` tells whether the server has refused a write for lack of
        room since the last call.
        """
        if refused:
            self._is_kept, self._pause = False, _PAUSE
            with suppress(StorageFull), write() as connection:
                connection.execute(sa.text("DROP TABLE IF EXISTS reserve"))
            return True
        if self._is_kept:
            return False
        if self._pause > 0:
            self._pause -= 1
            return True
        return not self._make(write)

    def _make(self, write: Callable[[], AbstractContextManager[sa.Connection]]) -> bool:
        """Make the table unless it is there; return False if the disk has no room for it."""
        try:
            with write() as connection:
                if _measure(connection) < self._size // 2:
                    _fill(connection, self._size)
        except StorageFull:
            self._pause = _PAUSE
            return False
        except AdminError as error:
            log.warning("the database keeps no reserve for changes of state: %s", error)
        self._is_kept = True
        return True


def _measure(connection: sa.Connection) -> int:
    """Return the bytes of the table with its large values; 0 if there is none."""
    query = sa.text("SELECT coalesce(pg_total_relation_size(to_regclass('reserve')), 0)")
    return int(connection.execute(query).scalar_one())


def _fill(connection: sa.Connection, size: int) -> None:
    """Make the table anew with `size` bytes, rounded up to MiB."""
    connection.execute(sa.text("DROP TABLE IF EXISTS reserve"))
    connection.execute(sa.text("CREATE TABLE reserve (room bytea)"))
    connection.execute(sa.text("ALTER TABLE reserve ALTER COLUMN room SET STORAGE EXTERNAL"))  # without compression
    for _ in range(-(-size // _MIB)):  # in many statements, because the time of each is limited
        connection.execute(sa.text("INSERT INTO reserve VALUES (decode(repeat('00', :size), 'hex'))"), {"size": _MIB})
