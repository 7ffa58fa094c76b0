"""At most so many tasks that request nothing run on one machine at the same time; nothing else waits for that."""

from dataclasses import replace

import pytest

from jupyter_gq.backends.capabilities import Capabilities
from jupyter_gq.backends.local import LocalBackend
from jupyter_gq.client.models import JobFields
from jupyter_gq.controller.task_limit import hold_beyond_task_limit
from jupyter_gq.domain.amount import Instant, MilliCpu, Seconds
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Backoff, Hold, Request, Workload
from tests.builders import a_job
from tests.fakes import FakeBackend

from .world import ANN, BOB, CAROL, World, story_settings


def a_task(name, at, *, state=State.PENDING, **fields):
    return replace(a_job(name, "vision", 0), state=state, submitted_at=Instant(at), **fields)


def held(limit, *workloads):
    """Return the names of the jobs that the core sees held by the limit."""
    views = hold_beyond_task_limit(workloads, limit, Instant(100), {"vision"})
    assert [view.id for view in views] == [workload.id for workload in workloads]
    return [view.id for view in views if view.hold is not None and view.hold.sentence]


def test_jobs_of_a_higher_priority_run_first_and_then_the_first_by_submission() -> None:
    jobs = [a_task("c", 3), a_task("a", 1), a_task("b", 2), a_task("d", 4, priority=5)]
    assert held(2, *jobs) == ["c", "b"]
    assert held(4, *jobs) == held(None, *jobs) == []


def test_what_runs_and_what_is_ending_takes_room_and_what_a_person_holds_takes_none() -> None:
    running = a_task("a", 1, state=State.RUNNING, tasks=2)
    assert held(3, running, a_task("b", 2, hold=Hold(by="ann", at=Instant(5))), a_task("c", 3), a_task("d", 4)) == ["d"]
    assert held(3, replace(running, state=State.STOPPING), a_task("c", 3), a_task("d", 4)) == ["d"]


def test_a_job_that_pauses_after_a_failed_start_takes_no_room_until_its_pause_is_over() -> None:
    def pausing(until: float) -> Workload:
        return a_task("a", 1, backoff=Backoff(times=1, until=Instant(until), pause=Seconds(20), sentence="It failed."))

    assert held(1, pausing(101), a_task("b", 2), a_task("c", 3)) == ["c"]
    assert held(1, pausing(100), a_task("b", 2), a_task("c", 3)) == ["b", "c"]


def test_a_job_whose_queue_was_removed_takes_no_room_unless_it_still_runs() -> None:
    removed = replace(a_task("a", 1), queue="removed")
    assert held(1, removed, a_task("b", 2), a_task("c", 3)) == ["c"]
    assert held(1, replace(removed, state=State.RUNNING), a_task("b", 2)) == ["b"]


def test_no_job_overtakes_and_one_that_is_larger_than_the_limit_runs_alone() -> None:
    large = a_task("large", 2, tasks=9)
    assert held(4, a_task("a", 1, state=State.RUNNING), large, a_task("small", 3)) == ["large", "small"]
    assert held(4, large, a_task("small", 3)) == ["small"]


def test_work_that_requests_something_neither_counts_nor_waits() -> None:
    busy = [a_task("a", 1, state=State.RUNNING), replace(a_job("b", "vision"), state=State.RUNNING)]
    with_cpu = a_task("e", 4, request=Request(devices=0, cpu_milli=10))
    assert held(1, *busy, a_job("c", "vision"), a_task("d", 3), with_cpu) == ["d"]


class TakesTwoTasks(FakeBackend):
    """A machine that takes two tasks that request nothing."""

    capabilities = Capabilities(max_uncounted_tasks=2)


@pytest.mark.asyncio
async def test_jobs_wait_with_the_reason_while_notebooks_and_gpu_jobs_start(tmp_path):
    world = World(tmp_path, backend=TakesTwoTasks)
    jobs = [world.send(who, queue, "0") for who, queue in ((ANN, "vision"), (CAROL, "vision"), (BOB, "nlp"))]
    await world.step(3)
    assert [world.job(job).phase for job in jobs] == ["running", "running", "waiting"]
    told = "2 tasks that name no GPU, CPU or memory run on this machine, and at most 2 may."
    assert world.job(jobs[2]).sentence == (
        f"Waiting: {told} It starts by itself when enough of them have ended, at a time that is not foretold. A job "
        "that names its CPU cores does not wait for them."
    )
    assert world.controller._context.pending[jobs[2]].why.reason is PendingReason.TASK_LIMIT
    preview = await world.controller.previews.preview(BOB, JobFields(queue="nlp", gpus="0"))
    assert not preview.starts_now
    assert told in preview.sentence
    assert (await world.start_server(ANN, "0")).phase != "waiting"
    with_gpu = world.send(BOB, "nlp", "1")
    await world.step(3)
    assert world.job(with_gpu).phase == "running"
    world.backend.end(jobs[0])
    await world.step(3)
    assert world.job(jobs[2]).phase == "running"
    world.close()


@pytest.mark.asyncio
async def test_jobs_in_a_queue_that_was_removed_keep_no_others_waiting(tmp_path):
    world = World(tmp_path, backend=TakesTwoTasks)
    for _ in range(2):
        world.send(BOB, "nlp", "0")
    left = {"vision": {"quota": "0.5", "groups": ["vision"]}}
    world.settings.current = story_settings(world.nodes, TrainingQueues={"queues": left})
    assert (await world.controller.previews.preview(ANN, JobFields(queue="vision", gpus="0"))).starts_now
    job = world.send(ANN, "vision", "0")
    await world.step(3)
    assert world.job(job).phase == "running"
    world.close()


def test_the_limit_follows_from_the_processors_unless_it_is_set(monkeypatch) -> None:
    monkeypatch.setattr("jupyter_gq.backends.local.machine.count_cpus", lambda: MilliCpu(2000))
    assert LocalBackend().max_uncounted_tasks == 8
    monkeypatch.setattr("jupyter_gq.backends.local.machine.count_cpus", lambda: MilliCpu(100))
    assert LocalBackend().max_uncounted_tasks == 1
    assert LocalBackend(max_uncounted_tasks=0).max_uncounted_tasks == 0
