"""What the journal tells of processes that have ended changes nothing for later shares of the same name."""

from dataclasses import replace

import pytest

from jupyter_gq.devices.suspension.journal import FileJournal
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.domain.states import State
from tests.patience import eventually

from .share_machine import KERNEL, KEY, NOTEBOOK, JobMachine, Machine, comes_to, recovered

pytestmark = pytest.mark.asyncio
LATER = KERNEL + 1


async def leave_an_entry(machine, disk):
    """Suspend the share, and let it end while the disk is full; return the shares."""
    shares = await recovered(machine)
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    disk.full, before = True, disk.tries
    del machine.driver.processes[KERNEL]
    shares.remove(*KEY)
    await eventually(lambda: disk.tries > before, "the attempt to forget the share")
    disk.full = False
    assert FileJournal(machine.path, boot="boot").entries()
    return shares


async def test_a_later_share_of_the_name_leaves_its_device_when_it_is_suspended(tmp_path, disk):
    machine = Machine(tmp_path / "journal")
    shares = await leave_an_entry(machine, disk)
    machine.driver.start(LATER, 1000)
    shares.add(NOTEBOOK, lambda: [process.id for process in machine.driver.processes.values()])
    shares.suspend(*KEY)
    assert (await comes_to(shares, SharePhase.SUSPENDED)).memory == 1000
    assert machine.driver.used("GPU-0") == 0


@pytest.mark.parametrize("restarts", [False, True], ids=["same", "restarted"])
async def test_a_later_run_of_a_job_goes_on(tmp_path, disk, restarts):
    machine = JobMachine(tmp_path / "journal")
    shares = await leave_an_entry(machine, disk)
    machine.driver.processes.clear()
    machine.driver.start(LATER, 1000)
    later = machine.driver.processes[LATER]
    machine.driver.processes[LATER] = replace(later, id=replace(later.id, ticks=later.id.ticks + 100))
    shares = await recovered(machine) if restarts else machine.add_job(shares)
    assert shares.state(*KEY).phase is SharePhase.IN_USE
    shares.suspend(*KEY)
    assert (await comes_to(shares, SharePhase.SUSPENDED)).ended is False
    assert shares.describe_loss(*KEY) == ""


async def test_an_entry_is_removed_once_the_disk_has_room(tmp_path, disk):
    machine = Machine(tmp_path / "journal")
    shares = await leave_an_entry(machine, disk)

    def is_removed():
        machine.clock.forward(1)
        shares.recover()
        return not FileJournal(machine.path, boot="boot").entries()

    await eventually(is_removed, "an empty journal")


async def test_a_share_that_is_managed_again_keeps_its_entry(tmp_path, disk):
    machine = Machine(tmp_path / "journal")
    shares = await leave_an_entry(machine, disk)
    machine.driver.start(LATER, 1000)
    shares.add(replace(NOTEBOOK, state=State.RUNNING), lambda: [each.id for each in machine.driver.processes.values()])
    shares.suspend(*KEY)
    await comes_to(shares, SharePhase.SUSPENDED)
    machine.clock.forward(6)
    shares.recover()
    shares.resume(*KEY)
    await comes_to(shares, SharePhase.IN_USE)
    assert machine.driver.used("GPU-0") == 1000
