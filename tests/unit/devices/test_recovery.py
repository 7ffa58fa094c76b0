"""What a crash left of suspensions is recovered after a start, as often as that takes."""

import asyncio
from dataclasses import replace

import pytest

from jupyter_gq.devices.checkpointer import CheckpointProblem, CheckpointState
from jupyter_gq.devices.suspension.journal import FileJournal, JournalEntry, Member, Step
from jupyter_gq.devices.suspension.run_shares import UNFINISHED
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.devices.suspension.suspender import SuspensionError, SuspensionProblem, SuspensionTarget
from jupyter_gq.domain.states import State
from tests.builders import a_notebook, running
from tests.patience import eventually

from .share_machine import KERNEL, KEY, NOTEBOOK, Machine, comes_to, recovered

pytestmark = pytest.mark.asyncio


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "journal")


async def after_a_restart_without_driver(machine, state):
    """Suspend the share; return the shares of the next service, with the workload in `state` and a failing driver."""
    shares = await recovered(machine)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    machine.driver.processes[KERNEL].fails = {"state": CheckpointProblem.BROKEN}
    return machine.shares(replace(NOTEBOOK, state=state))


async def test_a_share_that_was_about_to_come_back_is_away_while_the_journal_cannot_be_read(machine):
    shares = machine.shares(replace(NOTEBOOK, state=State.RESUMING))
    shares.suspender.recover = cannot_be_read
    shares.recover()
    await comes_to(shares, SharePhase.SUSPENDED)


@pytest.mark.parametrize("state", [State.RUNNING, State.SUSPENDED])
async def test_share_that_could_not_be_recovered_is_not_taken_as_used(machine, state):
    again = await after_a_restart_without_driver(machine, state)
    before = machine.changes
    again.recover()
    await eventually(lambda: machine.changes > before, "the recovery")
    found = again.state(*KEY)
    assert (found and found.phase) == (None if state is State.RUNNING else SharePhase.SUSPENDED)


async def attempts_in(machine, shares, seconds):
    """Call `recover` every second, as the loop does; return at which second each attempt began."""
    began, calls = [], []

    def noted(names=None):
        calls.append(names)
        return recover(names)

    recover, shares.suspender.recover = shares.suspender.recover, noted
    for second in range(seconds):
        before = len(calls)
        shares.recover()
        await eventually(lambda: not shares._recovery._busy, "the end of the attempt")
        began += [second] * (len(calls) - before)
        machine.clock.forward(1)
    shares.suspender.recover = recover
    return began


@pytest.mark.parametrize("state", [State.RUNNING, State.SUSPENDED])
async def test_unfinished_recovery_is_tried_again_until_the_driver_answers(machine, state):
    again = await after_a_restart_without_driver(machine, state)
    began = await attempts_in(machine, again, 200)
    assert began == [0, 5, 15, 35, 75, 135, 195], "the pause doubles up to a minute"
    assert "Another attempt follows within a minute" in again.describe_trouble(*KEY)
    machine.driver.processes[KERNEL].fails = {}
    assert await attempts_in(machine, again, 120) == [55]
    assert again.state(*KEY).phase is SharePhase.SUSPENDED
    assert again.describe_trouble(*KEY) == ""
    again.resume(*KEY)
    await comes_to(again, SharePhase.IN_USE)
    assert machine.driver.used("GPU-0") == 1000


@pytest.mark.parametrize("state", [State.RUNNING, State.SUSPENDED])
async def test_program_that_stayed_locked_goes_on_once_the_driver_answers(machine, state):
    """The service was killed in the middle of a suspension."""
    journal = FileJournal(machine.path, boot="boot")
    locked = machine.driver.processes[KERNEL]
    locked.state, locked.fails = CheckpointState.LOCKED, {"unlock": CheckpointProblem.BROKEN}
    members = (Member(id=locked.id, memory={"GPU-0": 1000}),)
    journal.write(JournalEntry(name=NOTEBOOK.id, step=Step.LOCKING, members=members))
    again = machine.shares(replace(NOTEBOOK, state=state))
    await attempts_in(machine, again, 1)
    if state is State.SUSPENDED:
        again.resume(*KEY)
        await eventually(lambda: "not brought the GPU memory" in again.state(*KEY).failure, "the refusal to resume")
    locked.fails = {}
    await attempts_in(machine, again, 10)
    assert locked.state is CheckpointState.RUNNING
    assert again.state(*KEY).phase is SharePhase.IN_USE


async def test_share_of_which_the_driver_told_nothing_comes_back_however_often_that_was_tried(machine):
    again = await after_a_restart_without_driver(machine, State.SUSPENDED)
    await attempts_in(machine, again, 1)
    for _ in range(4):
        again.resume(*KEY)
        await eventually(lambda: again.state(*KEY).phase is not SharePhase.RESUMING, "the end of the resume")
    assert again.state(*KEY).phase is SharePhase.SUSPENDED
    assert "cannot come back yet" in again.state(*KEY).failure
    machine.driver.processes[KERNEL].fails = {}
    await attempts_in(machine, again, 10)
    again.resume(*KEY)
    await comes_to(again, SharePhase.IN_USE)
    assert machine.driver.used("GPU-0") == 1000


async def test_every_share_has_a_phase_while_the_journal_cannot_be_read_and_nothing_moves(machine):
    shares = machine.shares()
    machine.path.mkdir()  # reading a folder fails with an OSError
    await attempts_in(machine, shares, 1)
    later = running(a_notebook("bob", "2"), "GPU-1")
    shares.add(later, lambda: [])
    assert shares.describe_refusal(*KEY) == ""
    for key in (KEY, (later.id, later.run)):
        shares.suspend(*key)
        assert shares.state(*key).phase is SharePhase.IN_USE
        assert shares.state(*key).failure.startswith("The share cannot be suspended yet")
    machine.path.rmdir()
    await attempts_in(machine, shares, 10)
    assert shares.state(*KEY).failure == ""
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)


async def test_job_says_that_it_may_stand_still_while_the_journal_cannot_be_read(machine):
    shares = machine.shares()
    machine.path.mkdir()
    target = SuspensionTarget(name="job", devices=("GPU-0",), find_processes=lambda: [])
    shares.add_job(("job", 1), target, lambda freeze: None)
    assert shares.describe_trouble("job", 1) == ""
    await attempts_in(machine, shares, 1)
    assert shares.state("job", 1) is None
    assert shares.describe_trouble("job", 1) == UNFINISHED


async def test_refusal_is_not_made_of_a_failed_later_attempt(machine):
    again = await after_a_restart_without_driver(machine, State.SUSPENDED)
    await attempts_in(machine, again, 1)
    loop = asyncio.get_running_loop()

    def breaks_while_the_share_ends(names):
        loop.call_soon_threadsafe(again.remove, *KEY)
        raise OSError("the disk is away")

    again.suspender.recover = breaks_while_the_share_ends
    await attempts_in(machine, again, 10)
    again.add(NOTEBOOK, lambda: [])
    assert again.describe_refusal(*KEY) == ""


async def test_recovery_is_tried_again_when_the_journal_could_not_be_read(machine):
    shares = machine.shares(replace(NOTEBOOK, state=State.RESUMING))
    recover, shares.suspender.recover = shares.suspender.recover, cannot_be_read
    shares.recover()
    await comes_to(shares, SharePhase.SUSPENDED)
    asked, shares.suspender.unsuspendable = shares.suspender.unsuspendable, cannot_be_read
    assert shares.describe_refusal(*KEY) == "", "a refusal is for ever, and an idle server is stopped by it"
    shares.suspender.recover, shares.suspender.unsuspendable = recover, asked
    await attempts_in(machine, shares, 10)
    assert shares.state(*KEY).phase is SharePhase.IN_USE
    assert shares.describe_refusal(*KEY) == ""


async def test_share_that_ended_during_a_later_attempt_is_not_taken_for_the_next_one(machine):
    again = await after_a_restart_without_driver(machine, State.SUSPENDED)
    await attempts_in(machine, again, 1)
    machine.driver.processes[KERNEL].fails = {}
    recover, loop = again.suspender.recover, asyncio.get_running_loop()

    def ends_meanwhile(names):
        found = recover(names)
        loop.call_soon_threadsafe(again.remove, *KEY)
        return found

    again.suspender.recover = ends_meanwhile
    await attempts_in(machine, again, 10)
    again.add(NOTEBOOK, lambda: [])
    assert again.state(*KEY).phase is SharePhase.IN_USE


def cannot_be_read(names=None):
    raise SuspensionError(SuspensionProblem.BROKEN, "The driver does not answer.")
