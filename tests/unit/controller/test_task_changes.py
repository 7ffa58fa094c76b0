"""The numbers of tasks of a waiting job: changed whole or not at all, and told in the audit log."""

import pytest

from jupyter_gq.client.models import JobChange
from jupyter_gq.domain.audit import Action, AuditFilter
from jupyter_gq.domain.errors import Conflict, NeverFits

from .test_elastic_jobs import a_world
from .world import ANN, World, story_settings

pytestmark = pytest.mark.asyncio


@pytest.fixture
def world(tmp_path):
    """One GPU for training, on a machine that cannot resize jobs."""
    queues = {"vision": {"quota": "0.5", "groups": ["vision"], "max_priority": 10}}
    made = World(tmp_path, settings=story_settings(TrainingQueues={"queues": queues}))
    yield made
    made.close()


@pytest.fixture
def elastic(tmp_path):
    """Four GPUs for training, on a machine that can resize jobs."""
    made = a_world(tmp_path)
    yield made
    made.close()


def change(world, job, **wanted):
    return world.controller.job_changes.change(ANN, job, JobChange(**wanted))


def entries(world, job):
    """The changes of the job in the audit log, oldest first."""
    return world.sql.audit(AuditFilter(object=job, action=Action.JOB_CHANGE))[::-1]


async def test_tasks_change_while_the_job_waits_and_all_of_them_start_or_none(world):
    job = world.send(ANN, "vision", "0.25")
    changed = change(world, job, tasks=4)
    assert (changed.tasks, changed.min_tasks, changed.gpus) == (4, None, "0.25")
    change(world, job, tasks=4)
    (entry,) = entries(world, job)
    told = {"tasks": 4, "tasks_before": 1, "min_tasks": 4, "min_tasks_before": 1, "gpus": "1", "gpus_before": "0.25"}
    assert told.items() <= entry.details.items(), "and what is so already is no act"
    assert change(world, job, tasks=2, min_tasks=2).tasks == 2
    (_, entry) = entries(world, job)
    assert (entry.details["gpus"], entry.details["gpus_before"]) == ("0.5", "1")
    world.restart()
    await world.step(3)
    assert (world.job(job).phase, len(world.backend.launches[-1].workload.placement)) == ("running", 2)


async def test_tasks_of_a_running_job_change_once_it_is_held(world):
    job = world.send(ANN, "vision", "0.5")
    await world.step(2)
    for wanted in ({"tasks": 2}, {"tasks": 2, "held": True}):
        with pytest.raises(Conflict, match=r"does not wait, so its queue, its GPUs and its tasks cannot change\. Hold"):
            change(world, job, **wanted)
    assert entries(world, job) == ()
    change(world, job, held=True)
    with pytest.raises(Conflict, match="does not wait"):
        change(world, job, tasks=2)
    await world.step(2)
    change(world, job, tasks=2, held=False)
    await world.step(3)
    assert (world.job(job).phase, len(world.backend.launches[-1].workload.placement)) == ("running", 2)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"tasks": 9}, r"You asked for 9 tasks of 0\.25 GPU that start together, .* Ask for 4 tasks or less"),
        ({"tasks": 2, "gpus": "1"}, "You asked for 2 tasks of 1 GPU that start together"),
        ({"min_tasks": 2}, "min_tasks is 2, but the job has 1 task: use 1, or more tasks"),
        ({"tasks": 4, "min_tasks": 2}, "the number of tasks of a job cannot change here"),
    ],
)
async def test_tasks_that_the_job_could_not_ask_for_are_refused_whole(world, wanted, words):
    job = world.send(ANN, "vision", "0.25")
    with pytest.raises(NeverFits, match=words):
        change(world, job, priority=5, **wanted)
    assert (entries(world, job), world.job(job).tasks, world.job(job).priority) == ((), 1, 0)


async def test_tasks_of_a_job_that_must_be_near_each_other_are_checked_for_that(world):
    job = world.send(ANN, "vision", "1", within="node")
    with pytest.raises(NeverFits):
        change(world, job, tasks=2)


async def test_the_numbers_of_tasks_of_a_waiting_job_change_apart_and_together(elastic):
    job = elastic.send(ANN, "vision", "1", tasks=4, min_tasks=2)

    def numbers(**wanted):
        view = change(elastic, job, **wanted)
        return view.tasks, view.min_tasks

    assert numbers(tasks=3) == (3, 2), "the least number stays"
    with pytest.raises(NeverFits, match="min_tasks is 2, but the job has 1 task: use 1, or more tasks"):
        numbers(tasks=1)
    assert numbers(min_tasks=1) == (3, 1)
    assert numbers(min_tasks=3) == (3, None), "all or none"
    assert numbers(tasks=2) == (2, None), "it stays so"
    assert numbers(tasks=4, min_tasks=3) == (4, 3)
    names = ("tasks_before", "tasks", "min_tasks_before", "min_tasks", "gpus_before")
    assert [tuple(entry.details.get(name) for name in names) for entry in entries(elastic, job)] == [
        (4, 3, None, None, "4"),
        (None, None, 2, 1, None),
        (None, None, 1, 3, None),
        (3, 2, 3, 2, "3"),
        (2, 4, 2, 3, "2"),
    ]
    await elastic.step(3)
    assert (elastic.job(job).phase, elastic.job(job).tasks_now) == ("running", 4)


async def test_a_paused_elastic_job_continues_with_other_numbers_of_tasks(elastic):
    job = elastic.send(ANN, "vision", "1", tasks=4, min_tasks=2)
    await elastic.step(2)
    change(elastic, job, held=True)
    await elastic.step(3)
    change(elastic, job, tasks=2, min_tasks=1, held=False)
    await elastic.step(3)
    view = elastic.job(job)
    assert (view.phase, view.run, view.tasks, view.min_tasks, view.tasks_now) == ("running", 2, 2, 1, 2)
    assert len(elastic.backend.runs[(job, 2)].placement) == 2
