"""The files of a run are complete or absent, and a result is written even to a full disk."""

import json
import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from jupyter_gq.runner.cells.kernel import describe_exit, make_socket_folder
from jupyter_gq.runner.files.folder import RunFolder, write_whole
from jupyter_gq.runner.output.executed_notebook import is_readable, load_earlier_outputs, write_notebook


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(job=tmp_path / "job", run=3, task=0)
    folder.prepare()
    return folder


def test_token_is_read_once(folder: RunFolder) -> None:
    (folder.path / "token").write_text("secret\n")
    assert folder.take_token() == "secret"
    assert not (folder.path / "token").exists()
    assert folder.take_token() == ""


def test_folders_are_private(folder: RunFolder) -> None:
    for path in (folder.path, folder.checkpoint):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_result_is_written_into_the_reserved_room(folder: RunFolder) -> None:
    inode = (folder.path / "result.reserve").stat().st_ino
    folder.write_result({"outcome": "FAILED", "sentence": "x" * 100})
    result = folder.path / "result.json"
    assert result.stat().st_ino == inode
    assert json.loads(result.read_text())["outcome"] == "FAILED"


def test_unreadable_progress_is_none(folder: RunFolder) -> None:
    assert folder.progress() is None
    (folder.path / "progress.json").write_text("{")
    assert folder.progress() is None
    (folder.path / "progress.json").write_text('{"fraction": 0.5, "text": "half"}')
    assert folder.progress() == (0.5, "half")


def test_a_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    file = tmp_path / "a"
    write_whole(file, b"old")
    tmp_path.chmod(0o700)
    with pytest.raises(OSError, match="Is a directory"):
        write_whole(tmp_path, b"new")
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_earlier_outputs_come_from_the_notebook_and_later_pieces(tmp_path: Path) -> None:
    file = tmp_path / "output.ipynb"

    def a_text(text: str) -> dict:
        return {"output_type": "stream", "name": "stdout", "text": text}

    cell = {"id": "c", "outputs": [a_text("one\n")]}
    write_notebook(file, {"metadata": {"jupyter_gq": {"seq": 4, "ended": ["a"]}}, "cells": [cell]})
    pieces = [{"seq": n, "op": "append", "cell": "c", "output": a_text(f"{n}\n")} for n in (4, 5)]
    assert load_earlier_outputs(file, pieces) == ({"c": [a_text("one\n5\n")]}, frozenset({"a"}))
    file.write_text("damaged")
    assert load_earlier_outputs(file, pieces) == ({"c": [a_text("4\n5\n")]}, frozenset())


def test_a_notebook_with_the_most_outputs_of_a_job_is_read_back(tmp_path: Path) -> None:
    """Each output is within the bounds, and together they have more values than other documents may have."""
    file = tmp_path / "output.ipynb"
    chart = {"output_type": "display_data", "data": {"application/json": [None] * 260_000}, "metadata": {}}
    cells = [{"id": f"c{number}", "outputs": [chart]} for number in range(5)]
    write_notebook(file, {"metadata": {"jupyter_gq": {"seq": 5, "ended": []}}, "cells": cells})
    outputs, _ = load_earlier_outputs(file, [])
    assert outputs == {cell["id"]: [chart] for cell in cells}


@pytest.mark.parametrize("content", ['{"a": 1e999}', "{", "[]", "[" * 200])
def test_a_notebook_that_cannot_be_read_back_is_not_readable(tmp_path: Path, content: str) -> None:
    (tmp_path / "output.ipynb").write_text(content)
    assert not is_readable(tmp_path / "output.ipynb")
    assert not is_readable(tmp_path / "missing.ipynb")


def test_sockets_lie_in_the_run_if_its_path_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        for _ in range(2):  # also when a killed process left it
            folder = make_socket_folder(Path(short))
            assert folder == Path(short, "kernel")
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            (folder / "k-1").touch()
        monkeypatch.setattr(tempfile, "tempdir", short)
        long = tmp_path / ("long" * 25)
        long.mkdir()
        folder = make_socket_folder(long)
        assert folder.parent == Path(short)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("code", "words"),
    [(-9, "ran out of memory"), (-11, "SIGSEGV"), (-99, "signal 99"), (0, "exit code 0"), (3, "exit code 3")],
)
def test_exits_of_a_kernel_are_described_by_their_cause(code: int, words: str) -> None:
    assert words in describe_exit(code)


def test_time_of_the_last_checkpoint_is_known(folder: RunFolder) -> None:
    assert folder.saved_at() is None
    for name, at in (("old.pt", 100.0), ("new.pt", 200.0)):
        (folder.checkpoint / name).write_text("weights")
        os.utime(folder.checkpoint / name, (at, at))
    assert folder.saved_at() == 200.0
    shutil.rmtree(folder.checkpoint)
    assert folder.saved_at() is None
