"""A job with a least number of tasks grows and shrinks while it runs, and no kill of the service loses a task."""

import asyncio

import pytest

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.models import JobChange, JobFields
from jupyter_gq.domain.audit import Action, AuditFilter
from jupyter_gq.domain.errors import NeverFits
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.workload import TaskPlacement
from tests.fakes import FakeBackend, FakeResizingBackend, a_node

from .world import ANN, BOB, World, story_settings

#: More places than one step has.
PLACES = 16
#: Two queues that own two GPUs each of four.
QUEUES = {"vision": {"quota": 2, "groups": ["vision"]}, "nlp": {"quota": 2, "groups": ["nlp"]}}


def a_world(folder, backend=FakeResizingBackend):
    nodes = (a_node(5),)
    pools = {"pools": {"build": {"devices": 1}, "train": {"devices": 4}}}
    settings = story_settings(nodes, Pools=pools, TrainingQueues={"queues": QUEUES})
    return World(folder, backend=backend, nodes=nodes, settings=settings)


@pytest.fixture
def world(tmp_path):
    world = a_world(tmp_path)
    yield world
    world.close()


def tasks_of(world, job):
    view = world.job(job)
    return view.tasks_now, view.sentence


def on_machine(world, job):
    return len(world.backend.runs[(job, 1)].placement)


def send(world, **fields):
    return world.send(ANN, "vision", "1", tasks=4, min_tasks=2, **fields)


async def send_beside_another(world):
    """Return a job that runs with two of its four tasks, and the job that holds the other two GPUs."""
    other = world.send(BOB, "nlp", "2")
    await world.step(2)
    job = send(world)
    await world.step(2)
    return job, other


@pytest.mark.asyncio
async def test_a_job_takes_what_is_free_between_its_least_and_its_most_tasks(world):
    job = send(world)
    await world.step(2)
    view = world.job(job)
    assert (view.phase, view.tasks, view.min_tasks, view.tasks_now) == ("running", 4, 2, 4)
    assert view.sentence == "Running on 4 GPUs of A100-40GB."
    assert len(view.devices) == 4


@pytest.mark.asyncio
async def test_a_job_starts_with_its_least_tasks_and_grows_when_a_gpu_is_free(world):
    job, other = await send_beside_another(world)
    assert tasks_of(world, job) == (2, "Running on 2 GPUs of A100-40GB with 2 of its 4 tasks.")
    world.backend.end(other)
    await world.step(3)
    assert tasks_of(world, job) == (4, "Running on 4 GPUs of A100-40GB.")
    assert on_machine(world, job) == 4
    assert world.job(job).run == 1


@pytest.mark.asyncio
async def test_a_job_gives_tasks_back_one_by_one_and_says_to_whom(world):
    job = send(world)
    await world.step(2)
    other = world.send(BOB, "nlp", "1")
    await world.step(2)
    told = "Runs on with 3 of its 4 tasks: nlp needed its 1 GPU back. Grows again by itself when a GPU is free."
    assert tasks_of(world, job) == (3, f"Running on 3 GPUs of A100-40GB. {told}")
    assert (world.job(job).phase, on_machine(world, job)) == ("running", 3)
    assert world.job(other).phase == "waiting", "the task that leaves still has its device"
    world.backend.leave()
    await world.step(3)
    assert world.job(other).phase == "running"
    assert world.backend.graces == [world.settings.current.grace]
    (entry,) = world.sql.audit(AuditFilter(object=job, action=Action.JOB_EVICT))
    assert (entry.details["tasks"], entry.details["for_workload"]) == (1, other)
    world.backend.end(other)
    await world.step(3)
    assert tasks_of(world, job) == (4, "Running on 4 GPUs of A100-40GB.")


@pytest.mark.asyncio
async def test_job_whose_queue_is_removed_after_it_has_shrunk_does_not_say_that_it_grows(world):
    job = send(world)
    await world.step(2)
    world.send(BOB, "nlp", "1")
    await world.step(2)
    assert "Grows again by itself" in world.job(job).sentence
    pools = {"pools": {"build": {"devices": 1}, "train": {"devices": 4}}}
    queues = {"queues": {"nlp": QUEUES["nlp"]}}
    world.settings.current = story_settings((a_node(5),), Pools=pools, TrainingQueues=queues)
    await world.step(1)
    assert world.job(job).sentence == (
        "Running on 3 GPUs of A100-40GB. Runs on with 3 of its 4 tasks: nlp needed its 1 GPU back. Its queue vision is "
        "no longer in the configuration: move it to another one, so that it grows again."
    )


@pytest.mark.asyncio
async def test_the_smallest_gang_is_never_taken_apart(world):
    job = send(world)
    await world.step(2)
    world.send(BOB, "nlp", "2")
    await world.step(2)
    world.backend.leave()
    await world.step(3)
    kept = world.backend.runs[(job, 1)].placement
    assert [task.devices for task in kept] == [("GPU-sim-box-1",), ("GPU-sim-box-2",)]


@pytest.mark.parametrize("place", range(PLACES))
def test_killed_anywhere_in_the_step_that_shrinks_a_job(tmp_path, place):
    world = a_world(tmp_path)

    async def play():
        job = send(world)
        await world.step(2)
        other = world.send(BOB, "nlp", "2")
        world.fuse.light(place)
        await world.step_or_die()
        world.fuse.left = None
        await world.step(2)
        assert (world.job(job).tasks_now, on_machine(world, job)) == (2, 2)
        world.backend.leave()
        await world.step(3)
        assert world.job(other).phase == "running"
        assert not world.sql.get(job).workload.leaving
        assert world.backend.copies == {(job, 1): 1, (other, 1): 1}

    asyncio.run(play())
    world.close()


@pytest.mark.parametrize("place", range(PLACES))
def test_killed_anywhere_in_the_step_that_grows_a_job(tmp_path, place):
    world = a_world(tmp_path)

    async def play():
        other = world.send(BOB, "nlp", "2")
        await world.step(2)
        job = send(world)
        await world.step(2)
        world.backend.end(other)
        await world.step()
        world.fuse.light(place)
        await world.step_or_die()
        world.fuse.left = None
        await world.step(3)
        assert (world.job(job).tasks_now, on_machine(world, job), world.job(job).run) == (4, 4, 1)

    asyncio.run(play())
    world.close()


@pytest.mark.asyncio
async def test_a_job_that_cannot_grow_any_more_leaves_the_free_gpus_to_others(world):
    job, other = await send_beside_another(world)
    world.backend.closed.add((job, 1))
    world.backend.end(other)
    await world.step(4)
    assert (world.job(job).tasks_now, on_machine(world, job)) == (2, 2)
    later = world.send(BOB, "nlp", "2")
    await world.step(3)
    assert world.job(later).phase == "running"


@pytest.mark.asyncio
async def test_a_task_that_could_not_be_added_is_given_up(world):
    job, other = await send_beside_another(world)
    world.backend.has_room = False
    world.backend.end(other)
    await world.step()
    assert world.sql.get(job).workload.placement[2:], "decided, and found out only when it is carried out"
    await world.step(3)
    assert (world.job(job).tasks_now, on_machine(world, job)) == (2, 2)
    assert len(world.job(job).devices) == 2


@pytest.mark.asyncio
async def test_a_task_of_which_the_record_does_not_know_is_a_task_of_the_job(world):
    """An older database was restored: the task runs, and its device must not be given away."""
    job, other = await send_beside_another(world)
    world.backend.closed.add((job, 1))
    world.backend.end(other)
    await world.step(2)
    run = world.backend.runs[(job, 1)]
    (free, _) = {f"GPU-sim-box-{n}" for n in range(1, 5)} - {task.devices[0] for task in run.placement}
    run.placement = (*run.placement, TaskPlacement(node="box", devices=(free,)))
    await world.step(2)
    assert (world.job(job).tasks_now, on_machine(world, job)) == (3, 3)
    assert free in world.job(job).devices


@pytest.mark.asyncio
@pytest.mark.parametrize("how", ["cancel", "hold"])
async def test_a_job_that_ends_while_a_task_leaves_keeps_no_device(world, how):
    job = send(world)
    await world.step(2)
    world.send(BOB, "nlp", "1")
    await world.step(2)
    assert world.sql.get(job).workload.leaving
    if how == "cancel":
        world.controller.jobs.cancel(ANN, job)
    else:
        world.controller.job_changes.change(ANN, job, JobChange(held=True))
    await world.step(3)
    workload = world.sql.get(job).workload
    assert (workload.placement, workload.leaving) == ((), ())


@pytest.mark.asyncio
async def test_a_finished_job_says_nothing_of_its_tasks(world):
    job = send(world)
    await world.step(2)
    world.send(BOB, "nlp", "1")
    await world.step(2)
    world.backend.leave()
    world.backend.end(job, Outcome.SUCCEEDED)
    await world.step(2)
    view = world.job(job)
    assert (view.phase, view.tasks_now) == ("done", None)
    assert view.sentence.startswith("Finished")


@pytest.mark.asyncio
async def test_a_preview_says_with_how_many_tasks_the_job_would_start(world):
    world.send(BOB, "nlp", "2")
    await world.step(2)
    fields = {"queue": "vision", "gpus": "1", "tasks": 4}
    preview = await world.controller.previews.preview(ANN, JobFields(**fields, min_tasks=2))
    assert preview.starts_now
    assert preview.sentence == "Starts now with 2 of its 4 tasks, within the quota."
    preview = await world.controller.previews.preview(ANN, JobFields(**fields))
    assert not preview.starts_now


def test_jobs_that_cannot_be_resized_refuse_a_least_number_of_tasks(tmp_path):
    world = a_world(tmp_path, backend=FakeBackend)
    with pytest.raises(NeverFits) as refused:
        send(world)
    assert reveal(str(refused.value)) == (
        "You asked for 2 to 4 tasks, but the number of tasks of a job cannot change here. Leave "
        "min_tasks away, and all 4 tasks start together or none; or ask for 2 tasks."
    )
    assert world.send(ANN, "vision", "1", tasks=2, min_tasks=2), "all or nothing is no change"
    world.close()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tasks": 2, "min_tasks": 3}, "min_tasks is 3, but the job has 2 tasks: use 1 to 2, or more tasks"),
        ({"min_tasks": 2}, "min_tasks is 2, but the job has 1 task: use 1, or more tasks"),
        ({"tasks": 2, "min_tasks": 0}, "greater than or equal to 1"),
    ],
)
def test_a_least_number_of_tasks_that_makes_no_sense_is_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        JobFields(queue="vision", **fields)
