"""Connections to PostgreSQL that give up on a silent server.

Rules
-----
Counted here: silence is counted while an answer is awaited. A server that is stopped, or whose disk hangs, still
acknowledges what it is sent. So no setting of the network notices, and the limits of the session are the server's own.

Closed afterwards: a connection that was silent for too long is closed. The server may still carry out the last
statement; `Transactions.confirm` finds out.

See docs/decisions/0033-disconnect-from-a-silent-database.md.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import psycopg
import sqlalchemy as sa
from psycopg.abc import RV, PQGen

from jupyter_gq.domain.json_types import JsonObject

#: Seconds of silence, while an answer is awaited, after which the server counts as away. Together with an attempt to
#: connect again they are less than the time within which a leader must renew its lease.
SILENCE_TIMEOUT = 5.0
#: Seconds between two checks for silence.
_CHECK_INTERVAL = 0.1


class TimedConnection(psycopg.Connection[tuple[object, ...]]):
    """A connection that is closed, with an `OperationalError`, if the server is silent for too long."""

    #: In seconds; None = no timeout.
    silence_timeout: float | None = SILENCE_TIMEOUT

    def wait(self, gen: PQGen[RV], interval: float = _CHECK_INTERVAL, timeout: float | None = None) -> RV:
        """Run an operation of the driver with the silence timeout; psycopg calls this for every operation."""
        return super().wait(self._with_silence_timeout(gen), interval=min(interval, _CHECK_INTERVAL), timeout=timeout)

    def _with_silence_timeout(self, working: PQGen[RV]) -> PQGen[RV]:
        """Run an operation; close the connection and raise `OperationalError` if the server is silent for too long.

        The driver is resumed with 0 if the server sent nothing during an interval.
        """
        silent = 0
        try:
            wanted = next(working)
            while True:
                heard = yield wanted
                silent = 0 if heard else silent + 1
                if self.silence_timeout is not None and silent * _CHECK_INTERVAL >= self.silence_timeout:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"it has not said a word for {self.silence_timeout:g} s")
                wanted = working.send(heard)
        except StopIteration as done:
            result: RV = done.value
            return result


def connect(
    _dialect: object, _record: object, arguments: Sequence[str], keywords: JsonObject
) -> psycopg.Connection[tuple[object, ...]]:
    """Open a `TimedConnection`; SQLAlchemy calls this on its event `do_connect`."""
    return TimedConnection.connect(*arguments, **keywords)


@contextmanager
def without_timeouts(connection: sa.Connection) -> Iterator[None]:
    """Switch a connection's timeouts off: ours until the end of the block, the server's until the transaction ends."""
    timed = cast(TimedConnection, connection.connection.driver_connection)
    limits = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
    connection.execute(sa.text("; ".join(f"SET LOCAL {limit} = 0" for limit in limits)))
    earlier, timed.silence_timeout = timed.silence_timeout, None  # blocks may be nested
    try:
        yield
    finally:
        timed.silence_timeout = earlier
