"""The files of jobs: everything or nothing, and clear answers, wherever they are kept."""

import json
import os
import stat
import threading
from contextlib import closing

import pytest

from jupyter_gq.backends.bundles import BundleStore, LogName, LogSpan
from jupyter_gq.backends.local import LocalBundles, spools, user_access
from jupyter_gq.backends.local import bundles as bundles_module
from jupyter_gq.domain.errors import BackendError, Conflict, StorageFull, TooLarge, UnusableFile
from tests.patience import scaled, until

from .dead_disk import covered
from .kept_files import BUNDLE, FilesAtFolder, FilesAtMemory, LocalFiles, StoredFiles
from .small_disk import fill, mounted

LOG = LogName(job="job-1", owner="ann", run=1, task=0)


@pytest.fixture(params=[LocalFiles, StoredFiles, FilesAtFolder, FilesAtMemory])
def kept(request, tmp_path):
    """Each place in turn."""
    made = request.param(tmp_path)
    yield made
    made.close()


@pytest.fixture
def bundles(kept) -> BundleStore:
    return kept.bundles


@pytest.fixture
def local(tmp_path):
    return LocalBundles(tmp_path / "state")


def test_before_there_is_a_notebook_or_a_log_there_is_none(bundles):
    bundles.write("job-1", "ann", BUNDLE, 1000)
    assert bundles.executed_notebook("job-1", "ann") is None
    assert bundles.log("job-1", "ann", 1000, run=1, tasks=range(1)) is None
    assert bundles.log("job-2", "ann", 1000, run=1, tasks=range(1)) is None


def test_a_bundle_above_the_limit_is_refused_with_numbers(bundles):
    with pytest.raises(TooLarge, match=r"2\.0 MiB, but the limit is 1\.0 MiB"):
        bundles.write("job-1", "ann", {"x": "y" * 2 * 1024 * 1024}, 1024 * 1024)
    bundles.write("job-1", "ann", BUNDLE, 1000)  # nothing of the first try is there


def test_an_id_is_used_once_until_its_files_are_deleted(bundles):
    bundles.write("job-1", "ann", BUNDLE, 1000)
    with pytest.raises(Conflict):
        bundles.write("job-1", "ann", {}, 1000)
    bundles.delete("job-1", "ann")
    bundles.delete("job-1", "ann")
    bundles.write("job-1", "ann", BUNDLE, 1000)


def test_a_large_bundle_is_kept_like_a_small_one(kept, tmp_path):
    large = {**BUNDLE, "data": "x" * 100_000}
    kept.write("job-1", large)
    assert kept.read("job-1") == large
    with pytest.raises(Conflict):
        kept.write("job-1", large)
    kept.bundles.delete("job-1", "ann")
    assert kept.read("job-1") is None
    with pytest.raises(TooLarge):
        kept.write("job-1", large, 1000)
    kept.write("job-1", large)
    assert kept.read("job-1") == large


def test_ids_cannot_leave_the_folder(bundles):
    with pytest.raises(BackendError):
        bundles.write("../job", "ann", BUNDLE, 1000)


def test_the_log_is_that_of_the_newest_run_with_all_its_tasks(kept):
    kept.bundles.write("job-1", "ann", BUNDLE, 1000)
    kept.put_log("job-1", 2, 0, "old")
    assert kept.bundles.log("job-1", "ann", 8, run=2, tasks=range(1)) == "old"
    kept.put_log("job-1", 10, 0, "first")
    kept.put_log("job-1", 10, 0, "x" * 50 + "zero")
    kept.put_log("job-1", 10, 1, "one")
    kept.put_log("job-1", 9, 3, "late")
    assert kept.bundles.log("job-1", "ann", 8, run=10, tasks=range(2)) == "== task 0 ==\nzero\n== task 1 ==\none"
    assert [kept.bundles.log("job-1", "ann", 8, run=10, tasks=[task]) for task in range(2)] == ["xxxxzero", "one"]
    kept.bundles.delete("job-1", "ann")
    assert kept.bundles.log("job-1", "ann", 8, run=10, tasks=range(2)) is None


def test_a_full_disk_is_told_as_long_as_it_is_full(small_disk):
    bundles = LocalBundles(small_disk)
    assert bundles.shortage() == ""
    fill(small_disk)
    with pytest.raises(StorageFull):
        bundles.write("job-1", "ann", BUNDLE, 10**6)
    assert bundles.shortage().startswith(f"The disk of {small_disk}/jobs is full, so new jobs are refused.")
    (small_disk / "filler").unlink()
    assert bundles.shortage() == ""


def test_a_full_disk_keeps_nothing_on_this_machine(small_disk):
    bundles = LocalBundles(small_disk)
    with pytest.raises(StorageFull):
        bundles.write("job-1", "ann", {"x": "y" * 600_000}, 10**6)
    assert list((small_disk / "jobs").iterdir()) == []
    bundles.write("job-1", "ann", BUNDLE, 10**6)


def test_a_disk_without_room_for_another_folder_keeps_nothing(tmp_path):
    # Its root, three folders of the service, and the folder of the job.
    with mounted(tmp_path / "disk", inodes=5) as disk:
        bundles = LocalBundles(disk)
        with pytest.raises(StorageFull):
            bundles.write("job-1", "ann", BUNDLE, 10**6)
        assert not bundles.jobs()


def test_a_full_disk_keeps_nothing_in_the_store(small_disk):
    files = StoredFiles(small_disk)
    with pytest.raises(StorageFull):
        files.bundles.write("job-1", "ann", {"x": "y" * 600_000}, 10**6)
    assert files.bundles.bundle("job-1") is None
    files.bundles.write("job-1", "ann", BUNDLE, 10**6)
    files.close()


# --- in folders


def test_a_bundle_is_written_for_its_owner_alone(local, tmp_path):
    local.write("job-1", "ann", BUNDLE, 1000)
    folder = tmp_path / "state/jobs/job-1"
    assert json.loads((folder / "bundle.json").read_text()) == BUNDLE
    assert sorted(path.name for path in folder.iterdir()) == ["bundle.json", "checkpoint"]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}
    assert modes == {"job-1": 0o700, "bundle.json": 0o600, "checkpoint": 0o700}


@pytest.mark.parametrize(("system_users", "mode"), [(False, 0o750), (True, 0o751)])
def test_a_folder_that_was_there_before_stays_as_the_admin_made_it(tmp_path, system_users, mode):
    tmp_path.chmod(0o750)
    LocalBundles(tmp_path, system_users=system_users)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "runs").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "jobs").stat().st_mode) == (0o711 if system_users else 0o700)


def test_a_bundle_that_is_refused_leaves_no_folder(local, tmp_path):
    with pytest.raises(TooLarge):
        local.write("job-1", "ann", {"x": "y" * 2000}, 1000)
    assert not (tmp_path / "state/jobs/job-1").exists()


def test_a_notebook_that_is_not_one_is_refused_with_the_reason(local, tmp_path):
    local.write("job-1", "ann", BUNDLE, 1000)
    file = tmp_path / "state/jobs/job-1/output.ipynb"
    for content in ("", "{", "[]", "[" * 200_000, '{"x": 1e999}'):
        file.write_text(content)
        with pytest.raises(UnusableFile, match=r"^The file output\.ipynb cannot be used: it "):
            local.executed_notebook("job-1", "ann")
    file.write_text('{"cells": []}')
    assert local.executed_notebook("job-1", "ann") == {"cells": []}


def test_fake_task_folders_are_not_listed_by_the_log(local, tmp_path):
    local.write("job-1", "ann", BUNDLE, 1000)
    run = tmp_path / "state/jobs/job-1/runs/1"
    for name in ("0", "7", "9" * 200, "\u0663"):
        (run / name).mkdir(parents=True)
        (run / name / "log").write_text(f"of {name[:5]}")
    (tmp_path / "state/jobs/job-1/runs/99").mkdir()
    assert local.log("job-1", "ann", 1000, run=1, tasks=range(1)) == "of 0"


def test_a_deep_wide_and_closed_folder_is_deleted(local, tmp_path):
    local.write("job-1", "ann", BUNDLE, 1000)
    job = tmp_path / "state/jobs/job-1"
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "kept").write_text("of somebody else")
    handle = os.open(job / "checkpoint", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.mkfifo("pipe", dir_fd=handle)
    os.symlink(secret, "link", dir_fd=handle)
    os.close(handle)
    (job / os.fsdecode(b"name-\xff")).mkdir()
    (job / "closed").mkdir(mode=0o000)
    local.delete("job-1", "ann")
    assert list((tmp_path / "state/jobs").iterdir()) == list((tmp_path / "state/deleted").iterdir()) == []
    assert (secret / "kept").read_text() == "of somebody else"


def test_the_next_deletion_finds_what_a_killed_service_left(local, tmp_path):
    left = tmp_path / "state/deleted/0123"
    left.mkdir(parents=True)
    (left / "file").write_text("x")
    local.delete("job-none", "ann")
    assert not left.exists()


# --- in the store


def test_only_the_store_serves_pods(tmp_path, local):
    files = StoredFiles(tmp_path)
    assert files.bundles.pod_files is files.bundles
    assert local.pod_files is None
    files.bundles.write("job-1", "ann", BUNDLE, 1000)
    assert files.bundles.bundle("job-1") == BUNDLE
    assert files.bundles.bundle("job-2") is None
    files.close()


def test_of_a_log_the_end_is_kept(tmp_path):
    files = StoredFiles(tmp_path)
    files.bundles.put_log(LOG, "x" * 70_000 + "end")
    log = files.bundles.log("job-1", "ann", 10**6, run=1, tasks=range(1))
    assert (len(log), log[-4:]) == (64 * 1024, "xend")
    files.close()


KIB = 1024


def append(kept, content, log=LOG):
    """Let the runner of a task print more."""
    span = kept.bundles.log_span(log)
    if isinstance(kept, StoredFiles):
        kept.bundles.append_log(log, 0 if span is None else span.end, content.decode(), 10**9)
    else:
        kept.put_log(log.job, log.run, log.task, "")
        with (kept.bundles._root / f"jobs/{log.job}/runs/{log.run}/{log.task}/log").open("ab") as file:
            file.write(content)


def printed(size):
    """Return so many bytes of numbered lines."""
    return b"".join(b"%015d\n" % number for number in range(size // 16))


def test_a_whole_log_is_read_in_parts(kept):
    kept.bundles.write("job-1", "ann", BUNDLE, 1000)
    assert kept.bundles.log_span(LOG) is None
    assert kept.bundles.log_part(LOG, 0, 10) == b""
    content = printed(900 * KIB)
    append(kept, content)
    assert kept.bundles.log_span(LOG) == LogSpan(start=0, end=len(content))
    read = b""
    while part := kept.bundles.log_part(LOG, len(read), 100_000):
        assert len(part) <= 100_000
        read += part
    assert read == content
    assert kept.bundles.log("job-1", "ann", 16, run=1, tasks=[0]).encode() == content[-16:]


def test_the_beginning_of_a_log_is_dropped_and_the_rest_keeps_its_place(kept):
    kept.bundles.write("job-1", "ann", BUNDLE, 1000)
    assert kept.bundles.cut_log(LOG, 100) == 0
    content = printed(900 * KIB)
    append(kept, content)
    assert kept.bundles.cut_log(LOG, 10**6) == 0
    dropped = kept.bundles.cut_log(LOG, 100 * KIB)
    span = kept.bundles.log_span(LOG)
    assert (span.start, span.end) == (dropped, len(content))
    assert 100 * KIB <= span.kept <= 400 * KIB, "little more than what was asked for"
    assert kept.bundles.log_part(LOG, span.start, 10**7) == content[span.start :]
    assert kept.bundles.cut_log(LOG, 100 * KIB) == 0, "there is nothing more to drop"


def test_a_log_that_is_cut_goes_on(kept):
    kept.bundles.write("job-1", "ann", BUNDLE, 1000)
    if isinstance(kept, StoredFiles):
        for start in range(0, 900 * KIB, 60 * KIB):
            kept.bundles.append_log(LOG, start, printed(900 * KIB)[start:][: 60 * KIB].decode(), 300 * KIB)
        assert kept.store.file("job-1", "log.0.0") is None, "the database has given the space back"
    else:
        append(kept, printed(900 * KIB))
        file = kept.bundles._root / "jobs/job-1/runs/1/0/log"
        with file.open("ab") as running:
            kept.bundles.cut_log(LOG, 300 * KIB)
            running.write(b"more\n")
        assert file.stat().st_blocks * 512 < 600 * KIB, "the disk has given the space back"
        assert kept.bundles.log_part(LOG, 900 * KIB, 10) == b"more\n"
    assert 300 * KIB <= kept.bundles.log_span(LOG).kept <= 600 * KIB


def test_parts_that_pods_send_twice_are_stored_once_and_a_gap_drops_what_was_before(tmp_path):
    files = StoredFiles(tmp_path)
    files.bundles.append_log(LOG, 0, "one\n", 10**6)
    files.bundles.append_log(LOG, 0, "one\ntwo\n", 10**6)
    files.bundles.append_log(LOG, 2, "e\n", 10**6)
    assert files.bundles.log_part(LOG, 0, 100) == b"one\ntwo\n"
    files.bundles.append_log(LOG, 1000, "late\n", 10**6)
    assert files.bundles.log_span(LOG) == LogSpan(start=1000, end=1005)
    assert files.bundles.log("job-1", "ann", 100, run=1, tasks=[0]) == "late\n"
    files.close()


def test_the_log_of_a_newer_run_replaces_that_of_an_earlier_one(tmp_path):
    files = StoredFiles(tmp_path)
    files.bundles.append_log(LOG, 0, "x" * 600 * KIB, 10**6)
    second = LogName(job="job-1", owner="ann", run=2, task=0)
    files.bundles.append_log(second, 0, "second\n", 10**6)
    files.bundles.append_log(LOG, 600 * KIB, "late\n", 10**6)
    assert files.bundles.log_part(second, 0, 100) == b"second\n"
    assert [files.store.file("job-1", f"log.0.{number}") for number in (1, 2)] == [None, None]
    files.close()


def test_the_end_that_an_older_runner_sends_is_known_as_such(tmp_path):
    files = StoredFiles(tmp_path)
    files.store.put_file("job-1", "logs.json", b'{"run": 1, "tasks": [0]}')
    files.store.put_file("job-1", "log.0", b"the end\n")
    assert files.bundles.log_span(LOG) == LogSpan(start=0, end=8, only_end=True)
    assert files.bundles.log_part(LOG, 4, 100) == b"end\n"
    assert files.bundles.cut_log(LOG, 1) == 0
    files.bundles.put_log(LOG, "another\n")
    assert files.bundles.log("job-1", "ann", 100, run=1, tasks=[0]) == "another\n"
    assert files.bundles.log_span(LOG).only_end
    files.close()


@pytest.mark.parametrize("plant", ["link", "pipe", "folder"])
def test_what_is_no_log_is_neither_read_nor_cut(tmp_path, local, plant):
    local.write("job-1", "ann", BUNDLE, 1000)
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(10**6))
    file = tmp_path / "state/jobs/job-1/runs/1/0/log"
    file.parent.mkdir(parents=True)
    {"link": lambda: file.symlink_to(secret), "pipe": lambda: os.mkfifo(file), "folder": file.mkdir}[plant]()
    for act in (
        lambda: local.log_span(LOG),
        lambda: local.log_part(LOG, 0, 10),
        lambda: local.cut_log(LOG, 10),
    ):
        with pytest.raises(UnusableFile):
            act()
    assert secret.stat().st_blocks * 512 >= 10**6


def read_left(folder, content):
    """Return all pieces that a run has left in a spool with this content."""
    spool = folder / "state/jobs/job-1/runs/1/0/spool.jsonl"
    spool.parent.mkdir(parents=True, exist_ok=True)
    spool.write_bytes(content)
    bundles, found, start = LocalBundles(folder / "state"), [], 0
    while start is not None:
        portion = bundles.left_outputs("job-1", "ann", 1, start)
        found, start = [*found, *portion.pieces], portion.following
    return found


def test_left_outputs_are_read_in_portions(tmp_path, monkeypatch):
    monkeypatch.setattr(spools, "PORTION", 100)
    lines = [json.dumps({"seq": seq, "text": "x" * seq}) for seq in range(1, 150, 7)]
    assert [piece["seq"] for piece in read_left(tmp_path, "\n".join([*lines, '{"seq": 1']).encode())] == [
        *range(1, 150, 7)
    ]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"[" * 200_000 + b"\n", b"\xff\xfe\n", b"[1]\n1e999\nnull\n"])
def test_lines_that_are_no_pieces_are_skipped(tmp_path, content):
    assert read_left(tmp_path, content + b'{"seq": 1}\n') == [{"seq": 1}]


def test_endless_spool_is_read_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(spools, "PORTION", 1100)
    monkeypatch.setattr(spools, "MOST_READ", 5500)
    content = b'{"seq": 1}\n' * (spools.PORTION // 11)
    assert len(read_left(tmp_path, content * 20)) < 6 * len(content) / 11
    spool = tmp_path / "state/jobs/job-1/runs/1/0/spool.jsonl"
    os.truncate(spool, 0)
    os.truncate(spool, 200 * 10**9)
    left = LocalBundles(tmp_path / "state").left_outputs("job-1", "ann", 1, 0)
    assert (left.pieces, left.following) == ((), spools.LONGEST_PIECE), "the rest of a long line is read in portions"


@pytest.mark.parametrize("plant", [os.mkfifo, os.mkdir, lambda place: place.symlink_to("/dev/zero")])
def test_spool_that_is_no_file_is_refused(tmp_path, plant):
    read_left(tmp_path, b"")
    spool = tmp_path / "state/jobs/job-1/runs/1/0/spool.jsonl"
    spool.unlink()
    plant(spool)
    with pytest.raises(UnusableFile):
        LocalBundles(tmp_path / "state").left_outputs("job-1", "ann", 1, 0)


@pytest.mark.parametrize("below", ["", "runs/1/0"])
def test_a_folder_that_does_not_answer_keeps_no_deletion_waiting(local, tmp_path, monkeypatch, below):
    for job in ("job-1", "job-2"):
        local.write(job, "ann", BUNDLE, 10**6)
    jobs = tmp_path / "state/jobs"
    with covered(jobs / "job-1" / below):
        monkeypatch.setattr(user_access, "DEADLINE", scaled(0.5))
        deleting = threading.Thread(target=local.delete, args=("job-1", "ann"), daemon=True)
        deleting.start()
        deleting.join(scaled(10))
        assert not deleting.is_alive()
        local.delete("job-2", "ann")
        assert not (jobs / "job-2").exists()
        monkeypatch.setattr(user_access, "PAUSE", 0.0)

    def is_deleted():
        local.delete("job-1", "ann")
        return list(jobs.iterdir()) == list((tmp_path / "state/deleted").iterdir()) == []

    until(is_deleted, "the deletion once the folder answers")


def test_results_are_read_in_parts_and_deleted_with_the_job(tmp_path, local):
    local.write("job-1", "ann", BUNDLE, 1000)
    content = bytes(range(256)) * 40 + b"end"
    folder = tmp_path / "state" / "jobs" / "job-1"
    (folder / "results" / "vars").mkdir(parents=True)
    (folder / "results" / "vars" / "0.pickle").write_bytes(content)
    (folder / "results.json").write_text(json.dumps({"variables": []}))
    assert local.results("job-1", "ann") == {"variables": []}
    with pytest.raises(UnusableFile):
        local.results("job-1", "ann", limit=10)
    read = b""
    while part := local.result_part("job-1", "ann", "vars/0.pickle", len(read), 3000):
        read += part
    assert read == content
    local.delete("job-1", "ann")
    assert local.results("job-1", "ann") is None
    assert local.result_part("job-1", "ann", "vars/0.pickle", 0, 10) == b""


def test_a_report_of_a_pod_that_is_longer_than_the_limit_is_refused(tmp_path):
    with closing(StoredFiles(tmp_path)) as kept:
        kept.bundles.write("job-1", "ann", BUNDLE, 1000)
        kept.bundles.put_results("job-1", {"results": {"variables": []}, "contents": []})
        assert kept.bundles.results("job-1", "ann", limit=1000) == {"variables": []}
        with pytest.raises(UnusableFile, match="more than 10 bytes"):
            kept.bundles.results("job-1", "ann", limit=10)


def test_before_there_are_results_there_are_none(bundles):
    bundles.write("job-1", "ann", BUNDLE, 1000)
    assert bundles.results("job-1", "ann") is None
    assert bundles.result_part("job-1", "ann", "vars/0.pickle", 0, 10) == b""


@pytest.mark.parametrize("path", ["../bundle.json", "/etc/passwd", "files/../../bundle.json", "", "files//a", "a\0b"])
def test_a_path_never_leads_out_of_the_results(bundles, path):
    bundles.write("job-1", "ann", BUNDLE, 1000)
    with pytest.raises(UnusableFile):
        bundles.result_part("job-1", "ann", path, 0, 10)


def test_a_link_among_the_results_is_refused(tmp_path, local):
    local.write("job-1", "ann", BUNDLE, 1000)
    folder = tmp_path / "state" / "jobs" / "job-1" / "results" / "files"
    folder.mkdir(parents=True)
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "folder").symlink_to("/etc")
    for path in ("files/link", "files/folder/passwd"):
        with pytest.raises(UnusableFile):
            local.result_part("job-1", "ann", path, 0, 10)


def test_a_silent_disk_holds_up_neither_a_new_job_nor_a_measurement(tmp_path, monkeypatch):
    bundles = LocalBundles(tmp_path / "state")
    monkeypatch.setattr(user_access, "DEADLINE", 0.1)
    with covered(tmp_path / "state" / "jobs"):
        with pytest.raises(BackendError, match="could not be written: the file system gave no answer"):
            bundles.write("job-1", "ann", {}, 1000)
        assert bundles.disk_use("job-2") is None


def test_a_measurement_that_takes_too_long_is_the_answer_to_the_next_question(tmp_path, monkeypatch):
    local = LocalBundles(tmp_path / "state")
    local.write("job-1", "ann", {}, 1000, b"x" * 3 * 2**20)
    measure, goes_on = bundles_module.measure_folder, threading.Event()

    def measure_late(folder):
        goes_on.wait(scaled(60))
        return measure(folder)

    monkeypatch.setattr(user_access, "DEADLINE", 0.1)
    with monkeypatch.context() as late:
        late.setattr(bundles_module, "measure_folder", measure_late)
        assert local.disk_use("job-1") is None
        goes_on.set()
        until(lambda: local._late_uses, "the late answer")
    monkeypatch.setattr(user_access, "MOST_BLOCKED", 0)  # so that nobody is asked now
    assert local.disk_use("job-1") == 3
    assert local.disk_use("job-1") is None, "an old answer is given once"
