"""The sentence of a paused job: why it was paused, and what it waits for if that is something else by now."""

import pytest

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.models import JobChange

from .world import ANN, BOB, World, story_settings

pytestmark = pytest.mark.asyncio


def settings(*, nlp="0", **vision):
    queues = {
        "vision": {"quota": "1", "groups": ["vision"], **vision},
        "nlp": {"quota": nlp, "groups": ["nlp"]},
    }
    return story_settings(TrainingQueues={"queues": queues})


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path, settings=settings())
    yield world
    world.close()


async def paused_by_a_lower_limit(world):
    job = world.send(ANN, "vision", "1")
    await world.step(3)
    assert world.job(job).phase == "running"
    world.settings.current = settings(limit="0", quota="0")
    await world.step(4)
    assert world.job(job).sentence == (
        "Paused: the limit of vision was lowered to 0 GPU, less than it needs. Waiting: the limit of vision is 0 GPU, "
        "0 of it is in use, and it needs 1. Ask for less, or wait for a higher limit."
    )
    return job


async def test_a_limit_that_is_gone_is_not_all_that_is_said(world):
    job = await paused_by_a_lower_limit(world)
    world.send(BOB, "nlp", "1")
    await world.step(3)
    world.settings.current = settings(quota="0")
    await world.step(2)
    told, _, now = world.job(job).sentence.partition(" Waiting: ")
    assert told == "Paused: the limit of vision was lowered to 0 GPU, less than it needs."
    assert "GPU" in now, "nothing about what it waits for now"
    assert "higher limit" not in now, "there is no limit any more"


async def test_a_limit_that_was_lowered_again_is_told_as_it_is(world):
    small = world.send(ANN, "vision", "0.5")
    await world.step(3)
    world.settings.current = settings(limit="0.1", quota="0")
    await world.step(4)
    world.settings.current = settings(limit="0", quota="0")
    await world.step(2)
    sentence = world.job(small).sentence
    assert sentence.startswith("Paused: the limit of vision was lowered to 0.1 GPU, less than it needs. Waiting: ")
    assert "the limit of vision is 0 GPU" in sentence


async def test_a_limit_that_has_come_since_the_pause_is_told(world):
    mine = world.send(ANN, "vision", "1")
    await world.step(3)
    world.settings.current = settings(quota="0", nlp="1")
    world.send(BOB, "nlp", "1")
    await world.step(4)
    reclaimed = "Paused: nlp needed its 1 GPU back. Continues by itself when a GPU is free."
    assert world.job(mine).sentence == reclaimed
    world.settings.current = settings(limit="0", quota="0")
    await world.step(2)
    assert world.job(mine).sentence.startswith(f"{reclaimed} Waiting: the limit of vision is 0 GPU")


async def test_a_limit_counts_as_told_only_if_it_was_the_last_pause(world):
    job = await paused_by_a_lower_limit(world)
    world.settings.current = settings()
    await world.step(4)
    assert world.job(job).phase == "running"
    world.backend.end(job, Outcome.LOST, "The node is gone.")
    world.settings.current = settings(limit="0", quota="0")
    await world.step(4)
    assert world.job(job).phase == "paused"
    assert "Waiting: the limit of vision is 0 GPU" in world.job(job).sentence


async def test_a_job_that_pauses_for_a_limit_says_what_a_higher_limit_does(world):
    job = world.send(ANN, "vision", "1")
    await world.step(3)
    world.settings.current = settings(limit="0", quota="0")
    await world.step(1)
    shown = world.job(job)
    assert shown.phase == "pausing"
    assert shown.sentence == (
        "Pausing: the limit of vision was lowered to 0 GPU, less than it needs. Continues by itself once the limit is "
        "high enough."
    )


async def test_a_pause_before_the_code_begins_loses_nothing(world):
    job = world.send(ANN, "vision", "1")
    await world.step()
    starting = world.job(job)
    assert (starting.phase, starting.pause.sentence) == (
        "starting",
        "Its code has not begun yet, so a pause loses nothing.",
    )
    held = world.controller.job_changes.change(ANN, job, JobChange(held=True))
    assert held.pause.sentence == "Its code has not begun yet, so nothing is lost."
    world.controller.job_changes.change(ANN, job, JobChange(held=False))


async def test_a_job_that_copies_checkpoints_before_its_first_cell_loses_nothing(world):
    earlier = world.send(ANN, "vision", "1")
    await world.step(3)
    world.controller.jobs.cancel(ANN, earlier)
    await world.step(10)
    job = world.send(ANN, "vision", "1", continue_from=earlier)
    await world.step(3)
    shown = world.job(job)
    assert (shown.phase, shown.pause.sentence) == ("running", "Its code has not begun yet, so a pause loses nothing.")
    held = world.controller.job_changes.change(ANN, job, JobChange(held=True))
    assert held.pause.sentence == "Its code has not begun yet, so nothing is lost."
    await world.step(5)
    shown = world.job(job)
    assert (shown.phase, shown.pause.sentence) == ("paused", "Its code has not begun yet, so nothing is lost.")


async def test_once_the_code_has_begun_a_pause_without_checkpoints_starts_again(world):
    job = world.send(ANN, "vision", "1")
    await world.step(3)
    assert "starts again from the beginning" in world.job(job).pause.sentence
    world.controller.job_changes.change(ANN, job, JobChange(held=True))
    await world.step(5)
    shown = world.job(job)
    assert (shown.phase, shown.pause.sentence) == (
        "paused",
        "It starts again from the beginning, since it has saved no checkpoint.",
    )
