"""Outputs that an ended run has left are stored by the service, while the devices of the run are free."""

import threading

import pytest

from jupyter_gq.client.models import JobChange
from jupyter_gq.client.outputs.fold import make_notice
from jupyter_gq.controller.loop.runs.left_outputs import LEAST_SILENCE, LONGEST_SILENCE, UNREADABLE
from jupyter_gq.domain.errors import UnansweredFile, UnusableFile
from jupyter_gq.domain.states import State
from tests.fakes import StoreTakesNoOutputs
from tests.patience import eventually, scaled

from .world import ANN, BOB

pytestmark = pytest.mark.asyncio


def a_piece(seq, text="x"):
    output = {"output_type": "stream", "name": "stdout", "text": text}
    return {"seq": seq, "run": 1, "at": 0.0, "op": "append", "cell": "c1", "output": output}


async def an_ended_job(world, *portions):
    """Return a job whose run has ended and has left these portions of output."""
    job = world.send(ANN, "vision")
    await world.step(2)
    world.bundles.left[job] = list(portions)
    world.backend.end(job)
    return job


def numbers(page):
    return [event["seq"] for event in page.events]


async def test_devices_are_free_while_outputs_are_stored_portion_by_portion(world):
    job = await an_ended_job(world, [a_piece(1), a_piece(2)], [a_piece(3)])
    waiting = world.send(BOB, "nlp")
    await world.step()
    assert world.job(job).phase == "done"
    assert world.job(waiting).phase in ("starting", "running")
    page = world.controller.jobs.read_outputs(ANN, job, 0)
    assert (numbers(page), page.finished) == ([1, 2], False)
    await world.step()
    page = world.controller.jobs.read_outputs(ANN, job, 0)
    assert (numbers(page), page.finished) == ([1, 2, 3], True)
    assert job not in {name for name, _ in world.backend.runs}, "its backend is not told to forget the run"


async def test_outputs_of_a_short_run_are_complete_at_its_end(world):
    job = await an_ended_job(world, [a_piece(1)])
    await world.step()
    assert world.controller.jobs.read_outputs(ANN, job, 0).finished


async def test_pieces_that_the_service_has_are_not_stored_twice(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    world.controller.jobs.append_outputs(job, [a_piece(1)])
    world.bundles.left[job] = [[a_piece(1), a_piece(2), {"op": "append"}, {"last": 7}, a_piece(4)]]
    world.backend.end(job)
    await world.step(3)
    assert numbers(world.controller.jobs.read_outputs(ANN, job, 0)) == [1, 2]


async def test_outputs_wait_for_room_in_the_database(world):
    full = world.store = StoreTakesNoOutputs(world.sql)
    world.restart()
    job = await an_ended_job(world, [a_piece(1)])
    await world.step(2)
    assert world.job(job).phase == "done"
    assert not world.controller.jobs.read_outputs(ANN, job, 0).finished
    full.full = False
    await world.step(2)
    page = world.controller.jobs.read_outputs(ANN, job, 0)
    assert (numbers(page), page.finished) == ([1], True)


async def test_outputs_are_stored_after_a_restart(world):
    job = await an_ended_job(world, [a_piece(1)], [a_piece(2)])
    await world.step()
    world.restart()
    await world.step(3)
    assert numbers(world.controller.jobs.read_outputs(ANN, job, 0)) == [1, 2]


async def test_outputs_that_cannot_be_read_keep_no_run(world, monkeypatch):
    job = await an_ended_job(world)

    def refuse(*_args):
        raise UnusableFile("spool.jsonl", "it is not a regular file")

    monkeypatch.setattr(world.bundles, "left_outputs", refuse)
    await world.step(2)
    assert world.controller.jobs.read_outputs(ANN, job, 0).finished


async def test_outputs_that_take_long_to_read_delay_no_step_for_long_and_take_turns(world, monkeypatch):
    jobs = [world.send(ANN, "vision", "0.5"), world.send(BOB, "nlp", "0.5")]
    await world.step(2)
    for job in jobs:
        world.bundles.left[job] = [[a_piece(1)], [a_piece(2)]]
        world.backend.end(job)
    read, portion = [], world.bundles.left_outputs

    def slow(job, owner, run, start):
        world.clock.forward(5)
        read.append((jobs.index(job), start))
        return portion(job, owner, run, start)

    monkeypatch.setattr(world.bundles, "left_outputs", slow)
    for step in range(4):
        await world.step()
        assert len(read) == step + 1, "one portion in each step"
    assert sorted(read[:2]) == [(0, 0), (1, 0)], "no job is read again before the other"
    assert sorted(read) == [(0, 0), (0, 1), (1, 0), (1, 1)]


async def test_outputs_are_read_again_once_their_files_answer(world, monkeypatch):
    job = await an_ended_job(world, [a_piece(1)])

    def refuse(*_args):
        raise UnansweredFile("spool.jsonl", "the file system gave no answer for 5 s")

    with monkeypatch.context() as files:
        files.setattr(world.bundles, "left_outputs", refuse)
        await world.step(2)
        assert not world.controller.jobs.read_outputs(ANN, job, 0).finished
    await world.step(2)
    page = world.controller.jobs.read_outputs(ANN, job, 0)
    assert (numbers(page), page.finished) == ([1], True)


def refuse_to_answer(*_args):
    raise UnansweredFile("spool.jsonl", "the file system gave no answer for 5 s")


async def a_job_whose_files_are_silent(world, monkeypatch):
    """Return a job that has ended after one stored piece, and whose files do not answer."""
    job = world.send(ANN, "vision")
    await world.step(2)
    world.controller.jobs.append_outputs(job, [a_piece(1)])
    monkeypatch.setattr(world.bundles, "left_outputs", refuse_to_answer)
    world.backend.end(job)
    await world.step(2)
    return job


async def test_a_job_whose_files_are_silent_for_a_day_says_so_and_is_deleted_in_time(world, monkeypatch):
    job = await a_job_whose_files_are_silent(world, monkeypatch)
    world.clock.forward(LONGEST_SILENCE - 60)
    await world.step()
    assert not world.controller.jobs.read_outputs(ANN, job, 0).finished
    world.clock.forward(120)
    await world.step(2)
    page = world.controller.jobs.read_outputs(ANN, job, 0)
    assert page.finished
    assert page.events[-1]["output"] == make_notice(UNREADABLE)
    assert page.events[-1]["cell"] == "c1"
    assert job not in {name for name, _ in world.backend.runs}, "its backend is told to forget the run"
    world.clock.forward(31 * 86400)
    assert await world.controller.retention.sweep() == 1


async def test_files_that_are_silent_for_a_day_stop_nobody_while_the_disk_is_full(world, monkeypatch):
    full = world.store = StoreTakesNoOutputs(world.sql)
    full.full = False
    world.restart()
    job = await a_job_whose_files_are_silent(world, monkeypatch)
    full.full = True
    world.clock.forward(LONGEST_SILENCE + 1)
    other = world.send(BOB, "nlp")
    await world.step(3)
    assert world.job(other).phase == "running"
    assert not world.controller.jobs.read_outputs(ANN, job, 0).finished
    full.full = False
    await world.step(2)
    page = world.controller.jobs.read_outputs(ANN, job, 0)
    assert (page.finished, page.events[-1]["output"]) == (True, make_notice(UNREADABLE))


async def test_a_clock_that_leaps_gives_no_outputs_up(world, monkeypatch):
    job = await a_job_whose_files_are_silent(world, monkeypatch)
    world.clock.set(LONGEST_SILENCE * 30)
    await world.step(2)
    assert not world.controller.jobs.read_outputs(ANN, job, 0).finished


async def test_files_that_do_not_answer_keep_no_step_waiting_and_no_other_user(world, monkeypatch):
    jobs = [world.send(ANN, "vision", "0.5"), world.send(BOB, "nlp", "0.5")]
    await world.step(2)
    for job in jobs:
        world.bundles.left[job] = [[a_piece(1)]]
        world.backend.end(job)
    answer, portion, read = threading.Event(), world.bundles.left_outputs, []

    def wait_for_ann(job, owner, run, start):
        read.append(job)
        if job == jobs[0]:
            answer.wait(scaled(30))
        return portion(job, owner, run, start)

    monkeypatch.setattr(world.bundles, "left_outputs", wait_for_ann)

    def is_stored(owner, job):
        return world.controller.jobs.read_outputs(owner, job, 0).finished

    try:
        await world.step(2)
        assert [is_stored(ANN, jobs[0]), is_stored(BOB, jobs[1])] == [False, True]
    finally:
        answer.set()

    async def ends():
        await world.step()
        return is_stored(ANN, jobs[0])

    await eventually(ends, "the outputs of ann")
    assert read.count(jobs[0]) == 1, "one reading at a time"


async def test_files_that_were_not_asked_for_are_not_silent(world, monkeypatch):
    def refuse(*_args):
        raise UnansweredFile("spool.jsonl", "the files of ann are not asked for", asked=False)

    job = await a_job_whose_files_are_silent(world, monkeypatch)
    with monkeypatch.context() as files:
        files.setattr(world.bundles, "left_outputs", refuse)
        world.clock.forward(2 * LONGEST_SILENCE)
        await world.step(2)
        assert not world.controller.jobs.read_outputs(ANN, job, 0).finished
    await world.step(2)
    assert world.controller.jobs.read_outputs(ANN, job, 0).finished


async def test_the_outputs_of_a_job_that_waits_for_its_next_run_are_not_given_up_after_an_hour(world, monkeypatch):
    job = world.send(ANN, "vision")
    await world.step(2)
    world.bundles.left[job] = [[a_piece(1)]]
    with monkeypatch.context() as files:
        files.setattr(world.bundles, "left_outputs", refuse_to_answer)
        world.controller.job_changes.change(ANN, job, JobChange(held=True))
        await world.step(3)
        assert world.sql.get(job).workload.state is State.PENDING
        for _ in range(4):
            world.clock.forward(LEAST_SILENCE)
            await world.step()
    await world.step(2)
    assert numbers(world.controller.jobs.read_outputs(ANN, job, 0)) == [1]


async def test_outputs_behind_which_the_next_run_has_begun_are_left_out_after_an_hour_and_the_log_says_so(
    world, monkeypatch, caplog
):
    job = world.send(ANN, "vision")
    await world.step(2)
    world.bundles.left[job] = [[a_piece(1)]]
    monkeypatch.setattr(world.bundles, "left_outputs", refuse_to_answer)
    world.controller.job_changes.change(ANN, job, JobChange(held=True))
    await world.step(3)
    world.controller.job_changes.change(ANN, job, JobChange(held=False))
    await world.step(3)
    assert world.job(job).run == 2
    world.clock.forward(LEAST_SILENCE - 60)
    await world.step()
    assert (job, 1) in world.controller._context.ended_runs
    world.clock.forward(120)
    await world.step()
    assert (job, 1) not in world.controller._context.ended_runs
    assert f"the last outputs of run 1 of {job} are left out" in caplog.text
