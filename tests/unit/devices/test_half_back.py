"""A resume that the driver or the disk interrupts is finished later, and nobody is told before that it is."""

import asyncio
import threading

import pytest

from jupyter_gq.devices.checkpointer import CheckpointError, CheckpointProblem, CheckpointState
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.devices.suspension.suspender import SuspensionTarget
from jupyter_gq.devices.suspension.tree_steps import TreeSteps
from tests.patience import eventually, scaled

from .share_machine import KERNEL, KEY, JobMachine, Machine, comes_to, recovered

pytestmark = pytest.mark.asyncio
KINDS = pytest.mark.parametrize("kind", [Machine, JobMachine])


async def suspended(machine):
    shares = await recovered(machine)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    assert machine.driver.used("GPU-0") == 0
    return shares


async def resumed(machine, shares):
    """Return the state of the share after an attempt to resume it."""
    changes = machine.changes
    shares.resume(*KEY)
    await eventually(lambda: machine.changes > changes, "the end of the attempt")
    return shares.state(*KEY)


@KINDS
async def test_a_resume_that_the_driver_refused_is_repeated(tmp_path, kind, monkeypatch):
    machine = kind(tmp_path / "journal")
    shares = await suspended(machine)
    restore = machine.driver.restore

    def refuse(*_args, **_named):
        raise CheckpointError(CheckpointProblem.BUSY, "The driver is busy.")

    monkeypatch.setattr(machine.driver, "restore", refuse)
    assert (await resumed(machine, shares)).phase is SharePhase.SUSPENDED
    machine.clock.forward(6)
    assert (await resumed(machine, shares)).phase is SharePhase.SUSPENDED, "not in use, since nothing came back"
    assert machine.driver.processes[KERNEL].state is CheckpointState.CHECKPOINTED
    monkeypatch.setattr(machine.driver, "restore", restore)
    machine.clock.forward(6)
    assert (await resumed(machine, shares)).phase is SharePhase.IN_USE
    assert machine.driver.used("GPU-0") == 1000


@KINDS
async def test_a_resume_without_room_and_with_a_full_disk_is_repeated(tmp_path, disk, kind, monkeypatch):
    machine = kind(tmp_path / "journal")
    shares = await suspended(machine)
    asked, await_room = [], TreeSteps.await_room

    def is_taken_after_the_first_look(*args):
        asked.append(args)
        disk.full = len(asked) > 1
        return await_room(*args) and not disk.full

    with monkeypatch.context() as taken:
        taken.setattr(TreeSteps, "await_room", is_taken_after_the_first_look)
        assert (await resumed(machine, shares)).phase is SharePhase.SUSPENDED
    disk.full = False
    machine.clock.forward(6)
    assert (await resumed(machine, shares)).phase is SharePhase.IN_USE
    assert machine.driver.used("GPU-0") == 1000
    assert shares.suspender.suspensions() == ()


@KINDS
async def test_a_share_that_is_back_is_in_use_although_the_disk_is_full(tmp_path, disk, kind, monkeypatch):
    machine = kind(tmp_path / "journal")
    shares = await suspended(machine)
    restore = machine.driver.restore

    def restore_and_fill(*args, **named):
        disk.full = True
        return restore(*args, **named)

    monkeypatch.setattr(machine.driver, "restore", restore_and_fill)
    assert (await resumed(machine, shares)).phase is SharePhase.IN_USE
    assert machine.driver.used("GPU-0") == 1000
    assert shares.suspender.suspensions() == (), "the entry that the disk keeps counts for nothing"
    disk.full = False
    shares.suspend(*KEY)
    assert (await comes_to(shares, SharePhase.SUSPENDED)).memory == 1000
    assert machine.driver.used("GPU-0") == 0
    disk.full = False
    monkeypatch.setattr(machine.driver, "restore", restore)
    assert (await resumed(machine, shares)).phase is SharePhase.IN_USE


async def test_a_job_whose_move_was_broken_off_comes_back_as_a_whole_on_its_device(tmp_path):
    machine = JobMachine(tmp_path / "journal")
    machine.driver.start(3, 2000)
    shares = await suspended(machine)

    def take(call, process):
        if call == "restore":
            machine.driver.total["GPU-1"] = 2500

    machine.driver.before = take
    changes = machine.changes
    shares.resume(*KEY, ["GPU-1"])
    await eventually(lambda: machine.changes > changes, "the end of the attempt")
    assert shares.state(*KEY).phase is SharePhase.SUSPENDED
    machine.driver.before = lambda call, process: None
    machine.driver.total["GPU-1"] = 10_000
    machine.clock.forward(6)
    shares.resume(*KEY, ["GPU-1"])
    await comes_to(shares, SharePhase.IN_USE)
    assert (machine.driver.used("GPU-0"), machine.driver.used("GPU-1")) == (0, 3000)


async def test_a_hung_call_of_an_ended_run_forgets_nothing_of_the_next_one(tmp_path, monkeypatch):
    machine = JobMachine(tmp_path / "journal")
    shares = await recovered(machine)
    inside, go_on, lock = threading.Event(), threading.Event(), machine.driver.lock

    def hang(*args, **named):
        inside.set()
        go_on.wait(scaled(30))
        return lock(*args, **named)

    forgotten, forget = [], shares.suspender.forget
    monkeypatch.setattr(machine.driver, "lock", hang)
    monkeypatch.setattr(shares.suspender, "forget", lambda name: (forgotten.append(name), forget(name)))
    shares.suspend(*KEY)
    await asyncio.to_thread(inside.wait, scaled(30))
    shares.remove(*KEY)
    later = (KEY[0], KEY[1] + 1)
    target = SuspensionTarget(name="job-1", devices=("GPU-0",), find_processes=machine.find_processes)
    shares.add_job(later, target, machine.groups.append)
    changes = machine.changes
    go_on.set()
    await eventually(lambda: machine.changes > changes, "the end of the hung call")
    shares.suspend(*later)
    await eventually(lambda: shares.state(*later).phase is SharePhase.SUSPENDED, "the suspension of the next run")
    assert forgotten == []
    assert [each.name for each in shares.suspender.suspensions()] == ["job-1"]


@pytest.mark.parametrize("why", ["driver", "disk"])
async def test_a_job_that_is_half_back_goes_on_after_a_restart_of_the_service(tmp_path, disk, why, monkeypatch):
    machine = JobMachine(tmp_path / "journal")
    shares = await suspended(machine)
    restore = machine.driver.restore

    def refuse(*args, **named):
        if why == "driver":
            raise CheckpointError(CheckpointProblem.BUSY, "The driver is busy.")
        disk.full = True
        return restore(*args, **named)

    with monkeypatch.context() as refused:
        refused.setattr(machine.driver, "restore", refuse)
        await resumed(machine, shares)
    disk.full = False
    await recovered(machine)
    assert machine.driver.used("GPU-0") == 1000
    assert machine.groups[-1] is False, "thawed last"
