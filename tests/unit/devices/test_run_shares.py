"""Shares of servers and jobs are suspended beside the loop of the service, whatever the driver does meanwhile."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from jupyter_gq.devices.checkpointer import CheckpointProblem, CheckpointState
from jupyter_gq.devices.choose import choose_suspender
from jupyter_gq.devices.linux.processes import read_process
from jupyter_gq.devices.suspension.journal import FileJournal
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.devices.suspension.suspender import SuspensionError, SuspensionProblem, SuspensionTarget
from jupyter_gq.domain.states import State
from tests.fakes import FakeProbe, FixedClock
from tests.patience import eventually

from .share_machine import KERNEL, KEY, NOTEBOOK, JobMachine, Machine, comes_to, recovered

pytestmark = pytest.mark.asyncio


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "journal")


async def test_a_share_leaves_its_device_and_comes_back(machine):
    shares = await recovered(machine)
    shares.suspend(*KEY)
    assert shares.state(*KEY).phase is SharePhase.SUSPENDING
    assert (await comes_to(shares, SharePhase.SUSPENDED)).memory == 1000
    assert machine.driver.used("GPU-0") == 0
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    assert machine.driver.used("GPU-0") == 1000
    assert machine.changes >= 3


async def test_a_share_whose_resume_a_killed_service_had_finished_is_in_use(machine):
    """The service died after the last step of the resume and before its record said so; no byte is away."""
    shares = await recovered(machine)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    await recovered(machine, SharePhase.IN_USE, replace(NOTEBOOK, state=State.RESUMING))


async def test_later_share_of_the_same_name_is_not_what_was_found_of_the_earlier_one(machine):
    shares = await recovered(machine)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    again = await recovered(machine, SharePhase.SUSPENDED, replace(NOTEBOOK, state=State.SUSPENDED))
    again.remove(*KEY)
    again.add(NOTEBOOK, lambda: [])
    assert again.state(*KEY).phase is SharePhase.IN_USE


@pytest.mark.parametrize("restarts", [False, True], ids=["same", "restarted"])
async def test_a_suspended_share_whose_programs_have_ended_has_nothing_left(machine, restarts):
    shares = await recovered(machine)
    shares.suspend(*KEY)
    assert (await comes_to(shares, SharePhase.SUSPENDED)).ended is False
    if restarts:
        shares = await recovered(machine, SharePhase.SUSPENDED, replace(NOTEBOOK, state=State.SUSPENDED))
    del machine.driver.processes[KERNEL]
    ended = shares.state(*KEY)
    assert (ended.phase, ended.memory, ended.ended) == (SharePhase.SUSPENDED, 0, True)

    async def forgotten():
        return not shares.suspender.suspensions()

    await eventually(forgotten, lambda: "the suspender to forget the share")
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)


async def test_a_share_without_memory_is_suspended_all_the_same(tmp_path):
    machine = Machine(tmp_path / "journal", memory=0)
    shares = await recovered(machine)
    shares.suspend(*KEY)
    assert (await comes_to(shares, SharePhase.SUSPENDED)).memory == 0
    again = await recovered(machine, SharePhase.SUSPENDED, replace(NOTEBOOK, state=State.SUSPENDED))
    again.resume(*KEY)
    await comes_to(again, SharePhase.IN_USE)


async def test_a_kernel_that_took_the_place_of_a_suspended_one_is_not_gone(machine):
    shares = await recovered(machine)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    del machine.driver.processes[KERNEL]
    machine.driver.start(KERNEL + 1, 0)
    shares.suspend(*KEY)
    suspended = await comes_to(shares, SharePhase.SUSPENDED)
    assert (suspended.memory, suspended.ended) == (0, False)


async def test_a_driver_that_hangs_holds_up_nothing_and_a_use_meanwhile_undoes_the_suspension(machine):
    hangs = threading.Event()
    machine.driver.before = lambda call, process: hangs.wait() if call == "lock" else None
    shares = await recovered(machine)
    shares.suspend(*KEY)
    await asyncio.sleep(0)
    machine.clock.forward(200)
    assert "unusually long" in shares.describe_trouble(*KEY)
    shares.resume(*KEY)
    hangs.set()
    await comes_to(shares, SharePhase.IN_USE)
    assert shares.state(*KEY).failure == ""
    assert machine.driver.used("GPU-0") == 1000


async def test_a_suspended_share_is_known_again_after_a_restart(machine):
    shares = await recovered(machine)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    again = await recovered(machine, SharePhase.SUSPENDED)
    again.resume(*KEY)
    await comes_to(again, SharePhase.IN_USE)
    assert machine.driver.used("GPU-0") == 1000


async def test_a_refusal_of_the_driver_is_remembered(machine):
    machine.driver.processes[KERNEL].fails["checkpoint"] = CheckpointProblem.UNSUPPORTED
    shares = await recovered(machine)
    shares.suspend(*KEY)
    failed = await comes_to(shares, SharePhase.IN_USE)
    assert "refuses" in failed.failure
    assert failed.failed_at == machine.clock.now()
    assert shares.describe_refusal(*KEY) == failed.failure


async def test_a_machine_that_cannot_suspend_says_why(machine):
    machine.driver.available = False
    shares = await recovered(machine)
    assert shares.describe_refusal(*KEY) == "The driver is too old."


async def test_a_resume_without_room_waits_and_says_so(machine):
    shares = await recovered(machine)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    machine.driver.start(9, 9900)
    shares.resume(*KEY)
    assert "cannot come back yet" in (await comes_to(shares, SharePhase.SUSPENDED)).failure
    assert "cannot come back yet" in shares.describe_trouble(*KEY)
    shares.resume(*KEY)
    assert shares.state(*KEY).phase is SharePhase.RESUMING
    assert "cannot come back yet" in shares.describe_trouble(*KEY), "also while the next attempt waits for room"
    await comes_to(shares, SharePhase.SUSPENDED)
    machine.driver.end(9)
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    assert shares.describe_trouble(*KEY) == ""


async def test_a_full_disk_costs_no_suspended_state_however_long_it_is_full(machine, disk):
    shares = await recovered(machine)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    disk.full, disk.tries = True, 0
    for tries in range(1, 7):
        shares.resume(*KEY)
        assert "No space left" in (await comes_to(shares, SharePhase.SUSPENDED)).failure
        shares.resume(*KEY)  # as the step does that the change of the share brings about
        assert shares.state(*KEY).phase is SharePhase.SUSPENDED
        assert disk.tries == tries, "attempts follow each other without a pause"
        machine.clock.forward(6)
    disk.full = False
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    assert machine.driver.used("GPU-0") == 1000
    assert shares.describe_trouble(*KEY) == ""


async def test_a_resume_that_fails_for_an_unknown_reason_is_tried_three_times_with_pauses(machine):
    shares = await recovered(machine)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    shares.suspender.resume = fails_by(BROKEN)
    for _ in range(2):
        shares.resume(*KEY)
        assert "cannot come back yet" in (await comes_to(shares, SharePhase.SUSPENDED)).failure
        shares.resume(*KEY)
        assert shares.state(*KEY).phase is SharePhase.SUSPENDED, "attempts follow each other without a pause"
        machine.clock.forward(6)
    shares.resume(*KEY)
    assert "Restart the kernel" in (await comes_to(shares, SharePhase.IN_USE)).failure


async def test_a_lost_kernel_is_named_as_long_as_it_lives(tmp_path):
    machine = Machine(tmp_path / "journal", memory=0)
    own = read_process(os.getpid()).id
    machine.driver.processes[own.pid] = replace(machine.driver.processes[KERNEL], id=own, memory=1000, fails={})
    del machine.driver.processes[KERNEL]
    shares = await recovered(machine)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    machine.driver.processes[own.pid].fails["restore"] = CheckpointProblem.LOST
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    assert "Restart the kernel" in shares.describe_trouble(*KEY)


async def test_a_server_that_has_ended_is_forgotten(machine):
    shares = await recovered(machine)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    shares.remove(*KEY)
    assert shares.state(*KEY) is None
    await eventually(lambda: not FileJournal(machine.path, boot="boot").entries(), lambda: "an empty journal")


async def test_without_simulated_devices_the_driver_is_asked(tmp_path):
    support = choose_suspender(FakeProbe(), tmp_path / "journal", FixedClock().now, lambda: None).support()
    assert not support.available or "driver" in support.detail


BROKEN = SuspensionError(SuspensionProblem.BROKEN, "The driver does not answer.")


@pytest.fixture
def jobs(tmp_path):
    machine = JobMachine(tmp_path / "journal")
    yield machine
    for process in machine.real:
        process.kill()
        process.wait()


@pytest.fixture
def helper(jobs):
    """A real process of the job that uses no device."""
    jobs.real.append(subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"]))
    return jobs.real[0]


async def comes_to_stand(process, *, still: bool = True):
    await eventually(
        lambda: read_process(process.pid).stopped is still, "the process to stop" if still else "the process to go on"
    )


async def suspended(machine):
    shares = await recovered(machine)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    return shares


async def test_a_job_without_gpu_memory_is_not_suspended(tmp_path):
    machine = JobMachine(tmp_path / "journal", memory=0)
    shares = await recovered(machine)
    shares.suspend(*KEY)

    async def failed():
        return shares.state(*KEY).failure

    assert await eventually(failed, lambda: "a failure") == "No program of this share uses a GPU."
    assert shares.state(*KEY).phase is SharePhase.IN_USE


async def test_a_job_comes_back_at_another_device(jobs):
    shares = await recovered(jobs)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    assert jobs.driver.used("GPU-0") == 0
    shares.resume(*KEY, ("GPU-1",))
    await comes_to(shares, SharePhase.IN_USE)
    assert (jobs.driver.used("GPU-0"), jobs.driver.used("GPU-1")) == (0, 1000)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    assert jobs.driver.used("GPU-1") == 0, "the share is looked for where it is now"


async def test_a_suspended_job_that_its_owner_lets_go_on_is_stopped_again(jobs, helper):
    shares = await suspended(jobs)
    await comes_to_stand(helper)
    helper.send_signal(signal.SIGCONT)
    await comes_to_stand(helper, still=False)
    shares.freeze_again(*KEY, jobs.find_processes())
    await comes_to_stand(helper)
    shares.resume(*KEY)
    shares.freeze_again(*KEY, jobs.find_processes())
    await comes_to(shares, SharePhase.IN_USE)
    shares.freeze_again(*KEY, jobs.find_processes())
    await comes_to_stand(helper, still=False)  # a job that comes back, or runs, is left alone
    assert jobs.groups == [True, True, False]


async def test_a_frozen_group_goes_on_before_the_driver_is_asked_after_a_restart(jobs):
    await suspended(jobs)
    jobs.groups.clear()
    jobs.driver.before = lambda call, process: jobs.groups.append(call)
    await recovered(jobs, SharePhase.SUSPENDED)
    assert (jobs.groups[0], jobs.groups[-1]) == (False, True)


@pytest.mark.parametrize("problem", ["driver", "journal", "disk"])
async def test_a_suspended_job_stands_still_and_has_no_phase_while_its_recovery_fails(jobs, helper, problem):
    """A phase in use would let the service end the job, and a job that goes on computes beside its borrower."""
    await suspended(jobs)
    again = jobs.shares()
    recover = again.suspender.recover
    if problem == "driver":
        jobs.driver.processes[KERNEL].fails = {"state": CheckpointProblem.BROKEN}
    else:
        again.suspender.recover = fails_by(OSError() if problem == "disk" else BROKEN)
    jobs.groups.clear()
    before = jobs.changes
    again.recover()
    await eventually(lambda: jobs.changes > before, "the end of the attempt")
    assert again.state(*KEY) is None
    assert jobs.groups == [False, True]
    assert read_process(helper.pid).stopped
    jobs.driver.processes[KERNEL].fails, again.suspender.recover = {}, recover
    jobs.clock.forward(5)
    again.recover()
    await comes_to(again, SharePhase.SUSPENDED)
    assert jobs.groups == [False, True, False, True]


async def test_a_job_that_has_begun_since_is_not_stopped_by_a_later_attempt(jobs, helper):
    await suspended(jobs)
    again = jobs.shares()
    recover, again.suspender.recover = again.suspender.recover, fails_by(BROKEN)
    before = jobs.changes
    again.recover()
    await eventually(lambda: jobs.changes > before, "the end of the attempt")
    again.suspender.forget = lambda name: None  # the disk is slow
    again.remove(*KEY)
    later = (KEY[0], KEY[1] + 1)
    target = SuspensionTarget(name="job-1", devices=("GPU-0",), find_processes=jobs.find_processes)
    again.add_job(later, target, jobs.groups.append)
    again.suspender.recover = recover
    jobs.groups.clear()
    jobs.clock.forward(5)
    before = jobs.changes
    again.recover()
    await eventually(lambda: jobs.changes > before, "the end of the attempt")
    assert (jobs.groups, again.state(*later).phase) == ([], SharePhase.IN_USE)


async def test_a_job_whose_state_was_lost_meanwhile_goes_on_so_that_it_can_end(jobs):
    jobs.driver.start(3, 500)
    await suspended(jobs)
    jobs.driver.processes[3].state = CheckpointState.FAILED
    jobs.groups.clear()
    again = await recovered(jobs)
    assert "could not be brought back" in again.describe_loss(*KEY)
    assert jobs.groups == [False]


def fails_by(error):
    def fail(*_arguments, **_keywords):
        raise error

    return fail


@pytest.mark.parametrize("who", ["kernel", "helper"])
async def test_a_suspended_job_of_which_a_process_has_ended_cannot_go_on(jobs, helper, who):
    shares = await suspended(jobs)
    assert shares.describe_loss(*KEY) == ""
    end(jobs, helper, who)
    assert shares.describe_loss(*KEY) == "A program of the job ended while the job was paused."
    ended = shares.state(*KEY)
    assert (ended.phase, ended.memory, ended.ended) == (SharePhase.SUSPENDED, 0, True)
    shares.resume(*KEY)
    assert shares.state(*KEY).phase is SharePhase.SUSPENDED, "nothing of it goes on"
    shares.remove(*KEY)
    await eventually(lambda: not shares.suspender.suspensions(), "the suspender to forget the share")


async def test_a_job_of_several_programs_cannot_go_on_without_one_of_them(jobs):
    jobs.driver.start(3, 500)
    shares = await suspended(jobs)
    jobs.driver.end(3)
    assert shares.state(*KEY).ended


async def test_a_process_that_ended_while_there_was_no_service_is_noticed(jobs):
    jobs.driver.start(3, 500)
    await suspended(jobs)
    jobs.driver.end(3)
    shares = await recovered(jobs, SharePhase.SUSPENDED)
    assert shares.state(*KEY).ended
    assert "ended while the job was paused" in shares.describe_loss(*KEY)


async def test_a_later_run_of_a_job_is_not_taken_for_its_suspended_one(jobs):
    await suspended(jobs)
    shares = await recovered(jobs, SharePhase.SUSPENDED)
    jobs.driver.end(KERNEL)
    shares.remove(*KEY)
    later = (KEY[0], KEY[1] + 1)
    shares.add_job(later, SuspensionTarget(name="job-1", devices=("GPU-0",), find_processes=list), jobs.groups.append)
    assert (shares.state(*later).phase, shares.describe_loss(*later)) == (SharePhase.IN_USE, "")


def end(machine, helper, who):
    if who == "kernel":
        machine.driver.end(KERNEL)
    else:
        helper.kill()
        helper.wait()
        machine.real.clear()


async def test_a_job_whose_state_is_lost_at_its_return_cannot_go_on(jobs):
    shares = await recovered(jobs)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    jobs.driver.processes[KERNEL].fails["restore"] = CheckpointProblem.LOST
    shares.resume(*KEY)
    state = await comes_to(shares, SharePhase.IN_USE)
    assert "Restart the kernel (" not in state.failure
    assert "could not be brought back" in shares.describe_loss(*KEY)


async def test_a_share_on_a_device_that_is_shared_by_mps_cannot_be_suspended_and_none_moves(machine):
    shares = await recovered(machine)
    assert (shares.describe_refusal(*KEY), shares.can_move) == ("", True)
    shares.partitioned = {"GPU-1"}
    assert (shares.describe_refusal(*KEY), shares.can_move) == ("", False)
    shares.partitioned = {"GPU-0"}
    assert "shared by MPS" in shares.describe_refusal(*KEY)
