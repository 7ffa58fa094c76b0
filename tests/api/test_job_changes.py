"""Changes of jobs over HTTP: what a token opens, and what a wrong body is told."""

import json

import pytest
from traitlets.config import Config

from jupyter_gq.client import models
from jupyter_gq.client.connection.http import ServiceClient, ServiceError

from .world import CONFIG, World, submission

pytestmark = pytest.mark.asyncio

NOTHING = "name something to change: held, queue, priority, gpus, gpu_memory, tasks, min_tasks, max_seconds"


@pytest.fixture
def managed(tmp_path):
    """A service whose queue vision is managed by dora."""
    queues = {"vision": {"quota": "0.5", "groups": ["vision"], "managers": ["dora"]}}
    config = Config({**CONFIG, "TrainingQueues": {"queues": queues}})
    made = World(tmp_path, config=config)
    yield made
    made.close()


async def test_a_job_is_held_and_released_by_its_owner(people, world, bundle):
    ann = people["ann"]
    job, _ = await ann.submit(submission(bundle))
    held = await ann.hold(job.id)
    assert held.held_since == world.clock.now()
    assert held.sentence.startswith("Held by you since")
    await world.steps()
    assert (await ann.job(job.id)).phase == "waiting"
    assert (await ann.release(job.id)).held_since is None
    await world.steps()
    assert (await ann.job(job.id)).phase == "running"
    with pytest.raises(ServiceError, check=lambda error: error.status == 404):
        await people["bob"].hold(job.id)


async def test_a_job_is_moved_and_changed_by_one_request(people, world, bundle):
    job, _ = await people["ann"].submit(submission(bundle))
    assert (await people["root"].move(job.id, "nlp")).queue == "nlp"
    changed = await people["root"].change(job.id, models.JobChange(queue="vision", priority=5, gpus="0.25"))
    assert (changed.queue, changed.priority, changed.gpus) == ("vision", 5, "0.25")
    with pytest.raises(ServiceError, check=lambda error: (error.status, error.problem.code) == (403, "not_a_member")):
        await people["ann"].move(job.id, "nlp")


async def test_the_tasks_of_a_waiting_job_change_for_a_token_that_may_change_jobs_and_are_refused_in_a_sentence(
    people, world, bundle, serve
):
    job, _ = await people["ann"].submit(submission(bundle, gpus="0.5"))
    served = await serve(world.controller)

    async def change(token, **body):
        answer = await served.ask("PATCH", f"api/v1/jobs/{job.id}", token=token, body=body)
        return answer.code, json.loads(answer.body)

    status, shown = await change("ann-changes", tasks=2)
    assert (status, shown["tasks"], shown["min_tasks"]) == (200, 2, None)
    status, problem = await change("ann-changes", tasks=2, min_tasks=3)
    assert (status, problem["code"], problem["field"]) == (422, "never_fits", "min_tasks")
    assert problem["message"] == "min_tasks is 3, but the job has 2 tasks: use 1 to 2, or more tasks."
    assert (await change("ann-reads", tasks=1))[0] == 403
    assert (await change("bob", tasks=1))[0] == 404
    (entry,) = (await people["root"].audit(action="job.change")).entries
    assert (entry.actor, entry.details["tasks"], entry.details["tasks_before"]) == ("ann", 2, 1)
    await world.steps()
    assert (await people["ann"].job(job.id)).phase in {"starting", "running"}
    status, problem = await change("ann-changes", tasks=1)
    assert (status, problem["code"]) == (409, "conflict")


async def test_a_manager_lists_the_jobs_of_the_queue_and_a_member_does_not(serve, managed, bundle):
    served = await serve(managed.controller)
    clients = {name: ServiceClient(served.url, name) for name in ("ann", "dora", "dora-own")}
    try:
        job, _ = await clients["ann"].submit(submission(bundle))
        found = await clients["dora"].jobs_of_queue("vision")
        assert [(each.id, each.owner) for each in found.jobs] == [(job.id, "ann")]
        for name in ("ann", "dora-own"):
            with pytest.raises(ServiceError, check=lambda error: error.status == 404):
                await clients[name].jobs_of_queue("vision")
    finally:
        for client in clients.values():
            client.close()


async def test_a_manager_changes_jobs_of_others_unless_the_token_is_limited_to_their_own(serve, managed, bundle):
    served = await serve(managed.controller)
    clients = {name: ServiceClient(served.url, name) for name in ("ann", "dora", "dora-own")}
    try:
        job, _ = await clients["ann"].submit(submission(bundle))
        with pytest.raises(ServiceError, check=lambda error: error.status == 404):
            await clients["dora-own"].hold(job.id)
        assert (await clients["dora"].hold(job.id)).sentence.startswith("Held by dora since")
        assert (await clients["dora"].cancel(job.id)).phase == "cancelled"
        with pytest.raises(ServiceError, check=lambda error: error.problem.code == "conflict"):
            await clients["ann"].change(job.id, models.JobChange(held=True))
    finally:
        for client in clients.values():
            client.close()


@pytest.mark.parametrize(
    ("body", "told", "field"),
    [
        ({}, NOTHING, None),
        ({"held": None}, NOTHING, None),
        ({"hold": True}, "hold: there is no such field here", "hold"),
        ({"held": "perhaps"}, "held: ", "held"),
        ({"priority": 101}, "priority: ", "priority"),
        ({"max_seconds": 1e-9}, "a job runs for at least 1 second, not 1e-09; 0 removes its own limit", "max_seconds"),
        ({"tasks": 0}, "tasks: ", "tasks"),
        ({"tasks": 65}, "tasks: ", "tasks"),
        ({"min_tasks": "two"}, "min_tasks: ", "min_tasks"),
        ({"queue": "a\nb"}, "queue: control characters", "queue"),
    ],
)
async def test_a_body_that_names_no_change_is_refused(serve, world, body, told, field):
    served = await serve(world.controller)
    status, problem = await served.problem("PATCH", "api/v1/jobs/job-1", body=body)
    assert (status, problem["field"]) == (422, field)
    assert told in problem["message"]


async def test_several_jobs_are_cancelled_at_once_and_the_others_are_named(people, world, bundle):
    ann, bob = people["ann"], people["bob"]
    jobs = [(await ann.submit(submission(bundle)))[0].id for _ in range(3)]
    of_bob = (await bob.submit(submission(bundle, queue="nlp")))[0].id
    await ann.cancel(jobs[2])
    done = await ann.cancel_many([jobs[0], of_bob, jobs[1], jobs[0], jobs[2], "job-none"])
    assert [(job.id, job.phase) for job in done.jobs] == [(jobs[0], "cancelled"), (jobs[1], "cancelled")]
    assert [(each.job, each.code) for each in done.refused] == [
        (of_bob, "not_found"),
        (jobs[2], "conflict"),
        ("job-none", "not_found"),
    ]
    assert (await bob.job(of_bob)).phase == "waiting"
    entries = (await people["root"].audit(action="job.cancel")).entries
    assert [(entry.actor, entry.object) for entry in entries] == [("ann", jobs[1]), ("ann", jobs[0]), ("ann", jobs[2])]
    assert len((await people["root"].cancel_many([of_bob])).jobs) == 1


@pytest.mark.parametrize("jobs", [[], ["job"] * 501], ids=["none", "too many"])
async def test_a_selection_has_one_to_500_jobs(serve, world, jobs):
    served = await serve(world.controller)
    status, problem = await served.problem("POST", "api/v1/jobs/cancel", body={"jobs": jobs})
    assert (status, problem["field"]) == (422, "jobs")
