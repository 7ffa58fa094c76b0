"""A saved state is complete or absent, whatever is killed, changed or started twice meanwhile."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from jupyter_gq.runner.pod.checkpoint_store import (
    FAILED,
    NOTHING_KEPT,
    CheckpointStore,
    TransientError,
    WrongAddress,
    main,
)


class Place:
    """A folder with checkpoints, and the URL of their copies."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder, self.copies = tmp_path / "checkpoint", tmp_path / "copies"
        self.folder.mkdir()
        self.url = self.copies.as_uri()

    def store(self, task: int = 0) -> CheckpointStore:
        return CheckpointStore(self.url, "job-1", task)

    def write(self, name: str, content: str, at: int = 1_000) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        os.utime(path, (at, at))

    def fetched(self, tmp_path: Path, task: int = 0) -> dict[str, str]:
        """Return the files that a new pod fetches."""
        folder = tmp_path / f"fresh-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        assert main(["down", str(folder), "job-1", "9", str(task)], self.url) == 0
        return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}

    def names(self, kind: str, task: int = 0) -> list[str]:
        return sorted(path.name for path in (self.copies / "job-1" / str(task)).glob(f"{kind}-*"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_store_without_a_saved_state_is_empty(place: Place, tmp_path: Path) -> None:
    assert place.fetched(tmp_path) == {}
    assert not place.store().save(place.folder, run=1)
    assert not place.names("saved")


def test_new_pod_finds_the_saved_files_with_their_times(place: Place, tmp_path: Path) -> None:
    place.write("model", "weights")
    place.write("deep/er", "more", at=2_000)
    assert place.store().save(place.folder, run=1)
    assert place.fetched(tmp_path) == {"model": "weights", "deep/er": "more"}
    fresh = tmp_path / "again"
    place.store().fetch(fresh)
    assert (fresh / "deep/er").stat().st_mtime == 2_000
    assert not place.store().save(fresh, run=2), "what was fetched is not copied again"


def test_only_changed_files_are_copied_and_superseded_ones_are_removed(place: Place, tmp_path: Path) -> None:
    place.write("large", "x")
    place.write("epoch", "1")
    place.store().save(place.folder, run=1)
    (_, large) = place.names("data")
    place.write("epoch", "2", at=2_000)
    (place.folder / "gone").touch()
    place.store().save(place.folder, run=1)
    (place.folder / "gone").unlink()
    place.write("epoch", "3", at=3_000)
    place.store().save(place.folder, run=1)
    assert place.fetched(tmp_path) == {"large": "x", "epoch": "3"}
    assert large in place.names("data")
    assert len(place.names("data")) == 2
    assert len(place.names("saved")) == 1


class PipeBreaks(Exception):
    """The error that stands for the kill of the process."""


@pytest.mark.parametrize("moment", ["pipe_file", "put_file", "rm_file"])
def test_kill_at_any_moment_leaves_a_complete_state(place: Place, tmp_path: Path, moment: str) -> None:
    place.write("a", "old")
    place.write("b", "old")
    place.store().save(place.folder, run=1)
    place.write("a", "new", at=2_000)
    place.write("b", "new", at=2_000)
    dying = place.store()
    real = getattr(dying._fs, moment)
    left = [1 if moment == "put_file" else 0]

    def dies(*given, **named):
        if not left[0]:
            raise PipeBreaks
        left[0] -= 1
        return real(*given, **named)

    setattr(dying._fs, moment, dies)
    try:
        with pytest.raises(PipeBreaks):
            dying.save(place.folder, run=1)
    finally:
        delattr(dying._fs, moment)  # file systems are shared by all that open the same
    whole = "new" if moment == "rm_file" else "old"
    assert place.fetched(tmp_path) == {"a": whole, "b": whole}
    place.store().save(place.folder, run=1)
    assert place.fetched(tmp_path) == {"a": "new", "b": "new"}


def test_a_list_that_is_cut_short_does_not_count(place: Place, tmp_path: Path) -> None:
    place.write("a", "old")
    place.store().save(place.folder, run=1)
    (place.copies / "job-1/0/saved-000001-00000002.json").write_text('{"files": {"a": {"na')
    assert place.fetched(tmp_path) == {"a": "old"}


def test_run_that_was_given_up_changes_nothing_when_it_comes_back(place: Place, tmp_path: Path) -> None:
    place.write("a", "of run 1")
    place.store().save(place.folder, run=1)
    place.write("a", "of run 2", at=2_000)
    place.store().save(place.folder, run=2)
    place.write("a", "late word of run 1", at=3_000)
    assert not place.store().save(place.folder, run=1)
    assert place.fetched(tmp_path) == {"a": "of run 2"}


def test_state_of_the_later_run_is_complete_if_two_runs_save_at_once(place: Place, tmp_path: Path) -> None:
    place.write("a", "of run 1")
    early = place.store()
    real = early._fs.pipe_file

    def the_later_was_faster(path: str, content: bytes) -> None:
        del early._fs.pipe_file
        place.write("a", "of run 2", at=2_000)
        place.store().save(place.folder, run=2)
        real(path, content)

    early._fs.pipe_file = the_later_was_faster
    assert early.save(place.folder, run=1)
    assert place.fetched(tmp_path) == {"a": "of run 2"}


def test_a_later_run_wins_whatever_its_number(place: Place, tmp_path: Path) -> None:
    for at in range(1, 12):
        place.write("a", str(at), at=at)
        place.store().save(place.folder, run=9)
    place.write("a", "of run 10", at=100)
    place.store().save(place.folder, run=10)
    assert place.fetched(tmp_path) == {"a": "of run 10"}


def test_each_task_begins_with_the_files_of_the_first_and_its_own_over_them(place: Place, tmp_path: Path) -> None:
    place.write("shared", "of task 0")
    place.write("shard", "0")
    place.store(0).save(place.folder, run=1)
    place.write("shard", "1")
    (place.folder / "shared").unlink()
    place.store(1).save(place.folder, run=1)
    assert place.fetched(tmp_path, task=1) == {"shared": "of task 0", "shard": "1"}
    assert place.fetched(tmp_path, task=0) == {"shared": "of task 0", "shard": "0"}


def test_file_that_keeps_changing_keeps_its_last_complete_copy(place: Place, tmp_path: Path) -> None:
    place.write("still", "1")
    place.write("restless", "whole")
    place.store().save(place.folder, run=1)
    place.write("still", "2", at=2_000)
    place.write("restless", "half", at=2_000)
    store = place.store()
    real = store._fs.put_file

    def changes_meanwhile(source: str, target: str) -> None:
        real(source, target)
        if source.endswith("restless"):
            place.write("restless", "x" * place.folder.joinpath("restless").stat().st_size + "x", at=3_000)

    store._fs.put_file = changes_meanwhile
    try:
        assert store.save(place.folder, run=1)
    finally:
        del store._fs.put_file
    assert place.fetched(tmp_path) == {"still": "2", "restless": "whole"}


def test_incomplete_copy_is_not_used(place: Place, tmp_path: Path) -> None:
    place.write("a", "whole")
    place.store().save(place.folder, run=1)
    (place.copies / "job-1/0" / place.names("data")[0]).write_text("wh")
    with pytest.raises(TransientError, match="is not whole"):
        place.store().fetch(tmp_path / "fresh")
    assert not (tmp_path / "fresh/a").exists()


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../out"])
def test_path_that_leads_out_of_the_folder_is_refused(place: Place, tmp_path: Path, name: str) -> None:
    place.write("a", "x")
    place.store().save(place.folder, run=1)
    (file,) = place.names("saved")
    path = place.copies / "job-1/0" / file
    files = json.loads(path.read_text())["files"]
    path.write_text(json.dumps({"files": {name: files["a"]}}))
    with pytest.raises(TransientError, match="is no path in a folder"):
        place.store().fetch(tmp_path / "fresh")


def test_store_without_folders_works(place: Place, tmp_path: Path) -> None:
    place.write("deep/er", "x")
    store = CheckpointStore("memory://bucket/jobs", "job-1", 0)
    assert store.find_newest().files == {}
    assert store.save(place.folder, run=1)
    assert CheckpointStore("memory://bucket/jobs", "job-1", 0).fetch(tmp_path / "fresh") == 1
    assert (tmp_path / "fresh/deep/er").read_text() == "x"


def test_error_for_an_image_without_fsspec_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(WrongAddress, match=r"lacks fsspec: install jupyter-gq\[checkpoints\] in it"):
        CheckpointStore("file:///x", "job-1", 0)


@pytest.mark.parametrize("url", ["somewhere", "foo://user:secret@host/x", "s3://secret/x"])
def test_error_for_an_unusable_url_does_not_show_its_secrets(url: str) -> None:
    with pytest.raises(WrongAddress) as told:
        CheckpointStore(url, "job-1", 0)
    assert "secret" not in str(told.value)


def continue_job(place: Place, tmp_path: Path, task: int = 0, run: int = 1) -> tuple[int, dict[str, str]]:
    """Let a pod of job-2 begin with the states of job-1; return the exit code, and the files that it finds."""
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    code = main(["down", str(folder), "job-2", str(run), str(task), "job-1"], place.url)
    return code, {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def states(place: Place, job: str) -> dict[str, bytes]:
    folder = place.copies / job
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_job_continues_from_a_copy_of_the_states_of_another_and_then_from_its_own(
    place: Place, tmp_path: Path
) -> None:
    place.write("model", "epoch 17")
    place.write("deep/er", "more")
    place.store().save(place.folder, run=3)
    before = states(place, "job-1")
    assert continue_job(place, tmp_path) == (0, {"model": "epoch 17", "deep/er": "more"})
    assert states(place, "job-1") == before
    own = CheckpointStore(place.url, "job-2", 0)
    place.write("model", "epoch 18", at=2_000)
    assert own.save(place.folder, run=1)
    assert states(place, "job-1") == before
    assert continue_job(place, tmp_path, run=2) == (0, {"model": "epoch 18", "deep/er": "more"})


def test_what_was_copied_outlives_the_earlier_job(place: Place, tmp_path: Path) -> None:
    place.write("model", "epoch 17")
    place.store().save(place.folder, run=1)
    continue_job(place, tmp_path)
    shutil.rmtree(place.copies / "job-1")
    assert continue_job(place, tmp_path, run=2) == (0, {"model": "epoch 17"})


def test_each_task_continues_from_its_own_states_and_those_of_the_first(place: Place, tmp_path: Path) -> None:
    place.write("model", "whole")
    place.store().save(place.folder, run=1)
    place.write("shard", "one")
    place.store(task=1).save(place.folder, run=1)
    # The pods may come in any order.
    assert continue_job(place, tmp_path, task=2) == (0, {"model": "whole"})
    assert continue_job(place, tmp_path, task=1) == (0, {"model": "whole", "shard": "one"})
    assert continue_job(place, tmp_path, task=0) == (0, {"model": "whole"})
    place.write("model", "later", at=5_000)
    (place.folder / "shard").unlink()
    CheckpointStore(place.url, "job-2", 0).save(place.folder, run=1)
    assert continue_job(place, tmp_path, task=2, run=2) == (0, {"model": "later"}), "no state of job-1 counts any more"


def test_a_store_that_cannot_be_read_for_a_moment_costs_no_state(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("model", "epoch 17")
    place.store().save(place.folder, run=1)
    assert continue_job(place, tmp_path) == (0, {"model": "epoch 17"})
    own = CheckpointStore(place.url, "job-2", 0)
    place.write("model", "epoch 30", at=2_000)
    own.save(place.folder, run=1)
    with monkeypatch.context() as broken:
        broken.setattr(type(own._fs), "cat_file", _fail_once(type(own._fs).cat_file))
        code, _ = continue_job(place, tmp_path, run=2)
    assert code == FAILED, "the pod tries again"
    assert continue_job(place, tmp_path, run=2) == (0, {"model": "epoch 30"})


def _fail_once(read):
    """Return a function that fails the first time for each file."""
    failed = set()

    def cat_file(self, path, *args, **options):
        if path not in failed:
            failed.add(path)
            raise TimeoutError("the store is slow")
        return read(self, path, *args, **options)

    return cat_file


@pytest.mark.parametrize("kept", ["nothing", "half an upload"])
def test_a_job_without_states_cannot_be_continued(place: Place, tmp_path: Path, kept: str) -> None:
    if kept == "half an upload":
        (place.copies / "job-1/0").mkdir(parents=True)
        (place.copies / "job-1/0/data-000001-00000001-000000").write_text("no list names it")
    assert continue_job(place, tmp_path) == (NOTHING_KEPT, {})


def test_a_copy_that_is_cut_short_counts_for_nothing(place: Place, tmp_path: Path) -> None:
    for name in ("a", "b"):
        place.write(name, name)
    place.store().save(place.folder, run=1)
    gone = place.names("data")[1]
    (place.copies / "job-1/0" / gone).rename(tmp_path / "gone")
    code, files = continue_job(place, tmp_path)
    assert (code, files) == (FAILED, {})
    assert not CheckpointStore(place.url, "job-2", 0).find_newest().number
    (tmp_path / "gone").rename(place.copies / "job-1/0" / gone)
    assert continue_job(place, tmp_path) == (0, {"a": "a", "b": "b"})


@pytest.mark.parametrize("copies", [True, False], ids=["copies by itself", "cannot copy"])
def test_a_store_without_folders_copies_too(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: bool
) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise NotImplementedError

    if not copies:
        monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.cp_file", refuse)
    url = f"memory://bucket/{copies}"
    place.write("deep/er", "x")
    CheckpointStore(url, "job-1", 0).save(place.folder, run=1)
    CheckpointStore(url, "job-2", 0).adopt(CheckpointStore(url, "job-1", 0), run=1)
    assert CheckpointStore(url, "job-2", 0).find_tasks() == [0]
    CheckpointStore(url, "job-2", 0).fetch(tmp_path / "fresh")
    assert (tmp_path / "fresh/deep/er").read_text() == "x"
