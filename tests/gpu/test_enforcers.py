"""Limits of the driver, MPS and the watchdog on a real GPU: a program above its limit is refused memory, or ended.

The programs hold some memory of the first GPU. Limits are set on a control group that the test makes and removes; the
daemon of MPS is one of the test's own.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from jupyter_gq.agent.clock import now
from jupyter_gq.backends.control_groups import add_process, find_own_group, pids_of
from jupyter_gq.devices.linux.signals import send_signal
from jupyter_gq.devices.memory_watchdog import Act, LimitedUse, Watched, WatchRule, judge
from jupyter_gq.devices.meter import ProbeMeter, Share
from jupyter_gq.devices.nvidia.driver_limits import LimitError, NvmlLimiter, is_kept
from jupyter_gq.devices.nvidia.mps import PROGRAM, MpsDaemon, mps_environment
from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from jupyter_gq.domain.amount import MiB, MilliGpu, Seconds
from jupyter_gq.domain.cluster import Device
from tests.driver_fakes import DriverMachine
from tests.patience import scaled, until

PROBE = NvmlProbe(now=now)

#: MiB of the limit, and what a program holds within it and above it.
LIMIT, WITHIN, ABOVE = MiB(4096), 1024, 8192


@pytest.fixture
def device():
    found = PROBE.devices()[0]
    free = PROBE.free_memory(found.uuid)
    if free is None or free < 2 * ABOVE:
        pytest.skip(f"the first GPU has no {2 * ABOVE} MiB of free memory")
    return found


@pytest.fixture
def machine():
    made = DriverMachine({})
    yield made
    made.close()


def is_refused(machine, pid):
    """Tell whether a program cannot hold more than its limit; it ends then."""
    machine.begin(pid, "hold", ABOVE)
    return not machine.answer(pid)


@pytest.fixture
def group():
    own = find_own_group()
    if own is None:
        pytest.skip("this process may not make control groups of version 2")
    made = own / f"gq-test-{os.getpid()}"
    made.mkdir()
    yield str(made)
    until(lambda: not pids_of(str(made)), "the end of the programs")
    made.rmdir()


def test_driver_refuses_memory_above_the_limit_of_a_group(device, group, machine):
    limiter = NvmlLimiter()
    try:
        limiter.set_limit(device.uuid, group, LIMIT)
    except LimitError as error:
        pytest.skip(str(error))
    assert is_kept(LIMIT, limiter.read_limit(device.uuid, group))
    program = machine.start(1)  # its context is there before it comes into the group
    add_process(group, program.pid)
    machine.tell(program.pid, "hold", WITHIN)
    assert is_refused(machine, program.pid)
    limiter.set_limit(device.uuid, group, None)
    assert limiter.read_limit(device.uuid, group) is None


@pytest.fixture
def daemon(device):
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is not installed")
    folder = Path(tempfile.mkdtemp(prefix="gq-mps-"))
    made = MpsDaemon(folder=folder, devices=[device.uuid])
    assert made.ensure() == ""
    yield made
    environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(made.pipes)}
    subprocess.run([PROGRAM], input=b"quit\n", env=environment, check=False, timeout=scaled(60))
    shutil.rmtree(folder, ignore_errors=True)


def test_mps_refuses_memory_above_the_limit_and_the_driver_shows_its_client(device, daemon):
    whole = Device(id=device.uuid, index=0, model=device.model, memory=device.memory, pool="")
    milli = MilliGpu(max(1, LIMIT * 1000 // device.memory))
    variables = mps_environment([whole], milli, served=daemon.devices, pipes=daemon.pipes)
    machine = DriverMachine({**variables, "CUDA_VISIBLE_DEVICES": device.uuid})
    try:
        program = machine.start(WITHIN)
        (use,) = PROBE.usage(device.uuid, [program.pid])
        assert use.through_mps
        assert PROBE.suspension_obstacle(device.uuid, [program.pid])
        assert is_refused(machine, program.pid)
    finally:
        machine.close()


def test_program_without_the_folder_of_the_daemon_is_seen_outside_mps(device, daemon):
    machine = DriverMachine({"CUDA_MPS_PIPE_DIRECTORY": "/nonexistent/gq", "CUDA_VISIBLE_DEVICES": device.uuid})
    try:
        program = machine.start(WITHIN)
        (use,) = PROBE.usage(device.uuid, [program.pid])
        assert not use.through_mps
    finally:
        machine.close()


def test_watchdog_warns_and_then_ends_a_program_above_its_limit_within_its_time(device, machine):
    rule = WatchRule(after={**WatchRule().after, Act.INTERRUPT: Seconds(1)})
    offender, within = machine.start(ABOVE), machine.start(WITHIN)
    machine.tell(within.pid, "write", 4711)
    share = Share(devices=(device.uuid,), pids=(offender.pid, within.pid))
    state, acts, began = Watched(), [], now()

    def judge_a_sample():
        nonlocal state
        (use,) = ProbeMeter(PROBE).measure({"share": share})["share"].devices
        state, act = judge(state, [LimitedUse(limit=LIMIT, use=use)], now(), rule)
        if act is not None:
            acts.append(act)
        if act is Act.INTERRUPT:
            assert state.excess.largest == offender
            send_signal(offender.pid, offender.ticks, signal.SIGINT)
        return machine.programs[offender.pid].poll() is not None

    until(judge_a_sample, "the end of the program")
    assert acts == [Act.WARN, Act.INTERRUPT]
    assert now() - began >= 1
    assert machine.tell(within.pid, "read") == "4711"
