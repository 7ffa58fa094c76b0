"""A job begins with a whole copy of an earlier job's checkpoints, or not at all."""

import contextlib
import errno
import os
import shutil
import socket
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from jupyter_gq.client.files.checkpoint_folder import COPYING, has_checkpoints
from jupyter_gq.runner.files.continuing import EarlierJob, StoppedWhileCopying, continue_from_job
from jupyter_gq.runner.pod.sigterm import StoppedBeforeStart
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


@pytest.mark.parametrize("way", ["{}/../other", "{}/shards/../../other", "{}/shards/../../../elsewhere"])
def test_a_link_that_leaves_the_folder_again_leads_where_it_led(earlier, folder, way):
    """Such a path begins with the folder, but a relative one would lead beside the copy."""
    way = way.format(earlier.checkpoint)
    (earlier.checkpoint / "shards/out").symlink_to(way)
    continue_from_job(earlier, folder, task=0, look=go_on)
    assert os.readlink(folder / "shards/out") == way


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP, errno.EINVAL])
def test_a_file_system_that_takes_no_modes_or_no_times_is_copied(earlier, folder, monkeypatch, code):
    def refuse(*_args, **_named):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "chmod", refuse)
    continue_from_job(earlier, folder, task=0, look=go_on)
    assert (folder / "epoch-17.pt").stat().st_mtime == 1_000, "the times are no matter of the modes"
    shutil.rmtree(folder)
    folder.mkdir()
    monkeypatch.setattr(os, "utime", refuse)
    continue_from_job(earlier, folder, task=0, look=go_on)
    assert (folder / "epoch-17.pt").read_bytes() == (earlier.checkpoint / "epoch-17.pt").read_bytes()


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


def refuse_to_tell_holes(_file, _at, _how):
    raise OSError(errno.EINVAL, "Invalid argument")


def tell_all_as_data(file, at, how):
    """As Linux does for file systems that leave it to Linux, such as NFS before version 4.2."""
    size = os.fstat(file).st_size
    if at >= size:
        raise OSError(errno.ENXIO, "No such device or address")
    return at if how == os.SEEK_DATA else size


@pytest.mark.parametrize("answer", [refuse_to_tell_holes, tell_all_as_data])
def test_a_file_system_that_tells_no_holes_is_copied_whole(earlier, folder, monkeypatch, answer):
    """And the copy takes no more room: else a file of nothing but holes would fill the disk."""
    with (earlier.checkpoint / "mapped").open("wb") as file:
        file.write(b"data" * 1024)
        file.seek(40 * 1024**2 + 4096)
        file.write(b"\0" * 4095 + b"middle")
        file.truncate(64 * 1024**2 + 100)
    seek = os.lseek

    def tell(file, at, how):
        return (answer if how in {os.SEEK_DATA, os.SEEK_HOLE} else seek)(file, at, how)

    monkeypatch.setattr(os, "lseek", tell)
    told = continue_from_job(earlier, folder, task=0, look=go_on)
    for name in ("mapped", "epoch-17.pt"):
        assert (folder / name).read_bytes() == (earlier.checkpoint / name).read_bytes()
        assert (folder / name).stat().st_blocks <= (earlier.checkpoint / name).stat().st_blocks
    assert "3 files, 109.7 KiB, copied" in told, "the size is that on the disk"


@pytest.mark.parametrize("stopped", [StoppedWhileCopying, StoppedBeforeStart], ids=["machine", "pod"])
@pytest.mark.parametrize("looks", range(1, 11))
def test_a_copy_that_is_cut_is_never_taken_for_whole_and_is_done_anew(earlier, folder, looks, stopped):
    left = looks

    def stop():
        nonlocal left
        left -= 1
        if not left:
            raise stopped

    with pytest.raises(stopped):
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


def test_a_hole_takes_no_room_in_the_copy_either(earlier, folder):
    """Else a job that wrote nothing would fill the disk of everybody when another one continues from it."""
    with (earlier.checkpoint / "sparse.pt").open("wb") as file:
        file.write(b"begin")
        file.seek(100 * 10**9)
        file.write(b"middle")
        file.truncate(200 * 10**9)
    (earlier.checkpoint / "hole").touch()
    os.truncate(earlier.checkpoint / "hole", 200 * 10**9)
    told = continue_from_job(earlier, folder, task=0, look=go_on)
    assert "4 files, " in told
    assert "KiB, copied" in told, "the size is that on the disk"
    for name in ("sparse.pt", "hole"):
        about = (folder / name).stat()
        assert (about.st_size, about.st_blocks < 100) == (200 * 10**9, True)
    with (folder / "sparse.pt").open("rb") as file:
        assert file.read(6) == b"begin\0"
        file.seek(100 * 10**9)
        assert file.read(7) == b"middle\0"


def test_the_copy_of_a_file_that_grows_all_the_time_ends(earlier, folder):
    """As much is copied as the file had at first: a program that writes faster than is copied keeps no GPU."""
    growing = earlier.checkpoint / "log"
    growing.write_bytes(b"x" * 1000)
    for name in ("epoch-17.pt", "shards/0.pt"):
        (earlier.checkpoint / name).unlink()

    def grow():
        with growing.open("ab") as file:
            file.write(b"y" * 1000)

    assert "1 file, " in continue_from_job(earlier, folder, task=0, look=grow)
    content = (folder / "log").read_bytes()
    assert content.startswith(b"x" * 1000)
    assert len(content) < growing.stat().st_size


def test_a_file_that_becomes_shorter_meanwhile_ends_the_run(earlier, folder):
    def shorten():
        if (folder / "epoch-17.pt").exists():
            os.truncate(earlier.checkpoint / "epoch-17.pt", 10)

    (earlier.checkpoint / "epoch-17.pt").chmod(0o600)
    with pytest.raises(
        RunError, match=r"could not be copied \(a file became shorter while it was copied\), so nothing"
    ):
        continue_from_job(earlier, folder, task=0, look=shorten)
    assert list(folder.iterdir()) == []


def test_several_names_of_one_file_are_names_of_one_copy(earlier, folder):
    """Else some thousand names of one large file would fill the disk."""
    for number in range(50):
        os.link(earlier.checkpoint / "epoch-17.pt", earlier.checkpoint / f"shards/same-{number}")
    told = continue_from_job(earlier, folder, task=0, look=go_on)
    assert "52 files, 97.7 KiB, copied" in told
    assert (folder / "epoch-17.pt").stat().st_nlink == 51
    assert (folder / "shards/same-7").read_bytes() == (earlier.checkpoint / "epoch-17.pt").read_bytes()


def test_nothing_but_files_folders_and_links_is_opened(earlier, folder, tmp_path):
    """Links lead where they led, and nothing behind them is read."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("of somebody else")
    (earlier.checkpoint / "out").symlink_to(secret)
    (earlier.checkpoint / "zero").symlink_to("/dev/zero")
    (earlier.checkpoint / "self").symlink_to("self")
    handle = os.open(earlier.checkpoint, os.O_RDONLY)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(f"/proc/self/fd/{handle}/socket")
    with contextlib.suppress(PermissionError):  # only root makes devices
        os.mknod("device", 0o666 | stat.S_IFCHR, os.makedev(1, 5), dir_fd=handle)
    os.close(handle)
    assert "2 files, 97.7 KiB" in continue_from_job(earlier, folder, task=0, look=go_on)
    assert {path.name for path in folder.iterdir() if path.is_symlink()} == {"out", "zero", "self", "latest", "data"}
    assert not {"socket", "device", "pipe"} & {path.name for path in folder.iterdir()}


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(earlier, folder):
    """The file is replaced after its folder was listed, and before it is opened."""

    def replace():
        if not (folder / "epoch-17.pt").exists():
            (earlier.checkpoint / "epoch-17.pt").unlink(missing_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkfifo(earlier.checkpoint / "epoch-17.pt")

    assert "1 file, 4 bytes" in continue_from_job(earlier, folder, task=0, look=replace)
    assert not (folder / "epoch-17.pt").exists()


ODD_NAMES = [b"\xff\xfe", b"a\nb", b"\x1b[31mred", "\u202e".encode(), b"n" * 255, b" ", b"-rf"]


def test_names_that_are_no_text_are_copied(earlier, folder):
    for name in ODD_NAMES:
        Path(os.fsdecode(os.fsencode(earlier.checkpoint) + b"/" + name)).write_text("x")
    continue_from_job(earlier, folder, task=0, look=go_on)
    assert set(ODD_NAMES) <= set(os.listdir(os.fsencode(folder)))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_the_sentence_about_a_file_can_be_shown_whatever_its_name_is(earlier, folder, name):
    """It goes to the service as UTF-8, and into a terminal."""
    shutil.rmtree(earlier.checkpoint)
    earlier.checkpoint.mkdir()
    odd = Path(os.fsdecode(os.fsencode(earlier.checkpoint) + b"/" + name))
    odd.write_text("x")
    with pytest.raises(RunError) as raised:
        continue_from_job(earlier, folder, task=0, look=lambda: odd.unlink(missing_ok=True))
    told = str(raised.value)
    assert told.encode()
    assert told.isprintable(), told
    assert "No such file or directory" in told
    assert len(told) < 500


@pytest.fixture
def deep(earlier):
    """Make a folder whose path is longer than any that Linux takes; remove it, which pytest could not."""
    handle = os.open(earlier.checkpoint, os.O_RDONLY)
    for _ in range(1_000):
        os.mkdir("deep", dir_fd=handle)
        inner = os.open("deep", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    yield
    subprocess.run(["rm", "-r", earlier.checkpoint / "deep"], check=True)


@pytest.mark.usefixtures("deep")
def test_a_folder_deeper_than_any_path_ends_the_run_and_leaves_no_part(earlier, folder):
    with pytest.raises(RunError, match=r"could not be copied \('deep': File name too long\), so nothing was run"):
        continue_from_job(earlier, folder, task=0, look=go_on)
    assert list(folder.iterdir()) == []


def test_many_small_files_are_written_to_the_disk_together(earlier, folder, monkeypatch):
    """Each alone takes milliseconds, during which the GPUs of the job wait."""
    for number in range(3_000):
        (earlier.checkpoint / f"shards/{number}").write_text("x")
    written, write = [], os.fsync

    def count(handle):
        written.append(handle)
        write(handle)

    monkeypatch.setattr(os, "fsync", count)
    assert "3002 files" in continue_from_job(earlier, folder, task=0, look=go_on)
    assert len(written) < 600
    assert len(list((folder / "shards").iterdir())) == 3_002


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
