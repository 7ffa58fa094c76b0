"""A job on this machine whose entry was lost with a damaged journal; only the driver is a fake."""

import os
import signal
from dataclasses import replace

import pytest

from jupyter_gq.devices.checkpointer import CheckpointState
from jupyter_gq.devices.linux.processes import identify, read_process
from jupyter_gq.devices.suspension.journal import FileJournal
from jupyter_gq.devices.suspension.run_shares import UNFINISHED, RunShares
from jupyter_gq.devices.suspension.share_suspender import ShareSuspender
from jupyter_gq.devices.suspension.tree_steps import SuspensionLimits, Waiting
from jupyter_gq.domain.workload import TaskPlacement
from tests.fakes.driver import DriverProcess, FakeDriver
from tests.patience import eventually

pytestmark = pytest.mark.asyncio


async def launched(local, gpus):
    """Launch a job on one device, and return it with the ids of its supervisor and its runner."""
    workload = local.workload(gpus=gpus)
    workload = replace(workload, placement=(TaskPlacement(node="box", devices=("GPU-0",)),))
    await local.launch(workload, {"has kernel": True})
    await local.running(workload)
    return workload, [local.leader(workload), local.kernel(workload)]


async def restart_without_journal(local, workload, driver):
    """Let a new service find a damaged journal, and wait until it has asked the driver; return the journal."""
    file = local.folder / "journal"
    file.write_text("damaged")
    journal = FileJournal(file, boot="boot")
    local.shares = RunShares(
        suspender=ShareSuspender(
            checkpointer=driver,
            probe=driver,
            host=driver,
            journal=journal,
            waiting=Waiting(monotonic=local.clock.awake, sleep=lambda seconds: None),
            limits=SuspensionLimits(),
        ),
        now=local.clock.now,
        awake=local.clock.awake,
        on_change=lambda: None,
    )
    local.backend = local.new_backend()
    await local.observed(workload)
    await eventually(lambda: local.shares._recovery.found is not None, "the end of the attempt")
    return journal


async def test_job_that_the_service_stopped_while_its_recovery_is_unfinished_says_that(local):
    workload, pids = await launched(local, 1)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # as the service before
    # Each stops once it gets a processor, and the service before had waited for that.
    await eventually(lambda: all(read_process(pid).stopped for pid in pids), "the stop by the service before")
    driver = FakeDriver()
    driver.available = False
    await restart_without_journal(local, workload, driver)
    for seconds in (0, 70, 70):
        local.clock.ahead += seconds
        await eventually(lambda: all(read_process(pid).stopped for pid in pids), "the stop of the job")
        assert (await local.observed(workload)).sentence == UNFINISHED


async def test_job_on_a_part_of_a_device_needs_no_more_than_that_to_come_back(local):
    workload, (_, runner) = await launched(local, 0.5)
    driver = FakeDriver()
    driver.own_memory = 9_000
    suspended = DriverProcess(id=identify(runner), memory=1000, state=CheckpointState.CHECKPOINTED)
    driver.processes[runner] = suspended
    journal = await restart_without_journal(local, workload, driver)
    found = journal.find(workload.id).suspension()
    assert (found.processes, found.memory) == ((suspended.id,), {"GPU-0": 5000 + 600})
