"""A PostgreSQL server that is there and says nothing: stopped in the middle, by SIGSTOP, and continued later.

Its kernel goes on acknowledging what arrives, so no timeout of the network sees it.
"""

import contextlib
import threading
import time

import pytest
import sqlalchemy as sa

from jupyter_gq.domain.errors import StatementCancelled, StoreUnavailable
from jupyter_gq.store import schema
from jupyter_gq.store.engine import _CONNECT
from jupyter_gq.store.silence_timeout import TimedConnection
from jupyter_gq.store.sql import SqlStore, _put_records
from tests.patience import scaled

from .test_postgresql import a_record, ids

#: Less than at work, so that the tests are quick; more on a slow machine, so that delays of the machine are less.
SILENCE_TIMEOUT = max(1, round(scaled(1)))
#: The longest that a caller waits: for an answer, and then for a new connection.
BOUND = 2 * SILENCE_TIMEOUT + _CONNECT


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr("jupyter_gq.store.silence_timeout.SILENCE_TIMEOUT", SILENCE_TIMEOUT)
    monkeypatch.setattr(TimedConnection, "silence_timeout", SILENCE_TIMEOUT)


@pytest.fixture(params=["socket", "network"])
def store(request, postgresql):
    url = postgresql.new_database()
    opened = SqlStore(url if request.param == "socket" else postgresql.tcp_url(sa.make_url(url).database))
    opened.take_over()
    yield opened
    opened.close()


def seconds(call):
    """How long it takes until the store says that its database is away."""
    began = time.monotonic()  # noqa: TID251 - what is measured is real silence
    with pytest.raises(StoreUnavailable):
        call()
    return time.monotonic() - began  # noqa: TID251


def test_a_frozen_server_counts_as_away_in_bounded_time_and_is_used_again_when_it_goes_on(store, postgresql):
    store.save([a_record("before")])
    with postgresql.frozen():
        assert seconds(lambda: store.save([a_record("lost")])) < BOUND
        assert seconds(store.unfinished) < SILENCE_TIMEOUT, (
            "only who confirms waits again, for at least as long as that"
        )
        assert seconds(store.confirm) < BOUND
    store.confirm()
    store.save([a_record("after")])
    assert ids(store) == {"before", "after"}


def test_who_waits_for_a_write_that_freezes_does_not_begin_to_wait_anew(store, postgresql):
    begun, frozen, failures = threading.Event(), threading.Event(), []

    def write():
        with store._database.write() as connection:
            begun.set()
            frozen.wait(scaled(30))
            connection.execute(sa.text("SELECT 1"))

    def keep_failure():
        try:
            write()
        except StoreUnavailable as error:
            failures.append(str(error))

    writing = threading.Thread(target=keep_failure)
    writing.start()
    assert begun.wait(scaled(30))
    with postgresql.frozen():
        frozen.set()
        assert seconds(lambda: store.save([a_record("next")])) < 2 * SILENCE_TIMEOUT
        writing.join()
    assert f"not said a word for {SILENCE_TIMEOUT} s" in failures[0]
    store.confirm()


@pytest.fixture
def hang_up(store, postgresql):
    """A write on which we hang up: its process of the server freezes with our COMMIT in its buffer; others answer."""
    with contextlib.ExitStack() as until_it_goes_on:

        def commit():
            with store._database.write() as connection:
                _put_records(connection, [a_record("kept after all")])
                # On a slow machine, the server would end a transaction that waits this long, and keep nothing.
                connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
                backend = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
                until_it_goes_on.enter_context(postgresql.frozen(backend))

        def hang_up():
            with pytest.raises(StoreUnavailable, match="not said a word"):
                commit()
            return until_it_goes_on

        yield hang_up


def test_nothing_is_believed_before_a_write_on_which_we_hung_up_has_come_to_its_end(store, hang_up):
    with hang_up(), pytest.raises(StoreUnavailable):
        store.confirm()
    store.confirm()
    assert ids(store) == {"kept after all"}


def test_nor_by_who_had_asked_before_we_hung_up(store, hang_up):
    """Whether the database is there is asked beside the loop, whose write can go wrong meanwhile."""
    held = []

    def once(connection, cursor, statement, *_):
        if "epoch" in statement and not held:
            held.append(None)
            held[0] = hang_up()

    sa.event.listen(store._database._engine, "after_cursor_execute", once)
    with pytest.raises(StoreUnavailable):
        store.confirm()
    held[0].close()
    store.confirm()
    assert ids(store) == {"kept after all"}


def test_a_migration_takes_as_long_as_it_takes(postgresql, monkeypatch):
    upgrade = schema.upgrade

    def slowly(connection):
        connection.execute(sa.text(f"SELECT pg_sleep({2 * SILENCE_TIMEOUT})"))
        upgrade(connection)

    monkeypatch.setattr(schema, "upgrade", slowly)
    store = SqlStore(postgresql.new_database())
    # On a slow machine, the server's own limit on a statement can come first.
    limit = pytest.raises((StatementCancelled, StoreUnavailable), match=r"not said a word|statement timeout")
    with limit, store._database.read() as connection:
        connection.execute(sa.text(f"SELECT pg_sleep({2 * SILENCE_TIMEOUT})"))
    store.close()
