"""The disk space of a job's folder is measured, whatever user code puts there."""

import os

from jupyter_gq.backends.local import disk_use
from jupyter_gq.backends.local.disk_use import measure_folder

MIB = 2**20


def test_files_of_all_folders_count_and_holes_and_links_do_not(tmp_path):
    inner = tmp_path / "job/checkpoint/deep"
    inner.mkdir(parents=True)
    (inner / "epoch").write_bytes(b"x" * (3 * MIB))
    with (inner / "sparse").open("wb") as file:
        file.truncate(200 * 10**9)
    (tmp_path / "elsewhere").write_bytes(b"x" * (5 * MIB))
    (inner / "link").symlink_to(tmp_path / "elsewhere")
    (inner / "loop").symlink_to(tmp_path)
    os.mkfifo(inner / "pipe")
    assert measure_folder(tmp_path / "job") == 3
    assert measure_folder(tmp_path / "none") == 0


def test_folder_of_very_many_files_is_measured_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_use, "_MOST_ENTRIES", 3)
    for number in range(10):
        (tmp_path / str(number)).write_bytes(b"x" * MIB)
    assert measure_folder(tmp_path) == 3
