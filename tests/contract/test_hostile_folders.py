"""Whatever a job has written into its folder, a step of the scheduler stays short, and its folder goes in the end."""

import os
import signal
import sys
from contextlib import contextmanager

import pytest

from jupyter_gq.backends.local import LocalBundles, deletion
from jupyter_gq.backends.local.deletion import delete_folder
from jupyter_gq.backends.protocol import Outcome, Phase

from .kept_files import BUNDLE

#: Fake folders of tasks. What counts is that nobody lists them; 30,000 take a minute to make on a slow machine.
MANY = 3_000

_listed: list[str] | None = None


def _note_listing(event, arguments):
    """Python removes no audit hook, so this one stays, and notes only within `listings`."""
    if _listed is not None and event in ("os.listdir", "os.scandir"):
        _listed.append(str(arguments[0]))


@pytest.fixture(scope="module", autouse=True)
def _hook():
    sys.addaudithook(_note_listing)


@contextmanager
def listings():
    """The folders that this process lists in the block."""
    global _listed
    _listed = noted = []
    try:
        yield noted
    finally:
        _listed = None


def plant_tasks(run, count=MANY):
    for number in range(count):
        (run / str(number)).mkdir(parents=True, exist_ok=True)


def _sparse(place):
    with place.open("wb") as file:
        file.truncate(200 * 10**9)


@pytest.mark.asyncio
async def test_a_step_lists_no_folder_that_user_code_can_write(local):
    workload, other = local.workload("bad"), local.workload("good")
    for each in (workload, other):
        await local.launch(each)
    plant_tasks(local.task(workload).parent)
    with listings() as listed:
        assert (await local.running(workload)).phase is (await local.running(other)).phase is Phase.RUNNING
        local.backend = local.new_backend()
        assert (await local.running(workload)).phase is (await local.running(other)).phase is Phase.RUNNING
        os.kill(local.leader(workload), signal.SIGKILL)
        assert (await local.end(workload)).outcome is Outcome.LOST
    assert listed, "the table of processes is a folder"
    assert [path for path in listed if str(local.folder / "state/jobs") in path] == []


@pytest.mark.parametrize("plant", [lambda place: place.write_text("[" * 200_000), _sparse], ids=["brackets", "sparse"])
@pytest.mark.asyncio
async def test_a_result_that_cannot_be_read_hurts_nobody_after_a_restart_either(local, plant):
    bad, good = local.workload("bad"), local.workload("good")
    for workload in (bad, good):
        await local.launch(workload)
    plant(local.task(bad) / "result.json")
    local.backend = local.new_backend()
    assert (await local.running(bad)).phase is (await local.running(good)).phase is Phase.RUNNING
    os.kill(local.leader(bad), signal.SIGKILL)
    assert (await local.end(bad)).outcome is Outcome.LOST
    local.backend = local.new_backend()
    assert (await local.running(good)).phase is Phase.RUNNING


def test_the_log_and_the_last_outputs_are_found_without_listing(tmp_path):
    local = LocalBundles(tmp_path / "state")
    local.write("job-1", "ann", BUNDLE, 1000)
    plant_tasks(tmp_path / "state/jobs/job-1/runs/1")
    with listings() as listed:
        local.log("job-1", "ann", 1000, run=1, tasks=range(1))
        local.left_outputs("job-1", "ann", 1, 0)
        local.results("job-1", "ann")
    assert listed == []


def test_folders_with_files_on_many_levels_are_deleted(tmp_path, caplog):
    """Above and below the depth at which folders are moved; closed ones, and more than one portion of each."""
    top, holding = tmp_path / "job", tmp_path / "held"
    for number in range(60):
        inner = top / str(number) / "/".join("abcdefghijklm"[: number % 14])
        inner.mkdir(parents=True)
        for file in range(30):
            (inner / str(file)).touch()
    (top / "3" / "a").chmod(0o000)
    (top / "flat").mkdir()
    for number in range(2_500):
        (top / "flat" / str(number)).touch()
    delete_folder(top, holding)
    assert not top.exists()
    assert list(holding.iterdir()) == []
    assert caplog.text == ""


def test_the_folders_of_fake_tasks_are_deleted_in_portions(tmp_path, monkeypatch):
    """A thread and a move for each of them took ten times as long, during which no other job was deleted."""
    plant_tasks(tmp_path / "job")
    moved, move = [], os.rename

    def count(*arguments, **named):
        moved.append(arguments)
        move(*arguments, **named)

    monkeypatch.setattr(os, "rename", count)
    delete_folder(tmp_path / "job", tmp_path / "held")
    assert list((tmp_path / "held").iterdir()) == []
    assert len(moved) == 1, "the folder of the job alone"


@contextmanager
def program_that_writes_as_fast_as_is_deleted(job, monkeypatch, *, most=100_000):
    """It stands in the folder of a job, so it may write there after the move. Yields the names that were deleted."""
    handle, deleted, unlink = os.open(job, os.O_RDONLY), [], os.unlink

    def write(name, *, dir_fd=None):
        unlink(name, dir_fd=dir_fd)
        deleted.append(name)
        if dir_fd is not None and os.path.sameopenfile(dir_fd, handle) and len(deleted) < most:
            for number in range(2):
                os.close(os.open(f"{len(deleted)}-{number}", os.O_CREAT | os.O_WRONLY, dir_fd=handle))

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", write)
        yield deleted
    os.close(handle)


def test_a_program_that_writes_while_its_folder_is_deleted_keeps_nobody_waiting(tmp_path, monkeypatch, caplog):
    """It is given up soon, now and whenever another job is deleted. After its end, the next deletion finishes."""
    monkeypatch.setattr(deletion, "_PORTION", 100)
    jobs, holding = [tmp_path / str(number) for number in range(3)], tmp_path / "held"
    for job in jobs:
        job.mkdir()
        for number in range(500):
            (job / str(number)).touch()
    with program_that_writes_as_fast_as_is_deleted(jobs[0], monkeypatch) as deleted:
        for job in jobs[:2]:
            before = sum(len(files) for _, _, files in os.walk(tmp_path))
            deleted.clear()
            delete_folder(job, holding)
            assert not job.exists()
            assert len(list(holding.iterdir())) == 1, "only the folder in which the program writes"
            assert caplog.text.count("a program still writes there; the next deletion goes on") == 1
            assert len(deleted) < before + 20 * deletion._PORTION, "the clock of file systems moves in steps"
            caplog.clear()
    delete_folder(jobs[2], holding)
    assert list(holding.iterdir()) == []
    assert caplog.text == ""


def test_a_program_that_makes_folders_deeper_than_are_emptied_in_place_keeps_nobody_waiting(
    tmp_path, monkeypatch, caplog
):
    """Each is moved, and is then one more folder in the holding folder."""
    monkeypatch.setattr(deletion, "_MOST_PORTIONS", 1_000)
    job, holding, made, rename = tmp_path / "job", tmp_path / "held", [], os.rename
    nested = "/".join("abcdefghijkl")
    (job / nested).mkdir(parents=True)

    def write(*arguments, **named):
        rename(*arguments, **named)
        made.append(holding / next(iter(os.listdir(holding))) / str(len(made)) / nested)
        made[-1].mkdir(parents=True)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", write)
        delete_folder(job, holding)
    assert "a program still writes there" in caplog.text
    assert len(made) < 300
    delete_folder(job, holding)
    assert list(holding.iterdir()) == []


@pytest.mark.parametrize("inner", ["", "inner"])
def test_a_file_that_comes_when_its_folder_was_just_emptied_is_deleted_too(tmp_path, monkeypatch, caplog, inner):
    job, holding, remove, came = tmp_path / "job", tmp_path / "held", os.rmdir, []
    (job / inner).mkdir(parents=True)
    (job / inner / "file").touch()
    handle = os.open(job / inner, os.O_RDONLY)

    def write(name, *, dir_fd=None):
        if os.listdir(handle) == [] and not came:
            came.append(name)
            os.close(os.open("late", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
        remove(name, dir_fd=dir_fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", write)
        delete_folder(job, holding)
    os.close(handle)
    assert came
    assert list(holding.iterdir()) == []
    assert caplog.text == ""
