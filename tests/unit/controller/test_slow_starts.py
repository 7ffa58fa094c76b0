"""What keeps a job from starting is told to its owner as long as it is so, and logged without a warning."""

import logging

import pytest

from jupyter_gq.domain.mentions import reveal
from tests.fakes import FakeBackend

from .world import ANN, World

pytestmark = pytest.mark.asyncio

UNPLACED = "The cluster does not place the pod gq-a-1-0 yet: Insufficient cpu"
WRONG = "The node does not answer."


class SlowBackend(FakeBackend):
    """A backend whose runs start when the test says so."""

    may_start = False

    def _go_on(self, run):
        if self.may_start:
            super()._go_on(run)


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path, backend=SlowBackend)
    yield world
    world.close()


async def test_the_owner_reads_why_a_job_does_not_start_until_it_runs(world, caplog):
    caplog.set_level(logging.INFO)
    job = world.send(ANN, "vision")
    await world.step(2)
    (run,) = world.backend.runs.values()
    assert reveal(world.job(job).sentence) == "Starting on 1 GPU of A100-40GB."
    run.sentence = UNPLACED
    await world.step(3)
    assert reveal(world.job(job).sentence) == f"Starting on 1 GPU of A100-40GB. {UNPLACED}"
    assert [(each.levelname, each.message) for each in caplog.records if UNPLACED in each.message] == [
        ("INFO", f"{job}: {UNPLACED}")
    ], "once"
    world.backend.may_start, run.sentence = True, ""
    await world.step(2)
    assert reveal(world.job(job).sentence) == "Running on 1 GPU of A100-40GB."


async def test_what_is_wrong_with_a_job_that_started_late_is_a_warning(world, caplog):
    job = world.send(ANN, "vision")
    await world.step(2)
    (run,) = world.backend.runs.values()
    run.sentence = UNPLACED
    await world.step(2)
    world.backend.may_start, run.sentence = True, WRONG
    await world.step(3)
    assert WRONG in reveal(world.job(job).sentence)
    warnings = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert [told for told in warnings if told.startswith(job)] == [f"{job}: {WRONG}"]
