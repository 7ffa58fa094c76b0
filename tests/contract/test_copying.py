"""Everything is taken along from a SQLite file to PostgreSQL, and back; or nothing, and a sentence says why."""

import pytest

from jupyter_gq.app import main
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.errors import AdminError, Superseded
from jupyter_gq.store import copying
from jupyter_gq.store.protocol import NewEvent
from jupyter_gq.store.sql import SqlStore
from tests.contract.filled import contents, fill


@pytest.fixture
def old(tmp_path):
    return f"sqlite:///{tmp_path}/old.sqlite"


@pytest.fixture
def new(postgresql):
    return postgresql.new_database()


def test_all_is_taken_along_there_and_back_and_the_numbers_go_on(old, new, tmp_path, capsys, monkeypatch):
    store = fill(old)
    before = contents(store)
    monkeypatch.setenv("JUPYTER_GQ_DATABASE_URL", new)
    assert main(["copy-database", old]) == 0
    told = "Copied: 450 workloads, 350 outputs, 20 events, 1 audit entries, 1 settings, 1 files, 2 parts, 1 part uses."
    assert told in capsys.readouterr().out
    with pytest.raises(Superseded):
        store.put_setting("policy", {})  # a service that was not ended ends, before the two differ
    assert contents(store) == before, "the old one keeps all"
    store.close()
    copied = SqlStore(new)
    copied.take_over()
    assert contents(copied) == before
    event = NewEvent(at=Instant(1), owner="ann", kind="job", object="job-1", payload={})
    (stored,) = copied.save([], [event])
    assert stored.id == 451
    copied.close()
    assert main(["copy-database", new, f"sqlite:///{tmp_path}/back.sqlite"]) == 0
    back = SqlStore(f"sqlite:///{tmp_path}/back.sqlite")
    back.take_over()
    assert contents(back)[:3] == before[:3]
    assert back.save([], [event])[0].id == 452
    back.close()


def test_a_copy_that_breaks_off_leaves_nothing_and_can_be_made_again(old, new, monkeypatch, capsys):
    fill(old).close()
    copied = copying._copy

    def until_the_files(old, new, table, size):
        if table.name == "files":
            raise AdminError("The power is cut.")
        return copied(old, new, table, size)

    monkeypatch.setattr(copying, "_copy", until_the_files)
    assert main(["copy-database", old, new]) == 2
    monkeypatch.undo()
    assert main(["copy-database", old, new]) == 0
    assert "450 workloads" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "target", "sentence"),
    [
        (
            "{old}",
            "{old}",
            "holds something already (450 workloads, 350 outputs, 20 events, 1 audit entries, 1 settings, 1 files, "
            "2 parts, 1 part uses)",
        ),
        ("sqlite:///nowhere.sqlite", "{new}", "There is no database at 'nowhere.sqlite'."),
        ("{old}", "postgresql://gq:hunter2@127.0.0.1:1/jobs", "'jobs' at 127.0.0.1:1 could not be used"),
        ("{old}", "postgresql+psycopg://gq:p@hunter2@127.0.0.1/jobs", "@ : / and % are written as %40 %3A %2F %25."),
        ("{old}", "hunter2", "The URL of the database cannot be read."),
        ("{old}", "", "Copy to which database?"),
    ],
)
def test_what_cannot_be_copied_is_refused_with_a_sentence(
    old, new, capsys, monkeypatch, tmp_path, source, target, sentence
):
    monkeypatch.delenv("JUPYTER_GQ_DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    fill(old).close()
    assert main(["copy-database", source.format(old=old), target.format(old=old, new=new)]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert "hunter2" not in told
    assert not (tmp_path / "nowhere.sqlite").exists()
