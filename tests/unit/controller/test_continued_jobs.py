"""A job names an ended job from whose checkpoints it continues: checked before it is queued, kept until it began."""

import pytest

from jupyter_gq.backends.capabilities import CheckpointFolders
from jupyter_gq.client.models import Heartbeat, JobRequest
from jupyter_gq.domain.audit import AuditFilter
from jupyter_gq.domain.errors import CannotContinue, Conflict
from jupyter_gq.domain.plain_text import quoted

from .world import ADMIN, ANN, BOB, CAROL, World, a_submission

pytestmark = pytest.mark.asyncio

DAY = 86400


async def an_ended_job(world: World, caller=ANN, **changes) -> str:
    job = world.send(caller, "vision", "0.5", **changes)
    await world.step(3)
    world.controller.jobs.cancel(caller, job)
    await world.step(10)
    assert world.job(job).phase == "cancelled"
    return job


async def ask(world: World, caller, job: str, **changes) -> None:
    """Ask as a page does: for a preview, and then for the job; both say the same."""
    submission = a_submission("vision", "0.5", continue_from=job, **changes)
    fields = submission.model_dump(exclude={"bundle"})
    await world.controller.jobs.check_files(caller, submission, None)
    await world.controller.previews.preview(caller, JobRequest.model_validate(fields))


async def refusal(world: World, caller, job: str, **changes) -> str:
    with pytest.raises(CannotContinue) as told:
        await ask(world, caller, job, **changes)
    submission = a_submission("vision", "0.5", continue_from=job, **changes)
    request = JobRequest.model_validate(submission.model_dump(exclude={"bundle"}))
    with pytest.raises(CannotContinue) as foreseen:
        await world.controller.previews.preview(caller, request)
    assert str(told.value) == str(foreseen.value)
    return str(told.value)


async def test_a_job_says_from_which_one_it_continues_and_its_run_is_told(world: World):
    earlier = await an_ended_job(world)
    await ask(world, ANN, earlier)
    job = world.send(ANN, "vision", "0.5", continue_from=earlier)
    assert world.job(job).continue_from == earlier
    assert world.job(earlier).continue_from == ""
    await world.step(2)
    assert world.backend.launches[-1].detail.continue_from == earlier
    world.restart()
    assert world.job(job).continue_from == earlier
    entry = next(each for each in world.sql.audit(AuditFilter()) if each.object == job)
    assert entry.details["continue_from"] == earlier


async def test_an_unknown_job_and_those_of_others_are_refused_in_the_same_words(world: World):
    of_carol = await an_ended_job(world, CAROL)
    deleted = await an_ended_job(world)
    world.controller.job_deletions.delete(ANN, deleted)
    ticket = world.ask(ANN, "0.25").id
    told = {
        (await refusal(world, ANN, job)).replace(quoted(job), "'JOB'")
        for job in ("job-999", "no'job", of_carol, deleted, ticket)
    }
    assert told == {
        "You have no job 'JOB', or it was deleted. Ended jobs are deleted after 30 days. Name another job, or send "
        "this one without continuing from a job."
    }
    assert "You have no job" in await refusal(world, ADMIN, of_carol), "nor may an administrator take it"


async def test_a_job_that_has_not_ended_is_refused(world: World):
    job = world.send(ANN, "vision", "0.5")
    assert "'digits' is waiting, and only a job that has ended" in await refusal(world, ANN, job)
    await world.step(3)
    assert "'digits' is running, and only a job that has ended" in await refusal(world, ANN, job)


async def test_a_job_without_checkpoints_is_refused_as_far_as_that_is_known(world: World):
    never = world.send(ANN, "vision", "0.5")
    world.controller.jobs.cancel(ANN, never)
    assert "'digits' never ran, so it has no checkpoints. Name another" in await refusal(world, ANN, never)
    earlier = await an_ended_job(world)
    world.bundles.checkpoints[earlier] = False
    assert "'digits' has no checkpoints: it wrote none, or they were deleted." in await refusal(world, ANN, earlier)
    world.bundles.checkpoints[earlier] = True
    await ask(world, ANN, earlier)
    second = await an_ended_job(world, continue_from=earlier)
    world.bundles.checkpoints[second] = False
    told = await refusal(world, ANN, second)
    assert told.endswith(f"The job {earlier}, from which it was to continue itself, may have some.")


async def test_the_number_of_tasks_counts_only_where_each_task_has_its_own_folder(world: World):
    earlier = await an_ended_job(world)
    await ask(world, ANN, earlier, tasks=2)
    capabilities = world.backend.capabilities
    world.backend.capabilities = type(capabilities)(reached_folders=("/",), checkpoints=CheckpointFolders.EACH_TASK)
    await ask(world, ANN, earlier, tasks=1)
    told = await refusal(world, ANN, earlier, tasks=2)
    assert told == (
        "The job 'digits' had 1 task, each with its own folder of checkpoints, and the new job has 2 tasks. Send it "
        "with 1 task."
    )


async def test_no_job_continues_where_checkpoints_are_lost_with_each_run(world: World):
    earlier = await an_ended_job(world)
    world.backend.capabilities = type(world.backend.capabilities)(reached_folders=("/",))
    assert "No checkpoints of jobs are kept here" in await refusal(world, ANN, earlier)


async def test_a_refused_job_is_not_queued_and_a_repeated_request_is_not_checked_again(world: World):
    earlier = await an_ended_job(world)
    submission = a_submission("vision", "0.5", continue_from=earlier)
    job, _ = world.controller.jobs.submit(ANN, submission, "key")
    world.controller.jobs.cancel(ANN, job.id)
    world.controller.job_deletions.delete(ANN, earlier)
    await world.controller.jobs.check_files(ANN, submission, "key")
    assert world.controller.jobs.submit(ANN, submission, "key")[0].id == job.id
    with pytest.raises(CannotContinue):
        world.controller.jobs.submit(ANN, submission, "another key")
    with pytest.raises(CannotContinue):
        world.controller.jobs.submit(BOB, a_submission("nlp", "0.5", continue_from=job.id), None)


async def test_the_earlier_job_is_kept_until_the_new_one_has_its_checkpoints(world: World):
    earlier, other = await an_ended_job(world), await an_ended_job(world)
    job = world.send(ANN, "vision", "0.5", continue_from=earlier)
    held = world.job(job)
    assert held.phase == "waiting"
    with pytest.raises(Conflict, match=rf"\({job}\) begins with the checkpoints of 'digits' and has not copied them"):
        world.controller.job_deletions.delete(ANN, earlier)
    world.clock.forward(40 * DAY)
    world.note_sweep()
    await world.controller.retention.sweep()
    assert world.sql.get(other) is None
    assert world.sql.get(earlier) is not None
    await world.step(3)
    copies = f" Before its first cell, it copies the checkpoints of {earlier}."
    assert world.job(job).sentence.endswith(copies), "nothing else of the job is seen during a long copy"
    world.controller.jobs.record_heartbeat(job, Heartbeat(run=1, saved_at=world.clock.now()))
    assert copies not in world.job(job).sentence
    await world.controller.retention.sweep()
    assert world.sql.get(earlier) is None


async def test_an_earlier_job_may_be_deleted_once_the_new_one_has_ended(world: World):
    earlier = await an_ended_job(world)
    job = world.send(ANN, "vision", "0.5", continue_from=earlier)
    world.controller.jobs.cancel(ANN, job)
    assert world.controller.job_deletions.delete(ANN, earlier).id == earlier
