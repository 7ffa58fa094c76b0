"""The files that a job brings back are listed also while its programs still write and delete some."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from jupyter_gq.runner.files import results
from jupyter_gq.runner.files.bundle import ProjectFile

TEXT = b"kept"


def frozen(path: str) -> dict[str, ProjectFile]:
    return {path: ProjectFile(path=path, bytes=len(TEXT), parts=(hashlib.sha256(TEXT).hexdigest(),), executable=False)}


def test_a_link_to_a_result_is_named_with_the_file_and_other_links_are_left_out(tmp_path: Path):
    folder = tmp_path / "files"
    (folder / "steps").mkdir(parents=True)
    (folder / "steps" / "100.pt").write_bytes(TEXT)
    (folder / "best.pt").symlink_to("steps/100.pt")
    (folder / "gone.pt").symlink_to("steps/1.pt")
    (folder / "passwd").symlink_to("/etc/passwd")
    (folder / "again.pt").symlink_to("again.pt")
    why = "It cannot be brought back, because it is a link to steps/100.pt. Copy that file in the job instead."
    best = {"path": "best.pt", "bytes": 0, "reason": why}
    assert results.list_files(folder, {}) == ([best, {"path": "steps/100.pt", "bytes": len(TEXT)}], 0)


@pytest.mark.parametrize(
    ("happens", "listed"),
    [
        (lambda path: path.unlink(), []),
        (
            lambda path: path.chmod(0),
            [
                {
                    "path": "a",
                    "bytes": 0,
                    "reason": "It cannot be brought back, because it cannot be read (Denied). "
                    "Make it readable in the job.",
                }
            ],
        ),
    ],
    ids=["deleted", "locked"],
)
def test_a_file_that_goes_away_or_is_locked_meanwhile_hides_no_other(tmp_path: Path, monkeypatch, happens, listed):
    for name in "abc":
        (tmp_path / name).write_bytes(TEXT)

    def changes_meanwhile(path, file):
        happens(path)
        if path.exists():
            raise PermissionError(13, "Denied")
        return False

    monkeypatch.setattr(results, "is_unchanged", changes_meanwhile)
    files, omitted = results.list_files(tmp_path, frozen("a"))
    assert files == [*listed, {"path": "b", "bytes": 4}, {"path": "c", "bytes": 4}]
    assert omitted == 0


def test_of_too_many_files_the_newest_are_listed(tmp_path: Path):
    for number in range(results.MOST_FILES + 100):
        path = tmp_path / f"epoch{number:04}.txt"
        path.write_bytes(TEXT)
        os.utime(path, (number, number))
    (tmp_path / "model.pt").write_bytes(TEXT)
    files, omitted = results.list_files(tmp_path, {})
    paths = [file["path"] for file in files]
    assert (len(paths), omitted, paths[0], paths[-1]) == (results.MOST_FILES, 101, "epoch0101.txt", "model.pt")
    assert paths == sorted(paths)


def test_a_name_with_a_secret_in_it_is_hidden_and_says_why(tmp_path: Path):
    files, record = tmp_path / "files", tmp_path / "results.json"
    (files / "hunter2-x").mkdir(parents=True)
    (files / "hunter2-x" / "a").write_bytes(TEXT)
    (files / "b").write_bytes(TEXT)
    results.write_results(record, tmp_path, {"variables": []}, hide=lambda text: text.replace("hunter2", "***"))
    assert "hunter2" not in record.read_text()
    b, hidden = json.loads(record.read_text())["files"]
    assert b == {"path": "b", "bytes": 4}
    assert hidden["path"] == "***-x/a"
    assert "its name has a secret in it" in hidden["reason"]


@pytest.mark.parametrize("replaced", ["results", "results/files"])
def test_nothing_of_a_place_is_listed_that_a_link_leads_to_instead_of_the_results(tmp_path: Path, replaced: str):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "files").mkdir(parents=True)
    for folder in (elsewhere, elsewhere / "files"):
        (folder / "private").write_bytes(TEXT)
    link = tmp_path / "job" / replaced
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    files, omitted = results.list_files(tmp_path / "job/results/files", {})
    assert (len(files), files[0]["path"], omitted) == (1, ".", 0)
    assert files[0]["reason"] == (
        "It cannot be brought back, because the folder of results was replaced by a link to another place. "
        "Keep that folder in the job, and copy files into it."
    )


def test_a_path_that_is_too_long_to_be_read_is_told_with_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(25):  # a path of more than 4096 bytes can only be made step by step
        name = "d" * 200
        Path(name).mkdir()
        monkeypatch.chdir(name)
    Path("deep.txt").write_bytes(TEXT)
    files, omitted = results.list_files(tmp_path, {})
    assert (len(files), omitted) == (1, 0)
    assert files[0]["reason"].endswith("cannot be read (File name too long). Use shorter paths in the job.")
