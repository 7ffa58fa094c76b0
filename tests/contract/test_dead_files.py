"""Files of one user that do not answer keep no other user's job waiting, and not the service."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from dataclasses import replace

import pytest

from jupyter_gq.backends.local import task_results, user_access
from jupyter_gq.backends.local.accounts import UnixAccounts
from jupyter_gq.backends.local.ledger import Run
from jupyter_gq.backends.local.results import HALF_STARTED
from jupyter_gq.backends.local.tasks import TaskInputs
from jupyter_gq.backends.processes import ProcessTable
from jupyter_gq.backends.protocol import Launch, Outcome, Phase
from jupyter_gq.devices.linux.processes import boot_id
from jupyter_gq.domain.errors import StartUnanswered
from jupyter_gq.domain.workload_detail import WorkloadDetail
from tests.kubernetes.waiting import eventually
from tests.patience import scaled

from .dead_disk import covered
from .test_resize import places
from .worlds import read_when_there, runs

pytestmark = pytest.mark.asyncio


@contextlib.asynccontextmanager
async def watched_loop():
    """Measure for how long the event loop was held up at most, in seconds; the list has it at the end."""
    longest, over = [0.0], asyncio.Event()

    async def watch():
        while not over.is_set():
            began = time.monotonic()  # noqa: TID251 - the loop is real
            await asyncio.sleep(0.01)
            longest[0] = max(longest[0], time.monotonic() - began)  # noqa: TID251 - the loop is real

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    try:
        yield longest
    finally:
        over.set()
        await watching


def marked(workload, task=0):
    return ProcessTable.read().find_marked("JUPYTER_GQ_RUN", f"{workload.id}/{workload.run}/{task}")


@pytest.fixture(autouse=True)
def _files_are_waited_for():
    """Not here: these tests are about the end of that wait."""


@pytest.fixture
def patient(monkeypatch):
    """Let an access to files wait for much longer than a step may."""
    monkeypatch.setattr(user_access, "DEADLINE", scaled(4))


async def launch_in(world, workload, folder):
    """Launch a workload that is to work in this folder."""
    if workload.id not in world.bundles.jobs():
        world.prepare(workload)
    detail = WorkloadDetail(cwd=str(folder))
    environment = {"GQ_TEST": str(world.folder)}
    await world.backend.launch(Launch(workload=workload, detail=detail, environment=environment, token="secret"))


async def test_a_launch_whose_folder_does_not_answer_keeps_nobody_waiting_and_goes_on(local, patient, tmp_path):
    stuck = local.workload()
    with covered(tmp_path / "dead") as folder:
        async with watched_loop() as longest:
            began = time.monotonic()  # noqa: TID251 - the loop is real
            await launch_in(local, stuck, folder)
            took = time.monotonic() - began  # noqa: TID251 - the loop is real
            await launch_in(local, stuck, folder)  # again, as after a store that failed
            seen = await local.observed(stuck)
        assert (seen.phase, seen.placement, seen.pids) == (Phase.STARTING, stuck.placement, ())
        assert took < user_access.DEADLINE
        assert longest[0] < user_access.DEADLINE
        local.owner = "bob"
        other = local.workload()
        await local.launch(other)
        await local.running(other)
        await local.running(stuck)
    assert len(marked(stuck)) == 1, "it was started once, where its owner can work"


async def test_a_job_whose_files_give_no_answer_is_not_failed_by_its_start(local, monkeypatch, tmp_path):
    workload = local.workload()
    local.prepare(workload)
    with monkeypatch.context() as impatient, covered(local.job(workload)):
        impatient.setattr(user_access, "DEADLINE", 0.1)
        with pytest.raises(StartUnanswered, match="gave no answer"):
            await launch_in(local, workload, tmp_path)


def end_service(local):
    """End the service of this world, which leaves its starts as they are, and begin another."""
    for start in local.backend._starts._works.values():
        start.cancel()
    local.backend = local.new_backend()


async def test_a_start_that_a_service_left_is_no_lost_run(local, patient, tmp_path):
    workload = local.workload()
    with covered(tmp_path / "dead") as folder:
        await launch_in(local, workload, folder)
        end_service(local)
        end = await local.end(workload)
    assert (end.outcome, end.sentence) == (Outcome.REFUSED, HALF_STARTED)


async def test_a_start_that_a_service_left_with_a_silent_folder_holds_its_devices_until_it_is_given_up(
    local, patient, monkeypatch, tmp_path
):
    workload = local.workload()
    local.prepare(workload)
    with covered(local.job(workload)):
        async with watched_loop() as longest:
            await launch_in(local, workload, tmp_path)
        assert longest[0] < user_access.DEADLINE
        end_service(local)
        monkeypatch.setattr(user_access, "DEADLINE", 0.2)
        seen = await local.observed(workload)
        assert (seen.phase, seen.placement) == (Phase.STARTING, workload.placement)
        monkeypatch.setattr(task_results, "LONGEST_SILENCE", 0.0)
        assert (await local.end(workload)).outcome is Outcome.REFUSED


async def test_a_start_that_is_stopped_meanwhile_leaves_nothing(local, patient, tmp_path):
    workload = local.workload(tasks=2)
    with covered(tmp_path / "dead") as folder:
        await launch_in(local, workload, folder)
        await local.backend.stop(workload.id, workload.run, 0)
        end = await local.end(workload)
    assert end.outcome is Outcome.KILLED
    assert not marked(workload)


async def test_a_start_that_fails_late_ends_the_run_with_its_sentence(local, patient, tmp_path):
    workload = local.workload(tasks=2)
    local.prepare(workload)
    (local.job(workload) / "runs/1").mkdir(parents=True)
    local.task(workload, 1).write_text("in the way of the folder of task 1")
    with covered(tmp_path / "dead") as folder:
        await local.backend.launch(
            Launch(workload=workload, detail=WorkloadDetail(cwd=str(folder)), environment={}, token="secret")
        )
        assert (await local.observed(workload)).phase is Phase.STARTING
        end = await local.end(workload)
    assert end.outcome is Outcome.FAILED
    assert end.sentence.startswith("The start failed: Task 1 could not be started: ")
    assert not marked(workload)


async def test_an_observation_waits_for_no_folder_that_does_not_answer(local, patient):
    stuck = local.workload()
    await local.launch(stuck)
    local.owner = "bob"
    other = local.workload()
    await local.launch(other)
    with covered(local.task(stuck)):
        async with watched_loop() as longest:
            began = time.monotonic()  # noqa: TID251 - the loop is real
            seen = await local.observed(stuck)
            assert (await local.observed(other)).phase is Phase.RUNNING
            took = time.monotonic() - began  # noqa: TID251 - the loop is real
        assert seen.phase is Phase.RUNNING
        assert longest[0] < user_access.DEADLINE
        assert took < user_access.DEADLINE


async def test_a_run_ends_at_once_while_starts_of_its_owner_hang(local, patient, tmp_path):
    """A start takes a turn of its owner for as long as its folder does not answer; a result needs none of these."""
    ended = await end_behind_a_cover(local)
    began = time.monotonic()  # noqa: TID251 - the folder is real
    with covered(tmp_path / "dead") as folder:
        for _ in range(2):
            await launch_in(local, local.workload(), folder)
        assert (await local.observed(ended)).outcome is Outcome.PAUSED
        assert time.monotonic() - began < user_access.DEADLINE, "the starts hang still"  # noqa: TID251


async def test_a_folder_that_falls_silent_at_the_start_holds_up_its_own_task_only(local, monkeypatch, tmp_path):
    """The folder has answered when it was chosen, and does not when the task is to enter it."""
    monkeypatch.setattr(subprocess, "_USE_VFORK", False)  # a start that hangs in a vfork would stop this test too
    workload = local.workload()
    local.prepare(workload)
    account = UnixAccounts(system_users=False).look_up("ann")
    fields = {"job": workload.id, "number": 1, "owner": "ann", "tasks": (None,), "launched_at": 0.0, "boot": boot_id()}
    inputs = TaskInputs(environment={"GQ_TEST": str(tmp_path), "PATH": os.environ["PATH"]}, token="secret")
    starter = local.backend._launcher._starter
    with covered(tmp_path / "dead") as folder:
        starting = asyncio.create_task(asyncio.to_thread(starter.start, Run(**fields), 0, account, str(folder), inputs))
        await asyncio.wait([starting], timeout=scaled(10))
        assert starting.done(), "a thread of the service waits for the folder"
        started = starting.result()
        os.kill(started.pid, signal.SIGKILL)
        local.backend._children.add(started.pid)  # `observe` reaps it


async def end_behind_a_cover(local):
    """Launch a workload whose processes end; return it."""
    workload = local.workload()
    await local.launch(workload)
    os.kill(local.leader(workload), signal.SIGTERM)
    result = local.task(workload) / "result.json"
    await eventually(lambda: result.exists() and not runs(local.leader(workload)), "the end of the process")
    return workload


async def test_a_run_ends_with_what_it_wrote_once_its_folder_answers(local, monkeypatch):
    """Its processes are gone, and its result is not known yet: it keeps its devices and does not count as lost."""
    workload = await end_behind_a_cover(local)
    with monkeypatch.context() as impatient, covered(local.task(workload)):
        impatient.setattr(user_access, "DEADLINE", 0.2)
        for _ in range(3):
            seen = await local.observed(workload)
            assert (seen.phase, seen.pids, seen.placement) == (Phase.RUNNING, (), workload.placement)
    assert (await local.end(workload)).outcome is Outcome.PAUSED


async def test_a_run_whose_folder_is_silent_for_too_long_is_lost(local, monkeypatch):
    workload = await end_behind_a_cover(local)
    with monkeypatch.context() as impatient, covered(local.task(workload)):
        impatient.setattr(user_access, "DEADLINE", 0.2)
        impatient.setattr(task_results, "LONGEST_SILENCE", 0.0)
        assert (await local.end(workload)).outcome is Outcome.LOST


async def test_a_run_whose_folder_was_not_asked_is_not_lost(local, monkeypatch):
    """Other file systems of its owner are silent, so nothing is known about this one."""
    workload = await end_behind_a_cover(local)
    with monkeypatch.context() as refused:
        refused.setattr(user_access, "MOST_OF_USER", 0)
        refused.setattr(task_results, "LONGEST_SILENCE", 0.0)
        for _ in range(3):
            assert (await local.observed(workload)).phase is Phase.RUNNING
    assert (await local.end(workload)).outcome is Outcome.PAUSED


async def test_a_stop_carried_out_although_the_folder_does_not_answer(local, patient):
    workload = local.workload()
    await local.launch(workload, {"ignores stop": True})
    leader = local.leader(workload)
    with covered(local.task(workload)):
        await local.observed(workload)
        await local.backend.stop(workload.id, workload.run, 0)
        await local.observed(workload)
        await eventually(lambda: not runs(leader), "the end of the process")


async def grow_in(world, workload, folder):
    """Ask for one more task, which is to work in this folder; return the workload with it."""
    wanted = replace(workload, placement=places(0, 1))
    environment = {"GQ_TEST": str(world.folder)}
    await world.backend.resize(wanted, WorkloadDetail(cwd=str(folder)), environment, world.grace)
    return wanted


async def test_a_task_that_joins_late_keeps_nobody_waiting(local, patient, tmp_path):
    workload = local.workload(tasks=2, min_members=1, placement=places(0))
    local.prepare(workload)
    await local.request(workload)
    await read_when_there(local.task(workload) / "ready")
    await local.running(workload)
    with covered(tmp_path / "dead") as folder:
        async with watched_loop() as longest:
            began = time.monotonic()  # noqa: TID251 - the loop is real
            wanted = await grow_in(local, workload, folder)
            assert (await local.observed(workload)).phase is Phase.RUNNING
            await grow_in(local, workload, folder)
            assert time.monotonic() - began < user_access.DEADLINE  # noqa: TID251 - the loop is real
        assert longest[0] < user_access.DEADLINE

        async def grown():
            return (await local.observed(workload)).placement == wanted.placement

        await eventually(grown, "the second task")
    assert [len(marked(workload, task)) for task in range(2)] == [1, 1]


async def test_a_run_that_is_stopped_while_a_task_joins_ends_as_a_whole(local, patient, tmp_path):
    workload = local.workload(tasks=2, min_members=1, placement=places(0))
    local.prepare(workload)
    await local.request(workload)
    await read_when_there(local.task(workload) / "ready")
    with covered(tmp_path / "dead") as folder:
        await grow_in(local, workload, folder)
        await local.backend.stop(workload.id, workload.run, local.grace)
        assert (await local.end(workload)).outcome is Outcome.PAUSED
    assert not [pid for task in range(2) for pid in marked(workload, task)]
