"""What is particular to SQLite: full disks, wrong files, old and new schemas."""

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory

from jupyter_gq.domain.errors import AdminError, StorageFull
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload_detail import WorkloadDetail
from jupyter_gq.store.address import database_url, expect_file
from jupyter_gq.store.engine import find_file, make_sqlite_url, parse_url
from jupyter_gq.store.protocol import NewEvent, OutputPiece, Record
from jupyter_gq.store.reachability import expect_database, peek_setting
from jupyter_gq.store.schema import MIGRATIONS, NEWEST
from jupyter_gq.store.sql import SqlStore
from jupyter_gq.store.tables import metadata
from tests.builders import a_job
from tests.contract.small_disk import fill


def job(id):
    return Record(workload=a_job("digits", "vision", id=id), detail=WorkloadDetail(sentence="y" * 2000))


def save_many(store):
    for n in range(100):
        store.save([job(f"j{n}")], [NewEvent(at=1.0, owner="ann", kind="job", object="", payload={"n": n})])


def test_a_full_disk_is_reported_and_changes_nothing(small_disk):
    store = SqlStore(f"sqlite:///{small_disk}/service.sqlite")
    store.save([job("before")])
    store.append_outputs("before", [OutputPiece(seq=1, payload={"op": "run"})])
    store.put_file("before", "bundle", b"small")
    fill(small_disk)
    with pytest.raises(StorageFull):
        save_many(store)
    stored = len(store.unfinished())
    assert stored == len(store.events_after(0)) + 1, "workload and event are stored together or not at all"
    pieces = [OutputPiece(seq=n, payload={"text": "z" * 1000}) for n in range(2, 600)]
    with pytest.raises(StorageFull):
        store.append_outputs("before", pieces)
    assert store.last_seqs(["before"])["before"] == 1
    with pytest.raises(StorageFull):
        store.put_file("before", "bundle", b"x" * 700_000)
    assert store.file("before", "bundle") == b"small"
    (small_disk / "filler").unlink()
    store.save([job("after")])
    assert len(store.unfinished()) == stored + 1
    store.close()


def test_opening_on_a_full_disk_says_so_and_spoils_nothing(small_disk):
    url = f"sqlite:///{small_disk}/service.sqlite"
    store = SqlStore(url)
    store.save([job("before")])
    store.close()
    fill(small_disk)
    with pytest.raises(StorageFull):
        SqlStore(url)
    (small_disk / "filler").unlink()
    store = SqlStore(url)
    assert [record.workload.id for record in store.unfinished()] == ["before"]
    store.close()


def test_the_migrations_make_the_tables_that_the_code_uses(tmp_path):
    SqlStore(f"sqlite:///{tmp_path}/migrated.sqlite").close()
    made = sa.create_engine(f"sqlite:///{tmp_path}/made.sqlite")
    metadata.create_all(made)
    made.dispose()
    assert _shape(tmp_path / "migrated.sqlite") == _shape(tmp_path / "made.sqlite")


def _shape(file):
    engine = sa.create_engine(f"sqlite:///{file}")
    inspector = sa.inspect(engine)
    shape = {
        table: (
            {c["name"]: (str(c["type"]), c["nullable"]) for c in inspector.get_columns(table)},
            sorted(str(index["column_names"]) for index in inspector.get_indexes(table)),
            [key["referred_table"] for key in inspector.get_foreign_keys(table)],
        )
        for table in inspector.get_table_names()
        if table != "alembic_version"
    }
    engine.dispose()
    return shape


def test_the_newest_revision_is_the_one_that_opening_expects():
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_current_head() == NEWEST


def test_a_database_of_a_newer_release_is_left_alone(tmp_path):
    url = f"sqlite:///{tmp_path}/service.sqlite"
    SqlStore(url).close()
    with sqlite3.connect(tmp_path / "service.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(AdminError, match="9999"):
        SqlStore(url)


@pytest.mark.parametrize("host", ["/" + "long" * 20, "/srv/pg..old", "/srv/a,/srv/..b", "@" + "abstract" * 9])
def test_the_folder_of_a_socket_of_postgresql_is_no_name_of_a_machine(host):
    assert parse_url(f"postgresql://gq@/gq?host={host}").query["host"] == host


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file::memory:?uri=true"])
def test_a_database_in_memory_is_refused(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AdminError, match="needs a file"):
        SqlStore(url)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AdminError, match="file/service"):
        SqlStore(f"sqlite:///{tmp_path}/file/service.sqlite")


def test_a_database_that_cannot_be_seen_is_named_instead_of_a_traceback(tmp_path):
    """Such as one in a folder that the service may not enter, or with a name that is too long."""
    url = f"sqlite:///{tmp_path}/{'x' * 300}"
    assert peek_setting(url, "policy") is None
    for check in (expect_file, SqlStore, lambda each: expect_database(each, tmp_path, 1)):
        with pytest.raises(AdminError, match="x cannot be opened: File name too long"):
            check(url)


def test_a_usual_database_that_cannot_be_seen_is_named_instead_of_a_traceback(tmp_path, monkeypatch):
    """Such as one of another account; a loop of links stands for it, since root may look everywhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JUPYTER_GQ_DATABASE_URL", raising=False)
    (tmp_path / "jupyter-gq-state").symlink_to("jupyter-gq-state")
    for given in (None, "jupyter-gq-state"):
        with pytest.raises(AdminError, match="cannot be opened"):
            database_url(given)


def test_only_a_regular_file_or_a_link_to_one_is_the_file_of_a_database(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "none").symlink_to("missing")
    (tmp_path / "loop").symlink_to("loop")
    assert [find_file(tmp_path / name) for name in ("file", "link")] == [True, True]
    assert not any(find_file(tmp_path / name) for name in ("", "none", "missing", "file/below"))
    for name, why in (("loop", "Too many levels of symbolic links"), ("a\0b", "embedded null byte")):
        with pytest.raises(AdminError, match=why):
            find_file(tmp_path / name)


def test_the_url_of_a_file_leads_to_the_same_path_whatever_its_characters():
    for path in ("/srv/a b%41?c#d@e:f.sqlite", "gq.sqlite", "/srv/ü.sqlite"):
        assert parse_url(make_sqlite_url(Path(path))).database == path


def test_what_was_replaced_or_deleted_is_not_in_the_file_any_more(tmp_path, monkeypatch):
    """Some builds of SQLite keep it in free pages, unless they are told otherwise."""
    connect = sqlite3.dbapi2.connect

    def connect_as_such_builds(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.execute("PRAGMA secure_delete=OFF")
        return connection

    monkeypatch.setattr(sqlite3.dbapi2, "connect", connect_as_such_builds)
    path = tmp_path / "service.sqlite"
    store = SqlStore(f"sqlite:///{path}")
    store.save(
        [Record(workload=a_job("digits", "vision", id="before", state=State.SUCCEEDED), detail=WorkloadDetail())]
    )
    store.append_outputs("before", [OutputPiece(seq=1, payload={"text": "printed-token " * 2000})])
    store.put_setting("policy", {"password": "replaced-token " * 2000})
    store.put_setting("policy", {})
    while not store.delete_portion("before"):
        continue
    store.close()
    content = path.read_bytes()
    assert (content.count(b"printed-token"), content.count(b"replaced-token")) == (0, 0)


def test_a_url_of_a_folder_is_refused_and_the_folder_keeps_its_mode(tmp_path):
    folder = tmp_path / "gq"
    folder.mkdir(mode=0o755)
    before = folder.stat().st_mode
    with pytest.raises(AdminError, match="is no file"):
        SqlStore(f"sqlite:///{folder}")
    assert folder.stat().st_mode == before
