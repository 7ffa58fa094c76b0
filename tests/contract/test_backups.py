"""A backup is a file with the rows of one moment, and is restored as a whole or not at all.

The commands of docs/how-to/back-up-and-restore.md run here.
"""

import errno
import os
import pwd
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import closing

import pytest
import sqlalchemy as sa

from jupyter_gq.app import main
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.audit import Action, AuditEntry, AuditFilter
from jupyter_gq.domain.errors import AdminError, StorageFull, Superseded
from jupyter_gq.store import backups, copying, engine, schema
from jupyter_gq.store.folder_lock import lock_folder
from jupyter_gq.store.protocol import NewEvent
from jupyter_gq.store.rows import add_audit_entries
from jupyter_gq.store.sql import SqlStore
from jupyter_gq.store.transactions import Transactions
from tests.contract.filled import contents, fill

EVENT = NewEvent(at=Instant(1), owner="ann", kind="job", object="job-1", payload={})


@pytest.fixture(autouse=True)
def without_a_usual_database(tmp_path, monkeypatch):
    monkeypatch.delenv("JUPYTER_GQ_DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)


def test_a_backup_of_a_running_service_is_restored_into_either_kind_of_database(url, postgresql, tmp_path, capsys):
    store = fill(url)
    before = contents(store)
    file = tmp_path / "backup.sqlite"
    assert main(["backup", str(file), "--database", url]) == 0
    assert (
        "450 workloads, 350 outputs, 20 events, 1 audit entries, 1 settings, 1 files, 2 parts, 1 part uses."
        in capsys.readouterr().out
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    store.put_setting("policy", {"half_life": 1})  # the service goes on: nobody has taken over
    store.close()
    for target in (f"sqlite:///{tmp_path}/new.sqlite", postgresql.new_database()):
        assert main(["restore", str(file), target]) == 0
        restored = SqlStore(target)
        restored.take_over()
        assert contents(restored) == before
        assert restored.save([], [EVENT])[0].id == 451, "the numbers of events go on"
        restored.close()
    assert sorted(path.name for path in tmp_path.iterdir() if "backup" in path.name) == ["backup.sqlite"]


def test_the_audit_log_names_each_backup_restore_and_copy_with_the_account(url, tmp_path, capsys):
    fill(url).close()
    file, copied = tmp_path / "backup.sqlite", f"sqlite:///{tmp_path}/copy.sqlite"
    assert main(["backup", "backup.sqlite", "--database", url]) == 0
    assert main(["restore", str(file), url, "--replace", str(tmp_path / "kept.sqlite")]) == 0
    assert main(["copy-database", url, copied]) == 0
    store = SqlStore(copied)
    acts = [(entry.action, entry.actor, entry.object) for entry in store.audit(AuditFilter())]
    store.close()
    account = f"os/{pwd.getpwuid(os.getuid()).pw_name}"
    database = sa.make_url(url).database
    assert acts[:2] == [(Action.DATABASE_COPY, account, database), (Action.DATABASE_RESTORE, account, str(file))]
    kept = SqlStore(f"sqlite:///{tmp_path}/kept.sqlite")
    assert kept.audit(AuditFilter())[0].action is Action.DATABASE_BACKUP
    kept.close()


def test_a_backup_that_cannot_be_recorded_is_named_as_complete(url, tmp_path, monkeypatch, capsys):
    fill(url).close()

    def refuse(connection, entries):
        raise StorageFull("The disk is full.")

    monkeypatch.setattr(backups, "add_audit_entries", refuse)
    assert main(["backup", "backup.sqlite", "--database", url]) == 2
    assert (
        "is complete, but the audit log of the database does not name it: The disk is full." in capsys.readouterr().err
    )
    assert (tmp_path / "backup.sqlite").exists()


def test_a_restore_replaces_what_is_there_only_when_told_to_and_keeps_it(url, tmp_path, capsys):
    store = fill(url)
    yesterday, kept = tmp_path / "yesterday.sqlite", tmp_path / "kept.sqlite"
    backups.back_up(url, yesterday)
    before = contents(store)
    store.put_setting("policy", {"half_life": 1})
    today = contents(store)
    assert main(["restore", str(yesterday), url]) == 2
    assert "add --replace KEPT" in capsys.readouterr().err
    assert contents(store) == today
    assert main(["restore", str(yesterday), url, "--replace", str(kept)]) == 0
    assert contents(store) == before
    with pytest.raises(Superseded):
        store.put_setting("policy", {})  # a service that still ran ends, before it writes yesterday's state over
    store.close()
    again = SqlStore(f"sqlite:///{kept}")
    assert contents(again) == today
    again.close()


@pytest.mark.parametrize("name", ["b%41.sqlite", "what?now.sqlite", "a:b#1 c.sqlite"])
def test_a_file_is_written_under_the_name_that_was_given(tmp_path, name):
    """In the text of a URL, some of these characters would name another file."""
    folder = tmp_path / "odd%20 ?#"
    folder.mkdir()
    full, file = fill_and_close(f"sqlite:///{tmp_path}/full.sqlite"), folder / name
    assert main(["backup", str(file), "--database", full]) == 0
    assert main(["restore", str(file), str(folder / f"new-{name}")]) == 0
    assert main(["backup", str(folder / "again"), "--database", str(folder / f"new-{name}")]) == 0
    assert {each.name for each in folder.iterdir()} == {name, f"new-{name}", "again"}
    assert {each.name for each in tmp_path.iterdir()} >= {"full.sqlite", folder.name}


def test_a_restore_into_a_folder_is_refused_in_a_sentence(tmp_path, capsys):
    backups.back_up(fill_and_close(f"sqlite:///{tmp_path}/full.sqlite"), tmp_path / "backup.sqlite")
    assert main(["restore", "backup.sqlite", str(tmp_path)]) == 2
    assert f"{tmp_path} is a folder, so nothing was restored" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["restore", "backup.sqlite", "jupyter-gq-state/service.sqlite", "--replace", "kept.sqlite"],
        ["copy-database", "jupyter-gq-state/service.sqlite", "sqlite:///new.sqlite"],
        ["copy-database", "backup.sqlite", "sqlite:///jupyter-gq-state/new.sqlite"],
    ],
)
def test_a_database_of_a_running_service_is_neither_replaced_nor_copied(tmp_path, capsys, arguments):
    state = tmp_path / "jupyter-gq-state"
    with lock_folder(state), closing(fill(f"sqlite:///{state}/service.sqlite")) as store:
        assert main(["backup", "backup.sqlite"]) == 0
        assert main(arguments) == 2
        assert f"A scheduler service works in the folder {state}" in capsys.readouterr().err
        assert not list(tmp_path.glob("kept*")) + list(tmp_path.rglob("new*"))
        store.put_setting("policy", {"half_life": 2})  # the service still writes
    assert main(arguments) == 0


def test_a_database_on_postgresql_of_a_running_service_is_neither_replaced_nor_copied(postgresql, tmp_path, capsys):
    backups.back_up(fill_and_close(f"sqlite:///{tmp_path}/full.sqlite"), tmp_path / "backup.sqlite")
    url = postgresql.new_database()
    with closing(SqlStore(url, program=engine.SERVICE)) as store:
        store.put_setting("policy", {"half_life": 1})
        for arguments in (
            ["restore", "backup.sqlite", url, "--replace", "kept.sqlite"],
            ["copy-database", url, "sqlite:///new.sqlite"],
        ):
            assert main(arguments) == 2
            assert "A scheduler service is connected to the database" in capsys.readouterr().err
        assert not list(tmp_path.glob("kept*")) + list(tmp_path.glob("new*"))
        store.put_setting("policy", {"half_life": 2})  # the service still writes
    assert main(["restore", "backup.sqlite", url, "--replace", "kept.sqlite"]) == 0


def fill_and_close(url):
    fill(url).close()
    return url


def test_a_restore_without_a_name_makes_the_missing_database_of_the_service(tmp_path, capsys):
    fill(f"sqlite:///{tmp_path}/old.sqlite").close()
    assert main(["backup", "backup.sqlite", "--database", "old.sqlite"]) == 0
    assert main(["restore", "backup.sqlite"]) == 2
    assert "There is no jupyter-gq-state/service.sqlite in this folder" in capsys.readouterr().err
    (tmp_path / "jupyter-gq-state").mkdir()
    assert main(["restore", "backup.sqlite"]) == 0
    assert (tmp_path / "jupyter-gq-state" / "service.sqlite").is_file()


def test_a_refused_restore_ends_no_service(url, tmp_path):
    store = fill(url)
    backups.back_up(url, tmp_path / "backup.sqlite")
    (tmp_path / "taken").touch()
    for kept in (None, tmp_path / "taken", tmp_path / "no" / "folder"):
        with pytest.raises(AdminError, match=r"nothing was restored|no backup was made"):
            backups.restore(tmp_path / "backup.sqlite", url, kept=kept)
    store.put_setting("policy", {"half_life": 2})  # the service still writes
    store.close()


def an_entry(number):
    return AuditEntry(at=Instant(number), actor="root", action=Action.SETTINGS_CHANGE, object="hub.py")


def test_what_is_written_during_a_restore_is_in_the_kept_file_or_in_the_restored_database(url, tmp_path, monkeypatch):
    fill(url).close()
    backups.back_up(url, tmp_path / "yesterday.sqlite")
    keep, written = backups._write, []

    def write():
        with closing(Transactions(url)) as other, other.append() as connection:
            add_audit_entries(connection, [an_entry(99)])
        written.append(99)

    beside = threading.Thread(target=write)

    def then_write(database, file):
        rows = keep(database, file)
        beside.start()
        beside.join(0.2)  # until it has written, or waits for the lock
        return rows

    monkeypatch.setattr(backups, "_write", then_write)
    monkeypatch.setattr(threading, "excepthook", lambda told: None)  # it may be refused, and is not written then
    backups.restore(tmp_path / "yesterday.sqlite", url, kept=tmp_path / "kept.sqlite")
    beside.join()
    found = []
    for database in (url, f"sqlite:///{tmp_path}/kept.sqlite"):
        store = SqlStore(database)
        found += [int(entry.at) for entry in store.audit(AuditFilter(actor="root")) if entry.at == 99]
        store.close()
    assert found == written


def test_a_database_that_a_service_keeps_locked_is_not_restored(url, tmp_path, monkeypatch, capsys):
    store = fill(url)
    backups.back_up(url, tmp_path / "backup.sqlite")
    before = contents(store)
    monkeypatch.setattr(engine, "BUSY_MS", 100)
    with store._database.write():
        assert main(["restore", "backup.sqlite", url, "--replace", str(tmp_path / "kept.sqlite")]) == 2
    told = capsys.readouterr().err
    assert sa.make_url(url).database in told
    assert "no other program keeps it locked" in told
    assert not (tmp_path / "kept.sqlite").exists()
    assert contents(store) == before
    store.put_setting("policy", {"half_life": 2})  # the service goes on
    store.close()


def revision_of(url):
    opened = engine.open_engine(url)
    with opened.connect() as connection:
        found = schema.revision(connection)
    opened.dispose()
    return found


@pytest.mark.parametrize("arguments", [["restore", "full.sqlite"], ["copy-database", "full.sqlite"]])
def test_a_refused_restore_or_copy_leaves_the_schema_as_it_is(url, tmp_path, capsys, arguments):
    fill(f"sqlite:///{tmp_path}/full.sqlite").close()
    opened = engine.open_engine(url)
    with opened.begin() as connection:
        schema.upgrade(connection, to="0001")
        connection.execute(sa.text("INSERT INTO settings (name, value) VALUES ('policy', '{}')"))
    opened.dispose()
    assert main([*arguments, url]) == 2
    assert "holds something already (1 settings)" in capsys.readouterr().err
    assert revision_of(url) == "0001"


def test_a_database_of_a_newer_release_is_not_replaced(url, tmp_path, capsys):
    fill(f"sqlite:///{tmp_path}/full.sqlite").close()
    store = fill(url)
    with store._database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    before = contents(store)
    assert main(["restore", "full.sqlite", url, "--replace", "kept.sqlite"]) == 2
    told = capsys.readouterr().err
    assert f"The database {engine.describe_database(store._database._engine)} has the schema 9999" in told
    assert not (tmp_path / "kept.sqlite").exists()
    assert (contents(store), revision_of(url)) == (before, "9999")
    store.close()


@pytest.mark.parametrize(
    "arguments",
    [["backup", "new.sqlite", "--database", "old.sqlite"], ["copy-database", "old.sqlite", "sqlite:///new.sqlite"]],
)
def test_the_damaged_database_is_named_and_not_the_one_that_is_written(tmp_path, capsys, arguments):
    fill(f"sqlite:///{tmp_path}/old.sqlite").close()
    with sqlite3.connect(tmp_path / "old.sqlite") as connection:
        page = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'files'").fetchone()[0]
    with open(tmp_path / "old.sqlite", "r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(os.urandom(4096))
    assert main(arguments) == 2
    assert f"The database {tmp_path}/old.sqlite is damaged" in capsys.readouterr().err


def test_a_restore_that_fails_leaves_no_new_database(tmp_path, monkeypatch):
    """A service would take it for an empty one, and begin without the jobs whose folders it finds."""
    fill(f"sqlite:///{tmp_path}/old.sqlite").close()

    def until_the_disk_is_full(source, target):
        raise StorageFull("The disk is full.")

    monkeypatch.setattr(backups, "copy_rows", until_the_disk_is_full)
    with pytest.raises(StorageFull):
        backups.restore(tmp_path / "old.sqlite", f"sqlite:///{tmp_path}/new.sqlite")
    assert list(tmp_path.glob("new*")) == []


def test_a_backup_needs_no_hard_links_and_never_replaces_a_file(tmp_path, monkeypatch):
    """As on exFAT, SMB and many file systems of FUSE."""

    def no_links(*given, **options):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    url, file = f"sqlite:///{tmp_path}/service.sqlite", tmp_path / "backup.sqlite"
    fill(url).close()
    backups.back_up(url, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    copied = copying.copy_rows

    def while_a_file_comes(source, target):
        (tmp_path / "new.sqlite").write_text("precious")
        return copied(source, target)

    monkeypatch.setattr(backups, "copy_rows", while_a_file_comes)
    with pytest.raises(AdminError, match="exists already"):
        backups.back_up(url, tmp_path / "new.sqlite")
    assert (tmp_path / "new.sqlite").read_text() == "precious"


def test_a_restore_that_breaks_off_changes_nothing(url, tmp_path, monkeypatch):
    store = fill(url)
    backups.back_up(url, tmp_path / "backup.sqlite")
    store.put_setting("policy", {"half_life": 1})
    today = contents(store)
    copied = copying._copy

    def until_the_files(old, new, table, size):
        if table.name == "files":
            raise AdminError("The power is cut.")
        return copied(old, new, table, size)

    monkeypatch.setattr(copying, "_copy", until_the_files)
    with pytest.raises(AdminError, match="power"):
        backups.back_up(url, tmp_path / "another.sqlite")
    assert sorted(tmp_path.glob("*another*")) == []
    monkeypatch.undo()
    kept, calls = tmp_path / "kept.sqlite", []

    def on_the_second_copy(old, new, table, size):
        calls.append(table.name)
        return (until_the_files if calls.count("workloads") == 2 else copied)(old, new, table, size)

    monkeypatch.setattr(copying, "_copy", on_the_second_copy)
    with pytest.raises(AdminError, match="power"):
        backups.restore(tmp_path / "backup.sqlite", url, kept=kept)
    assert contents(store) == today
    store.close()


def test_a_backup_holds_one_state_whoever_writes_meanwhile(url, tmp_path, monkeypatch):
    store = fill(url)
    copied = copying._copy

    def with_a_writer_beside(old, new, table, size):
        if table.name == "events":
            writer = threading.Thread(target=store.save, args=([], [EVENT]))
            writer.start()
            writer.join()
        return copied(old, new, table, size)

    monkeypatch.setattr(copying, "_copy", with_a_writer_beside)
    assert backups.back_up(url, tmp_path / "backup.sqlite")["events"] == 20
    assert len(store.events_after(0)) == 21
    store.close()


def damage(file, how):
    """Break a file as a disk, a crash or an editor does."""
    content = bytearray(file.read_bytes())
    if how == "header":
        content[:16] = b"not a database!!"
    elif how == "pages":
        for page in range(4096 * 3, len(content), 4096):
            content[page : page + 64] = os.urandom(64)
    elif how == "half":
        del content[len(content) // 2 :]
    elif how == "text":
        content = bytearray(b"{}\n")
    file.write_bytes(content)


@pytest.mark.parametrize("how", ["header", "pages", "half", "text"])
def test_a_damaged_file_is_named_as_database_and_refused_as_backup(tmp_path, how, capsys):
    url, file = f"sqlite:///{tmp_path}/service.sqlite", tmp_path / "service.sqlite"
    fill(url).close()
    damage(file, how)
    with pytest.raises(AdminError, match=rf"The database {file} is damaged .*jupyter-gq restore BACKUP"):
        SqlStore(url).check_pages()
    assert main(["restore", str(file), f"sqlite:///{tmp_path}/new.sqlite"]) == 2
    assert "othing was restored" in capsys.readouterr().err
    assert not (tmp_path / "new.sqlite").exists()


def a_file_of_another_kind(folder):
    with sqlite3.connect(folder / "other.sqlite") as connection:
        connection.execute("CREATE TABLE recipes (id INTEGER)")


def an_older_schema(folder):
    fill(f"sqlite:///{folder}/old.sqlite").close()
    with sqlite3.connect(folder / "old.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0001'")


def a_newer_schema(folder):
    fill(f"sqlite:///{folder}/newer.sqlite").close()
    with sqlite3.connect(folder / "newer.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["backup", "new"], "Which database?"),
        (["backup", "new", "--database", "nowhere.sqlite"], "There is no database at"),
        (["backup", "full.sqlite", "--database", "full.sqlite"], "exists already, so no backup was made"),
        (["backup", "no/folder/new", "--database", "full.sqlite"], "There is no folder no/folder"),
        (["backup", "new", "--database", "other.sqlite"], "is no database of jupyter-gq"),
        (["backup", "new", "--database", "old.sqlite"], "has the schema 0001 of an older release"),
        (["backup", "new", "--database", "newer.sqlite"], "which this release does not know"),
        (["restore", "nowhere", "new.sqlite"], "could not be read: No such file or directory"),
        (["restore", "other.sqlite", "new.sqlite"], "is no backup of jupyter-gq: it has none of its tables"),
        (["restore", "newer.sqlite", "new.sqlite"], "which this release does not know"),
        (["restore", "full.sqlite", "hunter2://gq:hunter2@host/jobs"], "There is no store on"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence_and_leaves_nothing(tmp_path, capsys, arguments, sentence):
    fill(f"sqlite:///{tmp_path}/full.sqlite").close()
    for make in (a_file_of_another_kind, an_older_schema, a_newer_schema):
        make(tmp_path)
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert "gq:hunter2" not in told
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "new.sqlite").exists()


def test_a_backup_of_an_older_release_is_restored_and_stays_as_it_is(tmp_path, capsys):
    old = tmp_path / "old.sqlite"
    made = sa.create_engine(f"sqlite:///{old}")
    with made.begin() as connection:
        schema.upgrade(connection, to="0001")
        connection.exec_driver_sql("INSERT INTO settings (name, value) VALUES ('policy', '{}')")
    made.dispose()
    before = old.read_bytes()
    assert main(["restore", str(old), f"sqlite:///{tmp_path}/new.sqlite"]) == 0
    assert "1 settings" in capsys.readouterr().out
    assert old.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "sentences"),
    [
        ("backup new.sqlite --database full.sqlite", ["The backup new.sqlite could not be written. The disk with"]),
        ("restore full.sqlite new.sqlite", ["A copy of the backup could not be written to", "File too large. Nothing"]),
    ],
)
def test_a_file_that_may_not_grow_is_named_as_the_one_that_was_written(tmp_path, arguments, sentences):
    fill(f"sqlite:///{tmp_path}/full.sqlite").close()
    command = f"ulimit -f 512; exec {sys.executable} -m jupyter_gq.app {arguments}"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    for sentence in [*sentences, "raise this limit (ulimit -f)"]:
        assert sentence in done.stderr
    assert "could not be read" not in done.stderr
    assert list(tmp_path.glob("*new*")) == []


def test_a_restore_without_a_folder_for_its_copy_is_refused_with_a_sentence(tmp_path, monkeypatch, capsys):
    fill(f"sqlite:///{tmp_path}/full.sqlite").close()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    assert main(["restore", "full.sqlite", "new.sqlite"]) == 2
    told = capsys.readouterr().err
    assert f"The temporary folder {tmp_path}/gone/" in told
    assert "could not be made: No such file or directory" in told


def test_a_backup_that_cannot_be_looked_at_is_refused_in_a_sentence(capsys):
    name = "x" * 300  # root, as which tests may run, may enter every folder
    assert main(["restore", name, "new.sqlite"]) == 2
    told = capsys.readouterr().err
    assert f"The backup {name} could not be read: File name too long. Nothing was restored." in told


def test_a_backup_that_is_a_pipe_is_refused_instead_of_waited_for(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert main(["restore", "pipe", "new.sqlite"]) == 2
    assert "The backup pipe could not be read: it is not a file." in capsys.readouterr().err
