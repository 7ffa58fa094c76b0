"""Whatever a job has written into its folder, a step of the scheduler stays short, and its folder goes in the end."""

import os
import signal
import sys
import threading
from contextlib import contextmanager

import pytest

from jupyter_gq.backends.local import LocalBundles, deletion
from jupyter_gq.backends.local.deletion import delete_folder
from jupyter_gq.backends.protocol import Outcome, Phase
from tests.patience import until

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


def test_folders_with_files_on_many_levels_are_deleted(tmp_path):
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


def test_a_program_that_writes_while_its_folder_is_deleted_keeps_nobody_waiting(tmp_path, monkeypatch, caplog):
    """It stands in the folder, so it may write there after the move. The next deletion finishes the work."""
    monkeypatch.setattr(deletion, "_MOST_PORTIONS", 20)
    monkeypatch.setattr(deletion, "_PORTION", 3)
    job, holding = tmp_path / "job", tmp_path / "held"
    job.mkdir()
    handle, over, made = os.open(job, os.O_RDONLY), threading.Event(), []

    def write():
        while not over.is_set():
            made.append(os.open(str(len(made)), os.O_CREAT | os.O_WRONLY, dir_fd=handle))
            os.close(made[-1])

    writing = threading.Thread(target=write)
    writing.start()
    until(lambda: len(made) > 500, "there are more files than may be deleted at once")
    delete_folder(job, holding)
    over.set()
    writing.join()
    os.close(handle)
    assert not job.exists()
    assert "is not empty after 20 portions" in caplog.text
    monkeypatch.undo()
    delete_folder(job, holding)
    assert list(holding.iterdir()) == []
