"""What would happen is said as it would be decided, by the scheduler that is kept; asking changes nothing."""

import contextlib

import pytest

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.models import JobChange, JobRequest
from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.preview import admission
from tests.builders import a_job, a_notebook
from tests.fakes import PlaceIsTaken
from tests.outlooks import preview

from .world import ANN, BOB, CAROL, World

pytestmark = pytest.mark.asyncio

#: Carol has no notebook, so the queue tree has no leaf of Carol's.
DAVE = Caller(user="dave", groups=frozenset({"vision"}))


@pytest.fixture
def deciding(world: World):
    return world.controller._decider


async def busy(world: World) -> None:
    for _ in range(3):
        world.send(ANN, "vision", "0.5")
    world.send(BOB, "nlp", "0.5")
    await world.start_server(CAROL, "0.5")
    await world.step(3)


def cold(world: World, workload: Workload, *also: Caller) -> admission.Outlook:
    context = world.controller._context
    return preview(context.snapshot(also), context.settings.policy, world.clock.now(), workload)


async def test_it_says_what_a_cycle_that_sees_everything_for_the_first_time_says(world, deciding):
    await busy(world)
    kept = deciding._scheduler
    jobs = [a_job("preview", queue, gpus) for queue in ("vision", "nlp") for gpus in ("0.25", "0.5", "1", "2")]
    assert deciding.preview(ANN, jobs) == [cold(world, job) for job in jobs]
    amounts = [a_notebook("carol", gpus, id="choice") for gpus in ("0.25", "0.5", "1")]
    assert deciding.preview(CAROL, amounts) == [cold(world, notebook) for notebook in amounts]
    assert deciding._scheduler is kept, "nothing was counted anew"
    context = world.controller._context
    assert deciding.decide() == run_cycle(context.snapshot(), context.settings.policy, world.clock.now())


async def test_who_has_no_place_in_the_tree_yet_is_answered_and_the_scheduler_kept(world, deciding):
    await busy(world)
    kept = deciding._scheduler
    amounts = [a_notebook("dave", gpus, id="choice") for gpus in ("0.25", "0.5")]
    assert deciding.preview(DAVE, amounts) == [cold(world, notebook, DAVE) for notebook in amounts]
    deciding.decide()
    assert deciding._scheduler is kept


async def test_a_question_that_fails_spoils_nothing(world, deciding):
    await busy(world)
    known = world.controller._context.snapshot().workloads[0]
    with pytest.raises(ValueError, match="known already"):
        deciding.preview(ANN, [known])
    context = world.controller._context
    assert deciding.decide() == run_cycle(context.snapshot(), context.settings.policy, world.clock.now())
    assert (await world.controller.previews.preview(ANN, JobRequest(queue="vision", gpus="0.25"))).sentence


async def test_whose_place_was_refused_a_moment_ago_is_in_nobodys_way(tmp_path):
    """As in the next step, which leaves it out."""
    with contextlib.closing(World(tmp_path, backend=PlaceIsTaken)) as world:
        refused = world.send(ANN, "vision")
        await world.step(3)
        assert "The scheduler tries again after a pause" in world.job(refused).sentence
        assert (await world.controller.previews.preview(BOB, JobRequest(queue="nlp", gpus="1"))).starts_now


async def test_a_preview_says_that_the_group_has_to_wait_for_its_turn(world):
    request = JobRequest(queue="vision", gpus="0.25", group="sweep-1", group_parallel=1)
    assert (await world.controller.previews.preview(ANN, request)).starts_now
    world.send(ANN, "vision", "0.25", group="sweep-1", group_parallel=1)
    seen = await world.controller.previews.preview(ANN, request)
    assert not seen.starts_now
    assert "its group may run at most 1 at the same time" in seen.sentence
    assert seen.alternatives == []
    assert (await world.controller.previews.preview(BOB, request.model_copy(update={"queue": "nlp"}))).starts_now


async def test_the_place_for_which_a_job_was_paused_is_kept_by_the_next_service(world):
    """A job that is older and as entitled is released after the restart."""
    world.backend._told_to_stop = lambda run: None  # it takes its time
    for _ in range(2):
        victim = world.send(BOB, "nlp", "0.5")
        await world.step(2)
    older = world.send(ANN, "vision", "0.5")
    world.controller.job_changes.change(ANN, older, JobChange(held=True))
    younger = world.send(ANN, "vision", "0.5")
    await world.step(1)
    assert world.sql.get(victim).workload.stop.by == younger
    world.restart()
    world.controller.job_changes.change(ANN, older, JobChange(held=False))
    world.backend.end(victim, Outcome.PAUSED)
    await world.step(3)
    assert (world.job(younger).phase, world.job(older).phase) == ("running", "waiting")
