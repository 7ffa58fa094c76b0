"""What is particular to PostgreSQL: a server that goes away and comes back, passwords, rights, a full disk."""

import logging
import secrets
import signal
import socket
import threading
import traceback
from dataclasses import replace

import pytest
import sqlalchemy as sa

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.errors import AdminError, StatementCancelled, StorageFull, StoreUnavailable
from jupyter_gq.domain.workload_detail import WorkloadDetail
from jupyter_gq.store import statements
from jupyter_gq.store.protocol import NewEvent, OutputPiece, Record
from jupyter_gq.store.reachability import check_reachable
from jupyter_gq.store.sql import SqlStore
from jupyter_gq.store.tables import metadata, outputs
from tests.builders import a_job
from tests.patience import scaled

from .small_disk import fill, mounted


@pytest.fixture
def url(postgresql):
    return postgresql.new_database()


@pytest.fixture
def store(url):
    opened = SqlStore(url)
    yield opened
    opened.close()


def a_record(id="digits"):
    return Record(workload=a_job("digits", "vision", id=id), detail=WorkloadDetail(warning="do not tell"))


def ids(store):
    return {record.workload.id for record in store.unfinished()}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_server_that_was_restarted_in_between_is_not_noticed(store, postgresql, how):
    store.save([a_record("before")])
    postgresql.stop(how)
    postgresql.start()
    store.save([a_record("after")])
    assert ids(store) == {"before", "after"}


def test_while_the_server_is_away_all_is_refused_and_afterwards_it_goes_on(store, postgresql):
    store.take_over()
    store.save([a_record("before")])
    postgresql.stop()
    for ask in (lambda: store.save([a_record("lost")]), store.unfinished, store.confirm, store.take_over):
        with pytest.raises(StoreUnavailable, match=f"at {postgresql.folder}:{postgresql.port} does not answer"):
            ask()
    postgresql.start()
    with pytest.raises(StoreUnavailable):
        store.unfinished()  # only who confirms waits for it
    store.confirm()
    store.save([a_record("after")])
    assert ids(store) == {"before", "after"}


def test_the_size_of_long_outputs_is_told_without_reading_them(store):
    store.save([a_record()])
    # A text that PostgreSQL keeps compressed apart from its row: whoever counts its characters reads all of it.
    store.append_outputs("digits", [OutputPiece(seq=n, payload={"text": "x" * 4_000_000}) for n in (1, 2)])
    with store._database.read() as connection:
        explained = "EXPLAIN (VERBOSE) " + str(
            sa.select(statements._length(connection, outputs.c.payload)).compile(dialect=connection.dialect)
        )
        plan = "\n".join(row[0] for row in connection.exec_driver_sql(explained))
    assert "octet_length" in plan
    assert store.output_size("digits").size == store.kept_size("digits") > 8_000_000


def test_whether_it_can_be_reached_is_asked_without_a_trace(url, postgresql):
    check_reachable(url)
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    assert sa.inspect(engine).get_table_names() == [], "who only waits changes no schema"
    engine.dispose()
    name = sa.make_url(url).database
    postgresql.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(StoreUnavailable, match="it can only be read"):
        check_reachable(url)
    postgresql.stop()
    try:
        with pytest.raises(StoreUnavailable, match="does not answer"):
            check_reachable(url)
    finally:
        postgresql.start()


def test_a_file_is_not_asked_for_and_a_wrong_url_is_told(tmp_path):
    check_reachable(f"sqlite:///{tmp_path}/none.sqlite")
    assert not list(tmp_path.iterdir())
    with pytest.raises(AdminError, match="cannot be read"):
        check_reachable("no url")


@pytest.mark.parametrize("how", ["terminated", "killed"])
def test_a_connection_that_breaks_in_a_write_leaves_nothing_of_it(store, postgresql, how):
    store.save([a_record("before")])

    def break_it(backend):
        if how == "terminated":
            postgresql.execute(f"SELECT pg_terminate_backend({backend}, 5000)")
        else:
            postgresql.stop()
            postgresql.start()

    with pytest.raises(StoreUnavailable):
        delete_everything(store, break_it)
    store.confirm()
    assert ids(store) == {"before"}


def delete_everything(store, before_the_end):
    with store._database.write() as connection:
        connection.execute(sa.delete(metadata.tables["workloads"]))
        (backend,) = connection.execute(sa.text("SELECT pg_backend_pid()")).one()
        before_the_end(backend)
        connection.execute(sa.text("SELECT 1"))


def test_a_write_that_waits_too_long_for_another_service_is_given_up(store, url, monkeypatch):
    """A service that ended without closing its connection holds its lock until the server notices."""
    monkeypatch.setattr("jupyter_gq.store.engine._SESSION", "SET lock_timeout = '100ms'")
    impatient = SqlStore(url)
    with store._database.write(), pytest.raises(StoreUnavailable, match="lock timeout"):
        impatient.save([a_record()])
    impatient.confirm()
    impatient.save([a_record()])
    impatient.close()


def test_a_statement_that_the_server_cancels_changes_nothing_and_is_no_outage(store, url, monkeypatch):
    monkeypatch.setattr("jupyter_gq.store.engine._SESSION", "SET statement_timeout = '100ms'")
    impatient = SqlStore(url)

    def write():
        with impatient._database.write() as connection:
            connection.execute(sa.delete(metadata.tables["workloads"]))
            connection.execute(sa.text("SELECT pg_sleep(60)"))

    store.save([a_record("before")])
    with pytest.raises(StatementCancelled, match="statement timeout"):
        write()
    assert ids(impatient) == {"before"}, "it is asked as before"
    impatient.save([a_record("after")])
    impatient.close()


def test_the_server_ends_what_a_vanished_service_left_open(url, monkeypatch):
    monkeypatch.setattr("jupyter_gq.store.engine._SESSION", "SET idle_in_transaction_session_timeout = '100ms'")
    vanished = SqlStore(url)
    monkeypatch.undo()
    next_one = SqlStore(url)
    begun, over, failures = threading.Event(), threading.Event(), []

    def hang(_):
        begun.set()
        over.wait(scaled(30))

    def write():
        try:
            delete_everything(vanished, hang)
        except StoreUnavailable as error:
            failures.append(error)

    hanging = threading.Thread(target=write)
    hanging.start()
    assert begun.wait(scaled(30))
    assert next_one.take_over() == 1
    over.set()
    hanging.join()
    assert failures
    vanished.close()
    next_one.close()


def test_a_server_that_has_become_a_copy_counts_as_away(store, postgresql, url):
    postgresql.execute(f"ALTER DATABASE {sa.make_url(url).database} SET default_transaction_read_only = on")
    copy = SqlStore(url)
    with pytest.raises(StoreUnavailable, match="read-only"):
        copy.save([a_record()])
    copy.close()


def test_a_server_that_cannot_be_reached_is_named_without_the_password(postgresql):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        told = told_by(f"postgresql://gq:hunter2@127.0.0.1:{port}/jobs")
    assert f"'jobs' at 127.0.0.1:{port} does not answer" in told
    assert "hunter2" not in told


def test_a_password_is_used_and_a_wrong_one_is_never_shown(postgresql, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    database = sa.make_url(postgresql.new_database()).database
    SqlStore(postgresql.tcp_url(database)).close()
    told = told_by(postgresql.tcp_url(database, password="hunter2"))
    assert "password authentication failed" in told
    assert "hunter2" not in told + caplog.text
    monkeypatch.setenv("PGPASSWORD", "p@ss/word")
    SqlStore(f"postgresql://gq@127.0.0.1:{postgresql.port}/{database}").close()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://gq:hunter2@host:port/jobs",
        "hunter2",
        "mysql://gq:hunter2@host/jobs",
        "postgresql://gq:hunter2@127.0.0.1/jobs?colour=red",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_showing_it(url):
    assert "hunter2" not in told_by(url, AdminError)


def told_by(url, kind=StoreUnavailable):
    """Everything that a log would show of the failure."""
    with pytest.raises(kind) as raised:
        SqlStore(url)
    return "".join(traceback.format_exception(raised.value))


def write_nowhere(store, secret):
    with store._database.write() as connection:
        connection.execute(sa.text("INSERT INTO nothing VALUES (:secret)"), {"secret": secret})


def test_what_could_not_be_written_is_not_quoted_in_the_error(store):
    secret = secrets.token_hex()
    with pytest.raises(sa.exc.SQLAlchemyError) as raised:
        write_nowhere(store, secret)
    assert secret not in "".join(traceback.format_exception(raised.value))


def test_a_user_without_rights_is_told_what_to_change(postgresql):
    name = sa.make_url(postgresql.new_database()).database
    postgresql.execute("DROP ROLE IF EXISTS guest")
    postgresql.execute("CREATE ROLE guest LOGIN PASSWORD 'p'")
    with pytest.raises(AdminError, match="Make its user the owner of the database"):
        SqlStore(postgresql.tcp_url(name, user="guest", password="p"))


def test_on_a_full_disk_states_are_stored_and_read_and_outputs_wait_for_room(postgresql):
    """Such as the cancellation and the end of each job; the same words as on SQLite."""
    folder = postgresql.folder / "reserved"
    with mounted(folder, "32m"):
        postgresql.own(folder)
        (inside := folder / "space").mkdir()
        postgresql.own(inside)
        postgresql.execute(f"CREATE TABLESPACE reserved LOCATION '{inside}'")
        store = SqlStore(postgresql.new_database("TABLESPACE reserved"), reserve=4 * 2**20)
        store.take_over()
        store.confirm()
        records = [a_record(f"job-{number}") for number in range(100)]
        store.save(records)
        fill(folder)
        with pytest.raises(StorageFull, match="refused a write"):
            store.append_outputs("job-0", [OutputPiece(seq=n, payload={"text": str(n) * 2000}) for n in range(1, 2000)])
        store.confirm()  # as the next step of the service does
        with pytest.raises(StorageFull, match="Work that runs goes on"):
            store.append_outputs("job-0", [OutputPiece(seq=1, payload={"text": "1"})])
        for run in range(1, 6):
            store.save([replace(record, workload=replace(record.workload, run=run)) for record in records])
            store.confirm()
        assert {record.workload.run for record in store.unfinished()} == {5}
        assert store.shortage
        (folder / "filler").unlink()
        for _ in range(20):
            store.confirm()
        assert not store.shortage
        assert store.append_outputs("job-0", [OutputPiece(seq=1, payload={"text": "1"})]) == 1
        store.close()
        postgresql.execute(f"DROP DATABASE {store._database._engine.url.database}")
        postgresql.execute("DROP TABLESPACE reserved")


def test_a_full_disk_is_reported_and_changes_nothing(postgresql, tmp_path):
    folder = postgresql.folder / "small"
    with mounted(folder, "24m"):
        postgresql.own(folder)
        inside = folder / "space"
        inside.mkdir()
        postgresql.own(inside)
        postgresql.execute(f"CREATE TABLESPACE small LOCATION '{inside}'")
        store = SqlStore(postgresql.new_database("TABLESPACE small"))
        store.save([a_record("before")])
        store.put_file("before", "bundle", b"small")
        fill(folder)
        with pytest.raises(StorageFull):
            store.put_file("before", "bundle", bytes(range(256)) * 16_384)
        pieces = [OutputPiece(seq=n, payload={"text": str(n) * 2000}) for n in range(1, 2000)]
        with pytest.raises(StorageFull):
            store.append_outputs("before", pieces)
        assert (store.file("before", "bundle"), store.last_seqs(["before"])["before"]) == (b"small", 0)
        (folder / "filler").unlink()
        event = NewEvent(at=Instant(1.0), owner=None, kind="job", object="", payload={})
        store.save([a_record("after")], [event])
        assert ids(store) == {"before", "after"}
        store.close()
        postgresql.execute(f"DROP DATABASE {store._database._engine.url.database}")
        postgresql.execute("DROP TABLESPACE small")
