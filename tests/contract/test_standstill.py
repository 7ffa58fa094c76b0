"""A run on this machine that a signal has stopped says so, until it goes on."""

import ctypes
import os
import signal
from dataclasses import replace

import pytest

from jupyter_gq.backends.protocol import Phase
from jupyter_gq.devices.processes import read_process
from jupyter_gq.devices.run_shares import UNFINISHED, RunShares
from jupyter_gq.devices.share_suspender import ShareSuspender
from jupyter_gq.devices.suspension_journal import FileJournal
from jupyter_gq.devices.tree_steps import SuspensionLimits, Waiting
from jupyter_gq.domain.workload import TaskPlacement
from tests.fakes.driver import FakeDriver
from tests.patience import eventually

pytestmark = pytest.mark.asyncio


async def send(pid, number):
    """Stop a process or let it go on, and wait until it does: a signal takes a while on a busy machine."""
    os.kill(pid, number)
    await eventually(lambda: read_process(pid).stopped is (number is signal.SIGSTOP), f"the effect of {number.name}")


@pytest.mark.parametrize("part", ["supervisor", "runner"])
async def test_run_that_was_stopped_by_a_signal_says_so_after_a_minute(local, part):
    workload = local.workload()
    await local.launch(workload, {"has kernel": True})
    await local.running(workload)
    pid = local.leader(workload) if part == "supervisor" else local.kernel(workload)
    await send(pid, signal.SIGSTOP)
    assert (await local.observed(workload)).sentence == ""
    for seconds in (10, 50):
        local.clock.ahead += seconds
        assert (await local.observed(workload)).sentence == "", "a debugger may stop it for a moment"
    local.clock.ahead += 10
    found = await local.observed(workload)
    assert found.phase is Phase.RUNNING
    assert f"The {part} of the job (process {pid}) was stopped by a signal" in found.sentence
    await send(pid, signal.SIGCONT)
    local.clock.ahead += 10
    assert (await local.observed(workload)).sentence == ""
    await send(pid, signal.SIGSTOP)
    local.clock.ahead += 10
    assert (await local.observed(workload)).sentence == "", "the minute begins anew"
    await local.backend.stop(workload.id, 1, 5)
    local.clock.ahead += 6
    assert (await local.end(workload)).phase is Phase.ENDED, "it can be cancelled"


#: The requests of ptrace(2).
_ATTACH, _DETACH = 16, 17


async def test_run_that_a_debugger_holds_is_not_said_to_be_stopped_by_a_signal(local):
    workload = local.workload()
    await local.launch(workload, {"has kernel": True})
    await local.running(workload)
    pid, ptrace = local.kernel(workload), ctypes.CDLL(None, use_errno=True).ptrace
    assert ptrace(_ATTACH, pid, None, None) == 0, os.strerror(ctypes.get_errno())
    try:
        await eventually(lambda: read_process(pid).traced, "the debugger")
        assert read_process(pid).stopped
        for seconds in (10, 70):
            local.clock.ahead += seconds
            assert (await local.observed(workload)).sentence == ""
    finally:
        ptrace(_DETACH, pid, None, None)


async def test_job_that_the_service_stopped_while_its_recovery_is_unfinished_says_that(local):
    """Its journal was damaged, and the driver cannot be used."""
    workload = local.workload()
    workload = replace(workload, placement=(TaskPlacement(node="box", devices=("GPU-0",)),))
    await local.launch(workload, {"has kernel": True})
    await local.running(workload)
    pids = [local.leader(workload), local.kernel(workload)]
    for pid in pids:
        await send(pid, signal.SIGSTOP)  # by the service before
    driver, journal = FakeDriver(), local.folder / "journal"
    driver.available = False
    journal.write_text("damaged")
    local.shares = RunShares(
        suspender=ShareSuspender(
            checkpointer=driver,
            probe=driver,
            host=driver,
            journal=FileJournal(journal, boot="boot"),
            waiting=Waiting(monotonic=local.clock.awake, sleep=lambda seconds: None),
            limits=SuspensionLimits(),
        ),
        now=local.clock.now,
        awake=local.clock.awake,
        on_change=lambda: None,
    )
    local.backend = local.new_backend()
    await local.observed(workload)
    assert (await local.observed(workload)).sentence in ("", UNFINISHED)
    await eventually(lambda: local.shares.unfinished, "the end of the attempt")
    for seconds in (0, 70, 70):
        local.clock.ahead += seconds
        await eventually(lambda: all(read_process(pid).stopped for pid in pids), "the stop of the job")
        assert (await local.observed(workload)).sentence == UNFINISHED
