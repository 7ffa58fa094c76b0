"""A run on this machine that a signal has stopped says so, until it goes on."""

import ctypes
import os
import signal

import pytest

from jupyter_gq.backends.protocol import Phase
from jupyter_gq.devices.linux.processes import read_process
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
