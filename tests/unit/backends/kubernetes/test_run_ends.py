"""A run of a job in pods ended when its containers did, as the nodes tell, also if no service watched."""

import pytest
import pytest_asyncio

from jupyter_gq.backends.kubernetes.api.containers import Ended
from jupyter_gq.backends.kubernetes.api.views import pod_view
from jupyter_gq.backends.protocol import Outcome, Phase
from jupyter_gq.domain.states import State

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio

#: Seconds for which no service watches.
AWAY, HOUR = 600.0, 3600.0
DONE = '{"outcome": "SUCCEEDED"}'


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend()
    yield made
    await made.close()


async def launched(paper, **times):
    """A job that the service knows to be running, with its pod, which was not examined yet."""
    job = await paper.launch("job", "trains", "n1/0", State.RUNNING, **times)
    paper.pod(job.id, "n1/0", "GPU-0")
    return job


def end(paper, job, at, message=DONE, code=0):
    phase = "Failed" if code else "Succeeded"
    paper.pod(job.id, "n1/0", phase=phase, ended=Ended(exit_code=code, message=message, finished_at=at))


@pytest.mark.parametrize(
    ("finished", "since"),
    [(-AWAY, -AWAY), (None, 0), (60, 0), (-2 * AWAY, -1.5 * AWAY)],
    ids=["the node tells", "no time", "a node whose clock is ahead", "a node whose clock is far behind"],
)
async def test_a_run_that_ended_without_a_service_ended_when_its_container_did(paper, finished, since):
    """The service has just started, and knows when the run began."""
    day = paper.day.at
    job = await launched(paper, running_since=day - 1.5 * AWAY)
    end(paper, job, None if finished is None else day + finished)
    seen = await paper.observed(job.id)
    assert (seen.outcome, seen.since - day) == (Outcome.SUCCEEDED, since)


async def test_a_run_did_not_end_before_it_was_last_seen_alive(paper):
    job = await launched(paper)
    await paper.runs.observe()
    paper.day.at += 30
    await paper.runs.observe()
    paper.day.at += 30
    end(paper, job, paper.day.at - HOUR)
    assert (await paper.observed(job.id)).since == paper.day.at - 30


async def test_a_run_of_several_tasks_ended_with_the_last_of_them(paper):
    day, job = paper.day.at, await paper.launch("job", "trains", "n1/0", State.RUNNING, tasks=2)
    for task, at in enumerate((day - 100, day - 50)):
        done = Ended(exit_code=0, message=DONE, finished_at=at)
        paper.pod(job.id, f"n1/{task}", task=task, tasks=2, phase="Succeeded", ended=done)
    assert (await paper.observed(job.id)).since == day - 50


@pytest.mark.parametrize(("stopped", "outcome"), [(False, Outcome.LOST), (True, Outcome.PAUSED)])
async def test_a_run_with_a_task_that_was_never_seen_has_not_succeeded(paper, stopped, outcome):
    """Its pod was removed while no service watched, and nobody knows how and when that task ended."""
    day, job = paper.day.at, await paper.launch("job", "trains", "n1/0", State.RUNNING, tasks=2, min_members=2)
    ended = Ended(exit_code=0, message=DONE, finished_at=day - HOUR)
    paper.pod(job.id, "n1/0", tasks=2, phase="Succeeded", ended=ended)
    if stopped:
        await paper.runs.stop(job.id, job.run, 30)
    seen = await paper.observed(job.id)
    assert (seen.phase, seen.outcome, seen.since) == (Phase.ENDED, outcome, day)
    assert stopped or seen.sentence == "Task 1 of 2: The pod was deleted by somebody else."


@pytest.mark.parametrize(("least", "outcome"), [(1, Outcome.SUCCEEDED), (3, Outcome.LOST)])
@pytest.mark.parametrize("state", [State.STARTING, State.RUNNING])
async def test_a_run_that_ended_without_a_service_is_judged_by_the_tasks_it_was_to_have(paper, least, outcome, state):
    """The new service sees the pods before the controller tells it of the run, which was smaller than it may be."""
    ended = Ended(exit_code=0, message=DONE, finished_at=paper.day.at - HOUR)
    paper.pod("job-trains", "n1/0", tasks=3, phase="Succeeded", ended=ended)
    assert await paper.observed("job-trains") is None
    await paper.launch("job", "trains", "n1/0", state, tasks=3, min_members=least)
    assert (await paper.observed("job-trains")).outcome is outcome


async def test_a_run_of_which_nobody_tells_ends_after_a_while(paper):
    ended = Ended(exit_code=0, message=DONE, finished_at=paper.day.at - HOUR)
    paper.pod("job-trains", "n1/0", tasks=3, phase="Succeeded", ended=ended)
    assert await paper.observed("job-trains") is None
    paper.clock.at += 11
    assert (await paper.observed("job-trains")).outcome is Outcome.SUCCEEDED


async def test_a_run_that_lost_a_pod_ended_when_that_was_seen(paper):
    job = await launched(paper)
    await paper.runs.observe()
    paper.day.at += AWAY
    paper.no_pod(job.id)
    seen = await paper.observed(job.id)
    assert (seen.outcome, seen.since) == (Outcome.LOST, paper.day.at)


async def test_a_run_that_the_service_gives_up_ends_when_its_pod_has(paper):
    """The reason of the end is the verdict, which is of now."""
    job = await launched(paper)
    await paper.runs.observe()
    paper.runs.training.fail((job.id, job.run), "It must not go on.")
    paper.day.at += AWAY
    end(paper, job, paper.day.at - AWAY / 2)
    seen = await paper.observed(job.id)
    assert (seen.outcome, seen.since) == (Outcome.FAILED, paper.day.at)


@pytest.mark.parametrize(
    ("text", "at"),
    [("2026-11-28T21:00:00Z", 1795899600.0), (None, None), ("", None), ("soon", None), ("0001-01-01T00:00:00Z", None)],
)
async def test_time_of_the_end_is_read_from_the_main_container(text, at):
    ended = {"exitCode": 0, "finishedAt": text}
    statuses = [
        {"name": "job", "state": {"terminated": ended}},
        {"name": "sidecar", "state": {"terminated": {"exitCode": 0, "finishedAt": "2030-01-01T00:00:00Z"}}},
    ]
    pod = {"spec": {"containers": [{"name": "job"}, {"name": "sidecar"}]}, "status": {"containerStatuses": statuses}}
    assert pod_view(pod).ended.finished_at == at
