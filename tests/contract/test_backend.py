"""What every backend guarantees."""

import asyncio
import os
import signal

import pytest

from jupyter_gq.backends.protocol import Launch, Outcome, Phase
from jupyter_gq.domain.workload_detail import WorkloadDetail
from tests.kubernetes.waiting import eventually
from tests.patience import scaled

from .worlds import runs

pytestmark = pytest.mark.asyncio


async def test_a_launched_run_is_seen_with_its_processes(world):
    workload = world.workload()
    await world.launch(workload, {"has kernel": True})
    seen = await world.running(workload)
    assert {world.leader(workload), world.kernel(workload)} <= set(seen.pids)
    assert seen.outcome is None


async def test_launching_again_starts_no_second_copy(world):
    workload = world.workload()
    await world.launch(workload)
    before = await world.running(workload)
    await world.backend.launch(Launch(workload=workload))
    assert await world.running(workload) == before


async def test_stop_returns_at_once_and_the_end_is_seen_later(world):
    workload = world.workload()
    await world.launch(workload)
    await world.running(workload)
    await asyncio.wait_for(world.backend.stop(workload.id, workload.run, 3600), timeout=scaled(30))
    await world.backend.stop(workload.id, workload.run, 3600)
    end = await world.end(workload)
    assert end.outcome in (Outcome.PAUSED, Outcome.SUCCEEDED)
    assert not runs(world.leader(workload))


async def test_what_does_not_end_in_its_grace_is_killed_with_all_that_it_started(world):
    workload = world.workload()
    await world.launch(workload, {"ignores stop": True, "has kernel": True})
    await world.running(workload)
    await world.backend.stop(workload.id, workload.run, world.grace)
    assert (await world.observed(workload)).phase is Phase.RUNNING
    world.clock.ahead += world.grace - 1
    assert (await world.observed(workload)).phase is Phase.RUNNING
    assert runs(world.leader(workload)), "its grace is not over"
    world.clock.ahead += 1.5
    end = await world.end(workload)
    assert end.outcome is Outcome.KILLED
    assert "in time" in end.sentence
    assert not runs(world.leader(workload))
    assert not runs(world.kernel(workload)), "a kernel with a session of its own is found too"


@pytest.mark.parametrize("hours", [3, -3])
async def test_a_wall_clock_that_is_set_shortens_no_grace_and_lengthens_none(world, hours):
    workload = world.workload()
    await world.launch(workload, {"ignores stop": True})
    await world.running(workload)
    await world.backend.stop(workload.id, workload.run, world.grace)
    world.clock.set_by = 3600 * hours
    assert (await world.observed(workload)).phase is Phase.RUNNING
    assert runs(world.leader(workload)), "its grace is not over"
    world.clock.ahead += world.grace + 1
    assert (await world.end(workload)).outcome is Outcome.KILLED


async def test_asking_again_does_not_add_time(world):
    workload = world.workload()
    await world.launch(workload, {"ignores stop": True})
    await world.backend.stop(workload.id, workload.run, world.grace)
    await world.backend.stop(workload.id, workload.run, 100 * world.grace)
    world.clock.ahead += world.grace + 1
    assert (await world.end(workload)).outcome is Outcome.KILLED


async def test_devices_are_free_only_when_the_last_process_is_gone(world):
    workload = world.workload()
    await world.launch(workload, {"has kernel": True})
    await world.running(workload)
    os.kill(world.leader(workload), signal.SIGKILL)
    await eventually(lambda: not runs(world.leader(workload)), "its death")
    seen = await world.observed(workload)
    assert seen.phase is Phase.RUNNING
    assert world.kernel(workload) in seen.pids
    world.clock.ahead += 30
    await world.end(workload)
    assert not runs(world.kernel(workload)), "an orphan that ignores SIGTERM is killed"


async def test_an_ended_run_is_reported_the_same_until_it_is_forgotten(world):
    workload = world.workload()
    await world.launch(workload)
    await world.backend.stop(workload.id, workload.run, 60)
    end = await world.end(workload)
    world.clock.ahead += 5
    assert await world.observed(workload) == end
    await world.backend.stop(workload.id, workload.run, 0)
    assert await world.observed(workload) == end
    await world.backend.forget(workload.id, workload.run)
    await world.backend.forget(workload.id, workload.run)
    assert await world.observed(workload) is None


async def test_stopping_what_is_unknown_is_no_error(world):
    await world.backend.stop("job-unknown", 1, 10)
    await world.backend.forget("job-unknown", 1)
    assert list(await world.backend.observe()) == []


async def test_runs_of_two_workloads_are_kept_apart(world):
    one, two = world.workload(name="one"), world.workload(name="two")
    await world.launch(one)
    await world.launch(two)
    await world.backend.stop(one.id, one.run, 60)
    await world.end(one)
    assert (await world.observed(two)).phase is Phase.RUNNING


async def test_a_new_service_finds_the_run_again_and_can_end_it(world):
    workload = world.workload()
    await world.launch(workload, {"has kernel": True})
    before = await world.running(workload)
    world.backend = world.new_backend()
    detail = WorkloadDetail(pid=world.leader(workload), pid_started=before.since)
    await world.backend.launch(Launch(workload=workload, detail=detail))
    again = await world.running(workload)
    assert again.pids == before.pids
    await world.backend.stop(workload.id, workload.run, 0)
    world.clock.ahead += 1
    await world.end(workload)
    assert not runs(world.kernel(workload))


async def test_a_run_that_ended_while_no_service_was_there_is_seen_as_ended(world):
    workload = world.workload()
    await world.launch(workload)
    before = await world.running(workload)
    os.kill(world.leader(workload), signal.SIGKILL)
    await eventually(lambda: not runs(world.leader(workload)), "its death")
    world.backend = world.new_backend()
    detail = WorkloadDetail(pid=world.leader(workload), pid_started=before.since)
    await world.backend.launch(Launch(workload=workload, detail=detail))
    assert (await world.end(workload)).outcome in (Outcome.LOST, Outcome.SUCCEEDED)
