"""Connections to PostgreSQL that do not wait for ever for a server that says nothing.

Rules
-----
1. A server that is stopped, or whose disk hangs, still acknowledges what it is sent: no setting of the network notices,
   and the limits of the session are the server's own. So silence is counted here, while an answer is waited for.
2. Who was silent for too long is hung up on. What it was told may yet be carried out: that is for `confirm` to find.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import sqlalchemy as sa

#: So many seconds without a sign of life, while an answer is waited for, and the server counts as away. It is less than
#: a leader may go without renewing its lease, together with a try to connect anew.
SILENCE = 5.0
#: How often it is looked.
_LOOK = 0.1


class PatientConnection(psycopg.Connection[Any]):
    """Gives up with an `OperationalError`, and is closed then."""

    #: In seconds; None: it waits as long as it takes.
    patience: float | None = SILENCE

    def wait(self, gen: Generator[Any, Any, Any], *_: Any, **given: Any) -> Any:
        """Carry out what the driver does on this connection."""
        return super().wait(self._impatiently(gen), **{**given, "interval": _LOOK})

    def _impatiently(self, working: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The same, ended after so much silence; the driver says 0 when it has heard nothing for an interval."""
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
            return done.value


def connect(_dialect: Any, _record: Any, arguments: list[Any], named: dict[str, Any]) -> PatientConnection:
    """What SQLAlchemy calls for a new connection (`do_connect`)."""
    return PatientConnection.connect(*arguments, **named)


@contextmanager
def as_long_as_it_takes(connection: sa.Connection) -> Iterator[None]:
    """Within this, and until its transaction ends at the server, neither end gives up."""
    patient: Any = connection.connection.driver_connection
    connection.execute(sa.text("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0"))
    patient.patience = None
    try:
        yield
    finally:
        patient.patience = SILENCE
