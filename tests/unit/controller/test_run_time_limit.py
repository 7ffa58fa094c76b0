"""Jobs end at their maximum running time, with their state saved and a sentence that says whose limit it was."""

from dataclasses import replace

import pytest

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.models import JobChange
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.settings.traits import SettingsError
from jupyter_gq.domain.audit import Action, AuditFilter
from jupyter_gq.domain.errors import ManagersOnly
from jupyter_gq.domain.mentions import reveal

from .world import ADMIN, ANN, World, a_submission, story_settings

pytestmark = pytest.mark.asyncio


def limited(world: World, seconds: float | None) -> None:
    """The queue vision limits its jobs to so many seconds."""
    queue = {"quota": "0.5", "groups": ["vision"], "max_seconds": seconds}
    world.settings.current = story_settings(TrainingQueues={"queues": {"vision": queue}})


async def run_for(world: World, seconds: float) -> None:
    world.clock.forward(seconds)
    await world.step(3)


async def test_a_job_ends_at_its_own_limit_with_the_grace_of_a_pause(world):
    job = world.send(ANN, "vision", max_seconds=90)
    assert world.job(job).max_seconds == 90
    await world.step(3)
    await run_for(world, 60)
    assert world.job(job).phase == "running"
    world.clock.forward(60)
    await world.step()
    told = "it reached the maximum running time of 90 s that you set for it. What it saved is kept."
    assert (world.job(job).phase, world.job(job).sentence) == ("cancelling", f"Ending: {told}")
    await world.step(2)
    assert (world.job(job).phase, world.job(job).sentence) == ("cancelled", f"Ended: {told}")
    assert [grace for _, _, grace in world.backend.stops] == [30]
    (entry,) = world.sql.audit(AuditFilter(object=job, action=Action.JOB_EVICT))
    assert entry.details["reason"] == "RUN_TIME_LIMIT"


@pytest.mark.parametrize(("own", "of_queue", "counts"), [(600, 300, 300), (300, 600, 300), (None, 300, 300)])
async def test_the_smaller_limit_counts(world, own, of_queue, counts):
    limited(world, of_queue)
    job = world.send(ANN, "vision", max_seconds=own)
    assert world.job(job).max_seconds == counts
    await world.step(3)
    await run_for(world, counts)
    whose = "that you set for it" if own == counts else "that an administrator set for the queue vision"
    assert world.job(job).sentence.startswith(f"Ended: it reached the maximum running time of 5 min {whose}.")


async def test_a_limit_that_is_set_while_the_job_runs_counts_at_once_and_can_be_lifted(world):
    job = world.send(ANN, "vision", max_seconds=100)
    await world.step(3)
    world.controller.job_changes.change(ANN, job, JobChange(max_seconds=0))
    await run_for(world, 500)
    assert (world.job(job).phase, world.job(job).max_seconds) == ("running", None)
    world.controller.job_changes.change(ADMIN, job, JobChange(max_seconds=400))
    await world.step(3)
    assert "400 s" not in world.job(job).sentence
    assert "6 min that root set for it" in reveal(world.job(job).sentence)


async def test_a_limit_of_hours_is_refused_and_told_in_hours(world):
    job = world.send(ANN, "vision")
    world.controller.job_changes.change(ADMIN, job, JobChange(max_seconds=12 * 3600))
    with pytest.raises(ManagersOnly, match=r"^The maximum running time of 12 h of the job 'digits'"):
        world.controller.job_changes.change(ANN, job, JobChange(max_seconds=12.5 * 3600))


async def test_an_owner_may_lower_but_neither_raise_nor_lift_what_an_administrator_set(world):
    def ask(who: Caller, seconds: float) -> float | None:
        return world.controller.job_changes.change(who, job, JobChange(max_seconds=seconds)).max_seconds

    job = world.send(ANN, "vision", max_seconds=3000)
    assert ask(ADMIN, 400) == 400
    for more in (0, 401, 3000):
        with pytest.raises(ManagersOnly) as refused:
            ask(ANN, more)
        assert "6 min of the job 'digits' was set by root." in reveal(str(refused.value))
        assert "a manager of the queue or an administrator can raise or lift it" in str(refused.value)
    assert ask(ANN, 100) == 100
    with pytest.raises(ManagersOnly):
        ask(ANN, 500)
    assert ask(ANN, 300) == 300, "the owner may raise their own choice up to the bound"
    assert ask(ANN, 400) == 400
    assert ask(ADMIN, 0) is None
    assert ask(ANN, 900) == 900


async def test_a_manager_may_lift_the_limit_that_bounds_their_own_job_unless_the_token_is_limited(world):
    queue = {"quota": "0.5", "groups": ["vision"], "managers": ["ann"]}
    world.settings.current = story_settings(TrainingQueues={"queues": {"vision": queue}})
    job = world.send(ANN, "vision")
    world.controller.job_changes.change(ADMIN, job, JobChange(max_seconds=400))
    with pytest.raises(ManagersOnly):
        world.controller.job_changes.change(replace(ANN, own_only=True), job, JobChange(max_seconds=0))
    assert world.controller.job_changes.change(ANN, job, JobChange(max_seconds=0)).max_seconds is None


async def test_nobody_exceeds_the_limit_of_the_queue(world):
    limited(world, 300)
    job = world.send(ANN, "vision", max_seconds=9000)
    for who in (ANN, ADMIN):
        assert world.controller.job_changes.change(who, job, JobChange(max_seconds=8000)).max_seconds == 300


async def test_a_preview_says_that_a_job_will_end_sooner_than_expected(world):
    limited(world, 300)
    asked = a_submission("vision", expected_seconds=1000)
    preview = await world.controller.previews.preview(ANN, asked)
    assert preview.max_seconds == 300
    assert preview.sentence.endswith(
        "It ends after the maximum running time of 5 min that an administrator set for the queue vision, sooner than "
        "expected."
    )
    assert (
        "It ends"
        not in (await world.controller.previews.preview(ANN, a_submission("vision", expected_seconds=300))).sentence
    )


async def test_all_runs_count_and_pauses_do_not(world):
    job = world.send(ANN, "vision", max_seconds=100)
    await world.step(3)
    await run_for(world, 60)
    world.controller.job_changes.change(ANN, job, JobChange(held=True))
    await world.step(3)
    world.clock.forward(10_000)
    world.controller.job_changes.change(ANN, job, JobChange(held=False))
    await world.step(3)
    assert (world.job(job).phase, world.job(job).run) == ("running", 2)
    assert 60 <= world.sql.get(job).workload.ran < 75
    shown = world.job(job)
    assert shown.ran_seconds == world.sql.get(job).workload.ran
    assert shown.running_since is not None
    assert 0 <= world.clock.now() - shown.running_since <= 3
    world.restart()
    await run_for(world, 40)
    assert world.job(job).phase == "cancelled"
    assert 100 <= world.job(job).ran_seconds < 115
    assert world.job(job).running_since is None


async def test_a_job_that_was_interrupted_beyond_its_limit_does_not_start_again_unless_it_is_held(world):
    job = world.send(ANN, "vision", max_seconds=100)
    await world.step(3)
    world.clock.forward(200)
    world.backend.end(job, Outcome.LOST)
    await world.controller.step()
    assert world.job(job).phase == "cancelled"
    assert world.job(job).run == 1

    held = world.send(ANN, "vision", max_seconds=100)
    await world.step(3)
    world.controller.job_changes.change(ANN, held, JobChange(held=True))
    world.clock.forward(200)
    await world.step(3)
    assert world.job(held).phase == "paused"


async def test_a_queue_has_the_smallest_limit_on_the_way_up():
    queues = {
        "science": {"quota": 1, "max_seconds": 3600},
        "vision": {"quota": "0.5", "parent": "science", "max_seconds": 60},
        "nlp": {"quota": "0.5", "parent": "science", "max_seconds": 7200},
        "other": {},
    }
    settings = story_settings(TrainingQueues={"queues": queues})
    assert [settings.max_seconds_of(name) for name in ("vision", "nlp", "other", "none")] == [60, 3600, None, None]


@pytest.mark.parametrize("value", [0, -1, "1h", True])
async def test_a_limit_that_is_no_time_is_refused(value):
    with pytest.raises(SettingsError, match="max_seconds"):
        story_settings(TrainingQueues={"queues": {"vision": {"quota": 1, "max_seconds": value}}})
