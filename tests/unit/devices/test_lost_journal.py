"""After the journal was damaged or lost, the driver says what is suspended: nothing is lost or given twice."""

import errno
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gq.devices.checkpointer import CheckpointProblem, CheckpointState
from jupyter_gq.devices.linux.processes import identify, read_process
from jupyter_gq.devices.suspension.journal import FileJournal, JournalEntry, Step
from jupyter_gq.devices.suspension.run_shares import UNFINISHED
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.devices.suspension.suspender import SuspensionTarget
from jupyter_gq.domain.states import State
from tests.builders import a_notebook, running
from tests.fakes import FixedClock
from tests.patience import eventually

from .share_machine import KERNEL, KEY, NOTEBOOK, Machine, comes_to, recovered

pytestmark = pytest.mark.asyncio

SUSPENDED = replace(NOTEBOOK, state=State.SUSPENDED)
LATER = replace(running(a_notebook("bob", "2"), "GPU-1"), state=State.SUSPENDED)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "journal")


def damage(machine):
    machine.path.write_text('{"boot": "boot", "sha')


async def suspended(machine):
    shares = await recovered(machine)
    shares.suspend(*KEY)
    return await comes_to(shares, SharePhase.SUSPENDED)


async def attempt(machine, shares, seconds=1):
    """Call `recover` every second, as the loop does."""
    for _ in range(seconds):
        shares.recover()
        await eventually(lambda: not shares._recovery._busy, "the end of the attempt")
        machine.clock.forward(1)


async def test_suspended_share_stays_so_and_comes_back_after_its_journal_was_damaged(machine):
    await suspended(machine)
    damage(machine)
    shares = await recovered(machine, SharePhase.SUSPENDED, SUSPENDED)
    assert machine.driver.states()[KERNEL] is CheckpointState.CHECKPOINTED
    assert [each.name for each in FileJournal(machine.path, boot="boot").entries()] == [NOTEBOOK.id]
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    assert machine.driver.states()[KERNEL] is CheckpointState.RUNNING
    assert machine.driver.used("GPU-0") == 1000


def remove(machine):
    machine.path.unlink()


def empty(machine):
    """Another program wrote the file, and knew nothing of the share."""
    machine.path.write_text('{"boot": "boot", "shares": []}')


@pytest.mark.parametrize("lose", [remove, empty])
async def test_suspended_share_comes_back_after_its_entry_was_lost_without_a_trace(machine, lose):
    await suspended(machine)
    lose(machine)
    shares = await recovered(machine, SharePhase.SUSPENDED, SUSPENDED)
    assert shares.unfinished == frozenset()
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    assert machine.driver.states()[KERNEL] is CheckpointState.RUNNING


async def test_share_without_an_entry_that_was_coming_back_is_in_use_or_comes_back(machine):
    coming = replace(NOTEBOOK, state=State.RESUMING)
    await recovered(machine, SharePhase.IN_USE, coming)
    await suspended(machine)
    remove(machine)
    shares = await recovered(machine, SharePhase.SUSPENDED, coming)
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    assert machine.driver.states()[KERNEL] is CheckpointState.RUNNING


async def test_program_that_was_locked_goes_on_after_the_journal_was_damaged(machine):
    machine.driver.processes[KERNEL].state = CheckpointState.LOCKED
    damage(machine)
    await recovered(machine)
    assert machine.driver.states()[KERNEL] is CheckpointState.RUNNING
    assert FileJournal(machine.path, boot="boot").entries() == ()


async def test_share_comes_back_only_with_room_for_the_most_that_it_can_have_had(machine):
    await suspended(machine)
    damage(machine)
    shares = await recovered(machine, SharePhase.SUSPENDED, SUSPENDED)
    neighbour = 3
    machine.driver.start(neighbour, machine.driver.total["GPU-0"] - 1500)
    shares.resume(*KEY)
    await eventually(lambda: "cannot come back yet" in shares.state(*KEY).failure, "the refusal")
    assert "1628 MiB on GPU-0" in shares.state(*KEY).failure
    assert machine.driver.states()[KERNEL] is CheckpointState.CHECKPOINTED, "a restore would have destroyed it"
    machine.driver.end(neighbour)
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)


async def test_share_with_more_host_memory_than_its_device_comes_back_to_the_free_device(machine):
    machine.driver.processes[KERNEL].memory = machine.driver.total["GPU-0"] - 200
    await suspended(machine)
    damage(machine)
    shares = await recovered(machine, SharePhase.SUSPENDED, SUSPENDED)
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)


async def test_shares_that_were_not_suspended_keep_the_phase_of_their_record(machine):
    machine.driver.processes[KERNEL].memory = 0
    damage(machine)
    await recovered(machine, SharePhase.SUSPENDED, SUSPENDED)
    assert FileJournal(machine.path, boot="boot").entries() == ()
    await recovered(machine)


@pytest.mark.parametrize("lose", [damage, remove])
async def test_share_that_is_known_only_later_is_found_too(machine, lose):
    """An agent knows the pods once the service names them."""
    await suspended(machine)
    lose(machine)
    shares = machine.shares(SUSPENDED)
    shares.remove(*KEY)
    await attempt(machine, shares)
    shares.add(SUSPENDED, lambda: [process.id for process in machine.driver.processes.values()])
    shares.resume(*KEY)
    assert machine.driver.states()[KERNEL] is CheckpointState.CHECKPOINTED
    await attempt(machine, shares)
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    assert machine.driver.states()[KERNEL] is CheckpointState.RUNNING


@pytest.mark.parametrize("lose", [damage, remove])
@pytest.mark.parametrize("fails", ["blind", "broken"])
async def test_share_of_which_nothing_is_told_is_left_alone_until_it_is(machine, fails, lose):
    await suspended(machine)
    lose(machine)
    shares = machine.shares(SUSPENDED)
    machine.driver.blind = fails == "blind"
    machine.driver.processes[KERNEL].fails = {"state": CheckpointProblem.BROKEN} if fails == "broken" else {}
    await attempt(machine, shares)
    shares.resume(*KEY)
    assert "cannot come back yet" in shares.state(*KEY).failure
    machine.driver.blind, machine.driver.processes[KERNEL].fails = False, {}
    await attempt(machine, shares, 10)
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    assert machine.driver.used("GPU-0") == 1000


async def test_job_that_stood_still_does_so_again(machine):
    """Its processes are real ones, since they are stopped."""
    await suspended(machine)
    damage(machine)
    shares, frozen = machine.shares(SUSPENDED), []
    shares.remove(*KEY)
    target = SuspensionTarget(
        name="job", devices=("GPU-0",), find_processes=lambda: [machine.driver.processes[KERNEL].id]
    )
    shares.add_job(("job", 1), target, frozen.append)
    await attempt(machine, shares)
    assert frozen == [False, True], "it goes on while the driver is asked, and no longer"
    assert FileJournal(machine.path, boot="boot").find("job").suspension().processes == tuple(target.find_processes())


async def test_journal_that_can_never_be_read_is_set_aside_and_said(machine):
    await suspended(machine)
    machine.path.unlink()
    machine.path.mkdir()  # reading a folder fails with an OSError
    shares = machine.shares(SUSPENDED)
    await attempt(machine, shares, 70)
    assert f"{machine.path}, cannot be read: Is a directory" in shares.trouble
    shares.resume(*KEY)
    assert "cannot come back yet" in shares.state(*KEY).failure
    await attempt(machine, shares, 10)
    aside = machine.path.with_name("journal.damaged")
    assert aside.is_dir()
    assert f"was set aside as {aside}" in shares.trouble
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    aside.rmdir()
    assert shares.trouble == ""


async def test_share_comes_back_after_the_administrator_has_done_with_the_journal_what_is_told(machine):
    await suspended(machine)
    machine.path.unlink()
    machine.path.mkdir()
    shares = machine.shares(SUSPENDED)
    await attempt(machine, shares)
    _, told, name = shares.trouble.partition("or rename it to ")
    assert told
    machine.path.rename(name.partition(":")[0])
    await attempt(machine, shares, 10)
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    assert machine.driver.states()[KERNEL] is CheckpointState.RUNNING


async def test_second_damaged_journal_does_not_replace_the_first(machine):
    for content in ("first", "second"):
        machine.path.write_text(content)
        await recovered(machine)
    assert machine.path.with_name("journal.damaged").read_text() == "first"
    assert machine.path.with_name("journal.damaged-2").read_text() == "second"


async def test_share_stays_away_while_the_driver_cannot_be_used(machine):
    """Such a driver knows no process, as if none had been suspended."""
    await suspended(machine)
    damage(machine)
    machine.driver.available = False
    shares = machine.shares(SUSPENDED)
    await attempt(machine, shares)
    shares.resume(*KEY)
    assert "cannot come back yet" in shares.state(*KEY).failure
    assert shares.unfinished == {NOTEBOOK.id}
    machine.driver.available = True
    await attempt(machine, shares, 10)
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    assert machine.driver.states()[KERNEL] is CheckpointState.RUNNING


@pytest.fixture
def program():
    """A real process, which can be stopped."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield identify(process.pid)
        process.kill()


async def test_job_stands_still_again_while_the_driver_cannot_be_used(machine, program):
    await suspended(machine)
    damage(machine)
    machine.driver.available = False
    shares = machine.shares(SUSPENDED)
    shares.remove(*KEY)
    os.kill(program.pid, signal.SIGSTOP)
    await eventually(lambda: read_process(program.pid).stopped, "the stop")
    target = SuspensionTarget(name="job", devices=("GPU-0",), find_processes=lambda: [program])
    shares.add_job(("job", 1), target, lambda freeze: None)
    await attempt(machine, shares)
    assert read_process(program.pid).stopped
    assert shares.state("job", 1) is None
    assert shares.describe_trouble("job", 1) == UNFINISHED


async def test_part_of_a_device_needs_no_more_than_that_to_come_back(machine):
    """Its program has much host memory of its own."""
    machine.driver.own_memory = 9_000
    half = running(a_notebook("ann", "0.5"), "GPU-0")
    shares = machine.shares(half)
    shares.recover()
    await comes_to(shares, SharePhase.IN_USE)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    damage(machine)
    shares = await recovered(machine, SharePhase.SUSPENDED, replace(half, state=State.SUSPENDED))
    neighbour, total = 3, machine.driver.total["GPU-0"]
    machine.driver.start(neighbour, total // 2)
    shares.resume(*KEY)
    await eventually(lambda: "cannot come back yet" in shares.state(*KEY).failure, "the refusal")
    assert f"{total // 2 + 600 + 128} MiB on GPU-0" in shares.state(*KEY).failure
    machine.driver.processes[neighbour].memory = total // 2 - 728
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO])
async def test_journal_is_set_aside_only_after_failures_of_its_own_for_a_while(tmp_path, monkeypatch, error):
    path, clock = tmp_path / "journal", FixedClock()
    entry = JournalEntry(name="share", step=Step.SUSPENDED)
    FileJournal(path, boot="boot").write(entry)
    journal, read = FileJournal(path, boot="boot", elapsed=clock.now), Path.read_bytes

    def fails(file):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(Path, "read_bytes", fails)
    for _ in range(4 if error == errno.EIO else 9):
        for _ in range(10):
            with pytest.raises(OSError, match=os.strerror(error)):
                journal.entries()
        clock.forward(5)
    assert f"cannot be read: {os.strerror(error)}" in journal.trouble
    if error == errno.EIO:
        assert journal.entries() == ()
        assert journal.is_set_aside
    else:
        monkeypatch.setattr(Path, "read_bytes", read)
        assert journal.entries() == (entry,)
        assert journal.trouble == ""


def say(caplog):
    """Return what the log says of the journal, in order; there must be no traceback."""
    assert not [record for record in caplog.records if record.exc_info]
    return [record.getMessage() for record in caplog.records if "journal of suspen" in record.getMessage()]


async def test_journal_that_cannot_be_read_is_told_once_whatever_is_tried(machine, caplog):
    await suspended(machine)
    machine.path.unlink()
    machine.path.mkdir()
    shares = machine.shares(SUSPENDED)
    caplog.clear()
    await attempt(machine, shares, 30)
    shares.remove(*KEY)
    await eventually(lambda: shares._forgetting._left, "the failed removal")
    [told] = say(caplog)
    assert told.startswith(f"The journal of suspended GPU memory, {machine.path}, cannot be read: Is a directory. ")
    assert told.endswith(f"or rename it to {machine.path}.damaged: then the driver is asked.")


async def test_another_reason_and_the_end_of_the_trouble_are_told_too(tmp_path, caplog, monkeypatch):
    path = tmp_path / "journal"
    path.mkdir()
    journal = FileJournal(path, boot="boot")

    def fails(file):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def read_twice():
        for _ in range(2):
            with pytest.raises(OSError, match=r"directory|denied"):
                journal.entries()

    read_twice()
    with monkeypatch.context() as changed:
        changed.setattr(Path, "read_bytes", fails)
        read_twice()
    path.rmdir()
    with caplog.at_level("INFO"):
        assert journal.entries() == ()
    directory, denied, again = say(caplog)
    assert "cannot be read: Is a directory. " in directory
    assert "cannot be read: Permission denied. " in denied
    assert again == f"the journal of suspensions {path} can be read again"


async def test_journal_that_can_be_neither_read_nor_renamed_is_told_once(tmp_path, caplog, monkeypatch):
    path, clock = tmp_path / "journal", FixedClock()
    path.write_text("damaged")
    journal = FileJournal(path, boot="boot", elapsed=clock.now)

    def fails(file, target):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "rename", fails)
    for _ in range(3):
        with pytest.raises(OSError, match="cannot be renamed"):
            journal.entries()
    [told] = say(caplog)
    assert f"{path}, cannot be read: it is damaged, and cannot be renamed (Read-only file system)." in told
    assert journal.trouble == told


async def test_journal_that_is_a_pipe_holds_nobody_up(tmp_path):
    os.mkfifo(tmp_path / "journal")
    with pytest.raises(OSError, match="it is a pipe"):
        FileJournal(tmp_path / "journal", boot="boot").entries()


async def test_damaged_journal_is_told_in_one_line(machine, caplog):
    damage(machine)
    await recovered(machine)
    [told] = say(caplog)
    assert f"was set aside as {machine.path}.damaged. " in told
    assert "What was wrong with it: 1 validation error" in told
    assert "\n" not in told


async def test_file_that_was_set_aside_is_never_replaced(machine):
    for name in ("journal.damaged", "journal.damaged-3"):
        machine.path.with_name(name).write_text(name)
    for content in ("second", "fourth"):
        machine.path.write_text(content)
        await recovered(machine)
    found = {file.name: file.read_text() for file in machine.path.parent.glob("journal.damaged*")}
    assert found == {
        "journal.damaged": "journal.damaged",
        "journal.damaged-2": "second",
        "journal.damaged-3": "journal.damaged-3",
        "journal.damaged-4": "fourth",
    }


async def test_server_that_has_just_begun_is_in_use_at_once_while_a_damaged_journal_lies_there(machine):
    damage(machine)
    shares = await recovered(machine)
    begun = replace(LATER, state=State.ADMITTED)
    shares.add(begun, lambda: [])
    assert shares.state(begun.id, begun.run).phase is SharePhase.IN_USE
    assert shares.describe_trouble(begun.id, begun.run) == ""
