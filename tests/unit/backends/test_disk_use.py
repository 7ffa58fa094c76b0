"""The disk space of a job's folder is measured, whatever user code puts there."""

import os

from jupyter_gq.backends.local import disk_use
from jupyter_gq.backends.local.deletion import delete_folder
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


def test_no_depth_hides_a_file(tmp_path):
    """The path of the file is longer than any that the system takes. Beside each folder is another one to return to."""
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(60):
        os.mkdir("beside", dir_fd=folder)
        os.mkdir("d" * 200, dir_fd=folder)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    file = os.open("checkpoint", os.O_CREAT | os.O_WRONLY, dir_fd=folder)
    os.write(file, b"x" * (3 * MIB))
    os.close(file)
    os.close(folder)
    before = os.listdir("/proc/self/fd")
    assert measure_folder(tmp_path) == 3
    assert len(os.listdir("/proc/self/fd")) == len(before)
    delete_folder(tmp_path, tmp_path.with_name("held"))


def test_a_folder_that_cannot_be_entered_hides_nothing_beside_it(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"x" * MIB)
    (tmp_path / "b").chmod(0o400)
    assert measure_folder(tmp_path) in {2, 3}  # 3: root may enter any folder
    (tmp_path / "b").chmod(0o700)
