"""The end of a local run is when its tasks wrote their results, also if no service watched."""

import os
import signal
import time

import pytest

from jupyter_gq.backends.protocol import Outcome
from tests.kubernetes.waiting import eventually

from .worlds import runs

pytestmark = pytest.mark.asyncio
#: Seconds for which no service watches.
AWAY = 120.0


async def end_unwatched(local, workload, number):
    """End the run with a signal while no service watches; return how the next service, `AWAY` later, sees the end."""
    leader = local.leader(workload)
    os.kill(leader, number)
    await eventually(lambda: not runs(leader), "the end of the run")
    local.clock.ahead += AWAY
    local.backend = local.new_backend()
    return await local.end(workload)


async def test_a_run_that_ended_without_a_service_ended_when_it_wrote_its_result(local):
    workload = local.workload()
    await local.launch(workload)
    began = local.clock.now()
    end = await end_unwatched(local, workload, signal.SIGTERM)
    assert end.outcome is Outcome.PAUSED
    assert began - 1.0 < end.since <= local.clock.now() - AWAY


async def test_a_run_without_a_result_ended_when_that_was_seen(local):
    workload = local.workload()
    await local.launch(workload)
    before = local.clock.now() + AWAY
    end = await end_unwatched(local, workload, signal.SIGKILL)
    assert end.outcome is Outcome.LOST
    assert before <= end.since <= local.clock.now()


async def test_a_result_that_was_made_to_look_older_does_not_shorten_the_run(local):
    workload = local.workload()
    await local.launch(workload)
    began = time.time() - 1.0  # noqa: TID251 - the file system has the time of the machine
    os.kill(local.leader(workload), signal.SIGTERM)
    await eventually(lambda: not runs(local.leader(workload)), "the end of the run")
    os.utime(local.task(workload) / "result.json", (0, 0))
    local.backend = local.new_backend()
    assert (await local.end(workload)).since > began


@pytest.mark.parametrize("seen", [True, False])
async def test_a_run_did_not_end_before_it_was_last_seen_alive(local, seen):
    workload = local.workload()
    await local.launch(workload, {"has kernel": True})
    leader = local.leader(workload)
    os.kill(leader, signal.SIGTERM)
    await eventually(lambda: not runs(leader), "the end of the runner")
    local.clock.ahead += AWAY
    alive = local.clock.now()
    if seen:
        await local.running(workload)
    os.kill(local.kernel(workload), signal.SIGKILL)
    await eventually(lambda: not runs(local.kernel(workload)), "the end of the kernel")
    assert ((await local.end(workload)).since >= alive) is seen
