"""Transactions on the database: one writer at a time, and no writer that has been replaced.

Rules
-----
1. Order. Writers of all processes come one after the other: on SQLite by its lock, on PostgreSQL by the lock of the row
   that holds the epoch. So events have increasing ids in the order in which they can be read.
2. Epoch. A write names the epoch of this object. If another has taken over since, the write raises `Superseded` and
   changes nothing: the epoch is compared under the lock, in the transaction of the write.
3. Outage. Once a transaction has failed because the database is away, all are refused at once, until `confirm` has
   reached it: only `confirm` waits for a database that does not answer.
4. Late writes. `confirm` then waits for the lock of the epoch: a server that was silent may yet carry out the end of a
   write on which we hung up.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from jupyter_gq.domain.errors import DamagedDatabase, StoreUnavailable, Superseded

from . import statements
from .engine import WRITES, open_engine, place_of
from .failures import named
from .schema import expect_newest, migrate


class Transactions:
    """The transactions on the database at `url`.

    The database is brought to the present schema first. With `read_only` nothing is changed, and `AdminError` is raised
    if the schema is another one.
    """

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self._engine = open_engine(url)
        self._place = place_of(self._engine)
        self._writing = self._engine.execution_options(**{WRITES: True})
        # Without the lock two threads of ours would wait in SQLite's busy loop, which sleeps.
        self._writer = threading.Lock()
        #: Epoch that this object's writes name; 0 if nobody ever took over.
        self._epoch = 0
        #: Why the database is away; None while it answers.
        self._away: StoreUnavailable | None = None
        try:
            if read_only:
                with self._failures_named(), self._engine.connect() as connection:
                    expect_newest(connection, self._place)
            else:
                with self._failures_named(), self._writing.begin() as connection:
                    migrate(connection)
        except BaseException:
            self._engine.dispose()
            raise

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Begin a transaction that only reads."""
        self._refuse_while_away()
        with self._failures_named(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Begin a transaction that reads one state of the database, however long it takes and whoever writes beside."""
        self._refuse_while_away()
        with self._failures_named(), self._engine.connect() as connection:
            if connection.dialect.name == "postgresql":  # a transaction of SQLite always reads one state
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    def check_pages(self) -> None:
        """Read every page of a SQLite file; raise `DamagedDatabase` if one is damaged.

        PostgreSQL checks its pages itself, whenever it reads them.
        """
        if self._engine.dialect.name != "sqlite":
            return
        with self.read() as connection:
            told = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one())
        if told != "ok":
            raise DamagedDatabase(self._place, " ".join(told.split()))

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """Begin a transaction that writes, unless another has taken over."""
        with self._locked() as (connection, epoch):
            self._compare(epoch)
            yield connection

    def take_over(self) -> int:
        """Become the writer; all others get `Superseded` from now on."""
        with self._locked() as (connection, epoch):
            statements.set_epoch(connection, epoch + 1)
            # Nobody else is between keeping a file and saving its workload: a file without a workload was left behind.
            statements.delete_files_of_nobody(connection)
        self._epoch = epoch + 1
        return self._epoch

    def confirm(self) -> None:
        """Reach the database and check that nobody has taken over; else raise `StoreUnavailable` or `Superseded`."""
        if self._away is None:
            with self._failures_named(), self._engine.connect() as connection:
                epoch = statements.epoch(connection)
        # Asked again: this is called beside other threads, and meanwhile a write of theirs may have failed.
        if (away := self._away) is not None:
            with self._failures_named(), self._writing.begin() as connection:
                epoch = statements.lock_epoch(connection)
            if self._away is away:
                self._away = None
        self._compare(epoch)

    def close(self) -> None:
        """Release the database."""
        self._engine.dispose()

    @contextmanager
    def _locked(self) -> Iterator[tuple[sa.Connection, int]]:
        self._refuse_while_away()
        with self._writer:
            self._refuse_while_away()  # the last holder of the lock may have found out
            with self._failures_named(), self._writing.begin() as connection:
                yield connection, statements.lock_epoch(connection)

    def _compare(self, epoch: int) -> None:
        if epoch != self._epoch:
            raise Superseded(self._epoch, epoch)

    def _refuse_while_away(self) -> None:
        if self._away is not None:
            raise StoreUnavailable(self._away.place, self._away.told)

    @contextmanager
    def _failures_named(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            better = named(error, self._place)
            if better is None:
                raise
            if isinstance(better, StoreUnavailable):
                self._away = better
            raise better from error
