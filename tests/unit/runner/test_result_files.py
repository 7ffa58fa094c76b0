"""The files that a job brings back are listed also while its programs still write and delete some."""

import hashlib
from pathlib import Path

import pytest

from jupyter_gq.runner.files import results
from jupyter_gq.runner.files.bundle import ProjectFile

TEXT = b"kept"


def frozen(path: str) -> dict[str, ProjectFile]:
    return {path: ProjectFile(path=path, bytes=len(TEXT), parts=(hashlib.sha256(TEXT).hexdigest(),), executable=False)}


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
                    "reason": "It cannot be brought back, because it cannot be read (Denied). Rename it in the job.",
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
