"""Transactions on the database: one write at a time, and none of a writer that has been replaced.

Rules
-----
Order: writes of all processes come one after the other, on SQLite by its lock, on PostgreSQL by the lock of the row
that holds the epoch. So events have increasing ids in the order in which they become readable.

Epoch: a write compares the epoch of this object with the stored one, under the lock, in its own transaction. If another
writer has taken over since, the write raises `Superseded` and changes nothing. Entries of the audit log may be added by
commands that never took over: such an entry changes nothing that the writer knows.

Outage: once a transaction has failed because the database is away, all others are refused at once, until `confirm` has
reached the database. Only `confirm` waits for a database that does not answer.

Late writes: after an outage, `confirm` waits for the lock of the epoch, since a server that was silent may still commit
a write whose connection was closed.
"""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa

from jupyter_gq.domain.errors import DamagedDatabase, StorageFull, StoreUnavailable, Superseded

from . import statements
from .engine import COMMAND, WRITES, describe_database, open_engine
from .failures import translate_error
from .postgresql_reserve import PostgresqlReserve
from .reserve import choose_growth, fill_reserve, free_reserve, is_short, measure_reserve, reuse_journal
from .schema import expect_newest, migrate

SHORTAGE = (
    "The disk with the scheduler's database {place} is full. Work that runs goes on; new jobs are refused, and outputs "
    "wait, until there is room. Free some space there."
)


class Transactions:
    """The transactions on the database at `url`.

    Before the first one, the caller chooses what becomes of another schema, with `migrate`, `expect_schema` or
    `exclusive`.
    """

    def __init__(self, url: str, *, reserve: int = 0, program: str = COMMAND) -> None:
        self._engine = open_engine(url, program)
        self._place = describe_database(self._engine)
        self._writing = self._engine.execution_options(**{WRITES: True})
        # Without this lock, threads of this process would wait in SQLite's busy loop, which sleeps.
        self._writer = threading.Lock()
        #: Epoch of this object; 0 if there never was a takeover.
        self._epoch = 0
        #: Bytes of the reserve that a SQLite file keeps; see `reserve`.
        self._reserve = reserve
        self._postgresql_reserve = PostgresqlReserve(reserve)
        #: Whether the disk has refused a write since `keep_reserve` looked last.
        self._refused = False
        #: Why the database takes neither new outputs nor new jobs; "" = it has room.
        self.shortage = ""
        #: Why the database is away; None while it answers.
        self._away: StoreUnavailable | None = None

    @property
    def place(self) -> str:
        """The name of the database for a sentence; see `describe_database`."""
        return self._place

    def migrate(self) -> None:
        """Bring the database to the present schema; raise `AdminError` if a newer release wrote it."""
        with self._translated_errors(), self._writing.begin() as connection:
            migrate(connection, self._place)

    def expect_schema(self) -> None:
        """Raise `AdminError` unless the database has the present schema; change nothing."""
        with self._translated_errors(), self._engine.connect() as connection:
            expect_newest(connection, self._place)

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Provide a transaction that only reads; raise `StoreUnavailable` if the database is away."""
        self._refuse_while_away()
        with self._translated_errors(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Provide a transaction that reads one state of the database, whoever writes meanwhile.

        Raises `StoreUnavailable` if the database is away.
        """
        self._refuse_while_away()
        with self._translated_errors(), self._engine.connect() as connection:
            if connection.dialect.name == "postgresql":  # a transaction of SQLite always reads one state
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    def check_pages(self) -> None:
        """Read every page of a SQLite file; raise `DamagedDatabase` if one is damaged.

        Does nothing for PostgreSQL, which checks its pages whenever it reads them.
        """
        if self._engine.dialect.name != "sqlite":
            return
        with self.read() as connection:
            told = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one())
        if told != "ok":
            raise DamagedDatabase(self._place, " ".join(told.split()))

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """Provide a transaction that writes: committed at the end of the block, rolled back if the block raises.

        Raises `Superseded` if another writer has taken over, and `StoreUnavailable` if the database is away.
        """
        with self._locked() as (connection, epoch):
            self._require_epoch(epoch)
            yield connection

    @contextmanager
    def append(self) -> Iterator[sa.Connection]:
        """Provide a transaction that may only add rows, whoever the writer is; see `write` for its errors."""
        with self._locked() as (connection, _):
            yield connection

    @contextmanager
    def exclusive(self) -> Iterator[sa.Connection]:
        """Provide a transaction with the present schema in which nobody else can write, and become the writer.

        Whatever was written before can be read in the block. Later writes of earlier writers raise `Superseded`. If the
        block raises, nothing has changed: neither the schema nor the writer. Raises `AdminError` if a newer release
        wrote the database, and `StoreUnavailable` if the database is away or another program does not stop writing.
        """
        with self._translated_errors(), self._writing.begin() as connection:
            migrate(connection, self._place)
            statements.set_epoch(connection, statements.lock_epoch(connection) + 1)
            yield connection

    def take_over(self) -> int:
        """Become the only writer, so that all others get `Superseded` from now on; return the new epoch.

        Also deletes the files of workloads that were never saved.
        """
        with self._locked() as (connection, epoch):
            statements.set_epoch(connection, epoch + 1)
            # No writer is between storing a file and saving its workload now: a file without a workload is a leftover.
            statements.delete_files_without_workload(connection)
        self._epoch = epoch + 1
        return self._epoch

    def confirm(self) -> None:
        """Check that the database answers and that no other writer has taken over; wait for a database that was away.

        Raises `StoreUnavailable` or `Superseded` otherwise. A success ends an outage: other transactions are allowed
        again.
        """
        if self._away is None:
            with self._translated_errors(), self._engine.connect() as connection:
                epoch = statements.epoch(connection)
        # Asked again: a write of another thread may have failed meanwhile.
        if (away := self._away) is not None:
            with self._translated_errors(), self._writing.begin() as connection:
                epoch = statements.lock_epoch(connection)
            if self._away is away:
                self._away = None
        self._require_epoch(epoch)

    def keep_reserve(self) -> None:
        """Restore the reserve if it is short, and set `shortage` if the disk has no room for that."""
        if not self._reserve:
            return
        if self._engine.dialect.name == "sqlite":
            is_full = self._keep_sqlite_reserve()
        else:
            refused, self._refused = self._refused, False
            is_full = self._postgresql_reserve.keep(self.write, refused=refused)
        self.shortage = SHORTAGE.format(place=self._place) if is_full else ""

    def _keep_sqlite_reserve(self) -> bool:
        """Restore the reserve of a SQLite file if it is short; return whether the disk has no room for that."""
        with self.read() as connection:
            reserve = measure_reserve(connection)
        file = Path(self._place)
        short = is_short(reserve, self._reserve, file)
        is_full = short and not self._grow(choose_growth(reserve, self._reserve, file))
        # A journal that cannot be copied now is copied at the next step.
        with closing(self._engine.raw_connection()) as raw, suppress(self._engine.dialect.loaded_dbapi.Error):
            reuse_journal(raw)
        return is_full

    def _grow(self, growth: int) -> bool:
        """Enlarge the reserve by so many bytes; return False if the disk refuses, or if `growth` is 0."""
        try:
            if growth:
                # In two transactions: pages that are emptied at once are never written, so the disk may not have them.
                with self.write() as connection:
                    fill_reserve(connection, growth)
                with self.write() as connection:
                    free_reserve(connection)
        except StorageFull:
            return False
        return growth > 0

    def require_room(self) -> None:
        """Raise `StorageFull` while the room that is left is for changes of state only."""
        if self.shortage:
            raise StorageFull(self.shortage)

    def close(self) -> None:
        """Close all connections to the database."""
        self._engine.dispose()

    @contextmanager
    def _locked(self) -> Iterator[tuple[sa.Connection, int]]:
        """Provide a write transaction that holds the lock of the epoch, together with the stored epoch.

        Waits for other writers. Raises `StoreUnavailable` if the database is away.
        """
        self._refuse_while_away()
        with self._writer:
            self._refuse_while_away()  # the last holder of the lock may have noticed an outage
            with self._translated_errors(), self._writing.begin() as connection:
                yield connection, statements.lock_epoch(connection)

    def _require_epoch(self, epoch: int) -> None:
        if epoch != self._epoch:
            raise Superseded(self._epoch, epoch)

    def _refuse_while_away(self) -> None:
        if self._away is not None:
            raise StoreUnavailable(self._away.place, self._away.told)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise SQLAlchemy's errors in the block as errors of this package; note if the database is away.

        An error that is a defect is raised as it is.
        """
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            better = translate_error(error, self._place)
            if better is None:
                raise
            if isinstance(better, StoreUnavailable):
                self._away = better
            self._refused = self._refused or isinstance(better, StorageFull)
            raise better from error
