"""Starts of which the service does not know that they came to an end."""

import os
import shutil
import signal
from dataclasses import replace

import pytest

from jupyter_gq.backends.local.results import HALF_STARTED
from jupyter_gq.backends.protocol import Outcome
from tests.patience import eventually

from .worlds import LocalWorld, runs

pytestmark = pytest.mark.asyncio


async def test_a_command_that_is_nowhere_on_the_path_fails_the_job_with_its_name(tmp_path):
    world = LocalWorld(tmp_path, command=("no-such-python",))
    workload = world.workload()
    world.prepare(workload)
    await world.request(workload)
    end = await world.end(workload)
    assert end.outcome is Outcome.FAILED
    assert end.sentence.startswith("The task could not be started: ")
    assert "no-such-python" in end.sentence


async def test_a_gang_of_which_a_killed_service_started_a_part_is_taken_again(local):
    """The part is ended, and the run does not count as lost."""
    workload = local.workload(tasks=2)
    await local.launch(workload)
    leader = local.leader(workload)
    os.kill(local.leader(workload, 1), signal.SIGKILL)
    local.backend._ledger.put(local.backend._ledger.get(workload.id, 1).with_process(1, None))
    shutil.rmtree(local.task(workload, 1))
    local.backend = local.new_backend()
    end = await local.end(workload)
    assert (end.outcome, end.sentence) == (Outcome.REFUSED, f"Task 1 of 2: {HALF_STARTED}")
    assert not runs(leader)


async def test_what_an_unconfirmed_start_has_printed_shows_that_it_ran(local):
    workload = local.workload()
    await local.launch(workload)
    leader = local.leader(workload)
    os.kill(leader, signal.SIGKILL)
    await eventually(lambda: not runs(leader), "the end of the process")
    local.backend._ledger.put(local.backend._ledger.get(workload.id, 1).with_process(0, None))
    local.backend = local.new_backend()
    assert (await local.end(workload)).outcome is Outcome.LOST


async def test_what_an_earlier_attempt_has_printed_does_not_show_that_this_one_ran(local):
    workload = local.workload()
    await local.launch(workload)
    leader = local.leader(workload)
    os.kill(leader, signal.SIGKILL)
    await eventually(lambda: not runs(leader), "the end of the process")
    written = (local.task(workload) / "log").stat()
    assert written.st_size
    again = replace(local.backend._ledger.get(workload.id, 1), launched_at=written.st_ctime + 1)
    local.backend._ledger.put(again.with_process(0, None))
    local.backend = local.new_backend()
    end = await local.end(workload)
    assert (end.outcome, end.sentence) == (Outcome.REFUSED, HALF_STARTED)
