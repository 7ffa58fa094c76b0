"""Connections to PostgreSQL that give up on a silent server.

Rules
-----
1. Silence is counted here, while an answer is waited for. A server that is stopped, or whose disk hangs, still
   acknowledges what it is sent: no setting of the network notices, and the limits of the session are the server's own.
2. A connection that was silent for too long is closed. The server may yet carry out what it was told: `confirm` finds
   out.

See docs/decisions/0033-disconnect-from-a-silent-database.md.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import psycopg
import sqlalchemy as sa
from psycopg.abc import RV, PQGen

from jupyter_gq.domain.json_types import JsonObject

#: So many seconds without a sign of life, while an answer is waited for, and the server counts as away. It is less than
#: a leader may go without renewing its lease, together with a try to connect anew.
SILENCE = 5.0
#: How often it is looked.
_LOOK = 0.1


class PatientConnection(psycopg.Connection[tuple[object, ...]]):
    """A connection that gives up with an `OperationalError`, and is closed then."""

    #: In seconds; None: it waits as long as it takes.
    patience: float | None = SILENCE

    def wait(self, gen: PQGen[RV], interval: float = _LOOK, timeout: float | None = None) -> RV:
        """Carry out what the driver does on this connection."""
        return super().wait(self._impatiently(gen), interval=min(interval, _LOOK), timeout=timeout)

    def _impatiently(self, working: PQGen[RV]) -> PQGen[RV]:
        """Carry out the same, but end it after so much silence.

        The driver yields 0 if it has heard nothing for an interval.
        """
        silent = 0
        try:
            wanted = next(working)
            while True:
                heard = yield wanted
                silent = 0 if heard else silent + 1
                if self.patience is not None and silent * _LOOK >= self.patience:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"it has not said a word for {self.patience:g} s")
                wanted = working.send(heard)
        except StopIteration as done:
            result: RV = done.value
            return result


def connect(
    _dialect: object, _record: object, arguments: Sequence[str], named: JsonObject
) -> psycopg.Connection[tuple[object, ...]]:
    """Open a connection for SQLAlchemy, which calls this on `do_connect`."""
    return PatientConnection.connect(*arguments, **named)


@contextmanager
def as_long_as_it_takes(connection: sa.Connection) -> Iterator[None]:
    """Within this, and until its transaction ends at the server, neither end gives up."""
    patient = cast(PatientConnection, connection.connection.driver_connection)
    connection.execute(sa.text("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0"))
    patient.patience = None
    try:
        yield
    finally:
        patient.patience = SILENCE
