"""A job begins with a whole copy of an earlier job's checkpoints, or not at all."""

import errno
import os
import stat
import threading

import pytest

from jupyter_gq.client.checkpoint_folder import COPYING, has_checkpoints
from jupyter_gq.runner.files.continuing import EarlierJob, StoppedWhileCopying, continue_from_job
from jupyter_gq.runner.problems import RunError
from tests.patience import scaled


@pytest.fixture
def earlier(tmp_path):
    folder = tmp_path / "job-1" / "checkpoint"
    (folder / "shards").mkdir(parents=True)
    (folder / "epoch-17.pt").write_bytes(os.urandom(100_000))
    (folder / "shards/0.pt").write_text("zero")
    (folder / "empty").mkdir()
    (folder / ".gq-trial").write_text("the product's own")
    (folder / "latest").symlink_to("epoch-17.pt")
    (folder / "shards/absolute").symlink_to(folder / "epoch-17.pt")
    (folder / "data").symlink_to("/data/imagenet")
    os.mkfifo(folder / "pipe")
    (folder / "epoch-17.pt").chmod(0o440)
    os.utime(folder / "epoch-17.pt", (1_000, 1_000))
    os.utime(folder / "shards", (2_000, 2_000))
    return EarlierJob(id="job-1", checkpoint=folder)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "job-2" / "checkpoint"
    place.mkdir(parents=True)
    return place


def snapshot(folder):
    return sorted((str(path.relative_to(folder)), path.lstat().st_mtime_ns) for path in folder.rglob("*"))


def go_on():
    """Nobody stops the run."""


def test_the_copy_has_the_files_with_their_times_and_the_earlier_folder_stays_as_it_is(earlier, folder):
    before = snapshot(earlier.checkpoint)
    told = continue_from_job(earlier, folder, task=0, look=go_on)
    assert told == "Continues from the checkpoints of job-1: 2 files, 97.7 KiB, copied."
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) == [
        *("data", "empty", "epoch-17.pt", "latest", "shards", "shards/0.pt", "shards/absolute")
    ]
    assert (folder / "latest").read_bytes() == (earlier.checkpoint / "epoch-17.pt").read_bytes()
    assert (folder / "shards/absolute").resolve() == folder / "epoch-17.pt", "the copy leads to the copy"
    assert os.readlink(folder / "data") == "/data/imagenet"
    assert (folder / "epoch-17.pt").stat().st_mtime == 1_000
    assert stat.S_IMODE((folder / "epoch-17.pt").stat().st_mode) == 0o440
    assert (folder / "shards").stat().st_mtime == 2_000
    assert snapshot(earlier.checkpoint) == before


def test_a_run_with_checkpoints_of_its_own_keeps_them(earlier, folder):
    (folder / "epoch-18.pt").write_text("own")
    assert continue_from_job(earlier, folder, task=0, look=go_on) == ""
    assert [path.name for path in folder.iterdir()] == ["epoch-18.pt"]


def test_a_file_system_that_copies_no_ranges_is_copied_by_reading(earlier, folder, monkeypatch):
    def refuse(*_args):
        raise OSError(errno.EXDEV, "cross-device")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    continue_from_job(earlier, folder, task=0, look=go_on)
    assert (folder / "epoch-17.pt").read_bytes() == (earlier.checkpoint / "epoch-17.pt").read_bytes()


@pytest.mark.parametrize("knows_holes", [True, False])
def test_the_holes_of_a_file_stay_holes(earlier, folder, monkeypatch, knows_holes):
    """Files of databases and of mapped arrays are mostly holes: the room of all of it may not be there."""
    size, block = 64 * 1024 * 1024, b"data" * 1024
    with (earlier.checkpoint / "mapped").open("wb") as file:
        for at in (0, size // 2):
            file.seek(at)
            file.write(block)
        file.truncate(size)
    (earlier.checkpoint / "hole").touch()
    os.truncate(earlier.checkpoint / "hole", size)
    if not knows_holes:
        seek = os.lseek

        def refuse(file, at, how):
            if how in {os.SEEK_DATA, os.SEEK_HOLE}:
                raise OSError(errno.EINVAL, "Invalid argument")
            return seek(file, at, how)

        monkeypatch.setattr(os, "lseek", refuse)
    told = continue_from_job(earlier, folder, task=0, look=go_on)
    for name in ("mapped", "hole", "epoch-17.pt"):
        assert (folder / name).read_bytes() == (earlier.checkpoint / name).read_bytes()
    if knows_holes:
        assert (folder / "mapped").stat().st_blocks * 512 < size // 8
        assert "105.7 KiB" in told


@pytest.mark.parametrize("looks", range(1, 11))
def test_a_copy_that_is_cut_is_never_taken_for_whole_and_is_done_anew(earlier, folder, looks):
    left = looks

    def stop():
        nonlocal left
        left -= 1
        if not left:
            raise StoppedWhileCopying

    with pytest.raises(StoppedWhileCopying):
        continue_from_job(earlier, folder, task=0, look=stop)
    assert list(folder.iterdir()) == [], "what a cancelled job has copied would take room until the job is deleted"
    (folder / COPYING).touch()
    (folder / "part").touch()  # of a run that was killed
    assert not has_checkpoints(folder)
    later = EarlierJob(id="job-2", checkpoint=folder)
    third = folder.parent / "third"
    third.mkdir()
    with pytest.raises(RunError, match="job-2 has no checkpoints any more, or it wrote none"):
        continue_from_job(later, third, task=0, look=go_on)
    (folder / "half").write_text("of a file that the earlier job does not have")
    assert continue_from_job(earlier, folder, task=0, look=go_on)
    assert not (folder / "half").exists()
    assert not (folder / COPYING).exists()
    assert (folder / "latest").read_bytes() == (earlier.checkpoint / "epoch-17.pt").read_bytes()


def test_files_of_the_product_that_other_tasks_make_meanwhile_stay(earlier, folder):
    """Each task tries to write into the folder that all of them share."""
    (folder / COPYING).touch()
    (folder / "part").touch()
    (folder / ".gq-trial").touch()
    continue_from_job(earlier, folder, task=0, look=go_on)
    assert (folder / ".gq-trial").exists()
    assert not (folder / "part").exists()


@pytest.mark.parametrize("kept", ["nothing", "no folder", "trials", "a pipe"])
def test_an_earlier_job_without_checkpoints_ends_the_run_with_a_sentence(tmp_path, folder, kept):
    gone = tmp_path / "job-1" / "checkpoint"
    if kept != "no folder":
        gone.mkdir(parents=True)
    if kept == "trials":
        (gone / ".gq-x").touch()
    if kept == "a pipe":
        os.mkfifo(gone / "pipe")
    with pytest.raises(RunError, match="The job job-1 has no checkpoints any more, or it wrote none, so nothing was"):
        continue_from_job(EarlierJob(id="job-1", checkpoint=gone), folder, task=0, look=go_on)


def test_a_file_that_vanishes_meanwhile_ends_the_run_and_leaves_no_part(earlier, folder):
    def delete():
        (earlier.checkpoint / "epoch-17.pt").unlink(missing_ok=True)
        (earlier.checkpoint / "shards/0.pt").unlink(missing_ok=True)

    calls = iter([go_on, delete])
    with pytest.raises(RunError, match=r"checkpoints of the job job-1 could not be copied \(.*No such file"):
        continue_from_job(earlier, folder, task=0, look=lambda: next(calls, delete)())
    assert list(folder.iterdir()) == []


def test_a_full_disk_ends_the_run_with_a_sentence_and_is_given_back_its_room(earlier, folder, monkeypatch):
    def refuse(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    with pytest.raises(RunError, match=r"could not be copied: the disk was full after .*, so nothing was run\. Free"):
        continue_from_job(earlier, folder, task=0, look=go_on)
    assert list(folder.iterdir()) == []


def test_the_other_tasks_of_a_job_wait_until_the_copy_of_the_first_one_is_whole(earlier, folder):
    looked = threading.Event()
    wait = threading.Thread(target=continue_from_job, args=(earlier, folder), kwargs={"task": 1, "look": looked.set})
    wait.start()
    assert looked.wait(scaled(10))
    assert wait.is_alive(), "nothing is there yet"

    def see_that_it_waits():
        assert wait.is_alive(), "half a copy is no copy"

    continue_from_job(earlier, folder, task=0, look=see_that_it_waits)
    wait.join(scaled(10))
    assert not wait.is_alive()


def test_a_task_that_waits_is_stopped(earlier, folder):
    def stop():
        raise StoppedWhileCopying

    with pytest.raises(StoppedWhileCopying):
        continue_from_job(earlier, folder, task=3, look=stop)
