"""Outputs that an ended run has left are stored by the service, while the devices of the run are free."""

import pytest

from jupyter_gq.domain.errors import UnusableFile
from tests.fakes import StoreTakesNoOutputs

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
