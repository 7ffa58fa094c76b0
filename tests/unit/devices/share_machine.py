"""A machine with a notebook whose share is suspended; its driver and its journal outlive the service."""

import subprocess

from jupyter_gq.devices.linux.processes import identify, is_running
from jupyter_gq.devices.suspension.journal import FileJournal
from jupyter_gq.devices.suspension.run_shares import RunShares
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.devices.suspension.share_suspender import ShareSuspender
from jupyter_gq.devices.suspension.suspender import SuspensionTarget
from jupyter_gq.devices.suspension.tree_steps import SuspensionLimits, Waiting
from tests.builders import a_notebook, running
from tests.fakes import FixedClock
from tests.fakes.driver import FakeDriver
from tests.patience import eventually

NOTEBOOK = running(a_notebook("ann", "1"), "GPU-0")
KEY = (NOTEBOOK.id, NOTEBOOK.run)
#: The server's process, which uses no device, and a kernel.
SERVER, KERNEL = 1, 2


class Machine:
    """A driver and a journal, which outlive the service."""

    def __init__(self, path, memory=1000):
        self.path, self.clock, self.driver = path, FixedClock(), FakeDriver()
        self.driver.start(SERVER, 0)
        self.driver.start(KERNEL, memory)
        self.changes = 0
        #: Real processes of the share beside those of the driver.
        self.real: list[subprocess.Popen] = []

    def changed(self):
        self.changes += 1

    def is_alive(self, process):
        """Tell whether a process of the driver or of `real` runs; others of this system may have the same ids."""
        if process.pid in {each.pid for each in self.real}:
            return is_running(process)
        return process in {each.id for each in self.driver.processes.values()}

    def shares(self, notebook=NOTEBOOK) -> RunShares:
        """The shares of a service that has just started, with the notebook launched."""
        suspender = ShareSuspender(
            checkpointer=self.driver,
            probe=self.driver,
            host=self.driver,
            journal=FileJournal(self.path, boot="boot", elapsed=self.clock.now),
            waiting=Waiting(monotonic=self.clock.now, sleep=self.clock.forward),
            limits=SuspensionLimits(),
        )
        shares = RunShares(
            suspender=suspender,
            now=self.clock.now,
            awake=self.clock.awake,
            on_change=self.changed,
            is_alive=self.is_alive,
        )
        shares.add(notebook, lambda: [process.id for process in self.driver.processes.values()])
        return shares


class JobMachine(Machine):
    """The same with a job: its runner, which uses no device, its kernel, and perhaps real processes."""

    def __init__(self, path, memory=1000):
        super().__init__(path, memory)
        #: Whether the control group was frozen or thawed, in order.
        self.groups: list[bool] = []

    def shares(self, notebook=NOTEBOOK) -> RunShares:
        shares = super().shares(notebook)
        shares.remove(*KEY)
        return self.add_job(shares)

    def add_job(self, shares) -> RunShares:
        """Add the share of a run of the job, and return the shares."""
        target = SuspensionTarget(name="job-1", devices=("GPU-0",), find_processes=self.find_processes)
        shares.add_job(KEY, target, self.groups.append)
        return shares

    def find_processes(self):
        return [process.id for process in self.driver.processes.values()] + [identify(each.pid) for each in self.real]


async def comes_to(shares, phase):
    async def there():
        state = shares.state(*KEY)
        return state if state is not None and state.phase is phase else None

    return await eventually(there, lambda: f"the phase {phase}, not {shares.state(*KEY)}")


async def recovered(machine, phase=SharePhase.IN_USE, notebook=NOTEBOOK):
    shares = machine.shares(notebook)
    assert shares.state(*KEY) is None
    assert shares.describe_refusal(*KEY) == ""
    shares.recover()
    await comes_to(shares, phase)
    return shares
