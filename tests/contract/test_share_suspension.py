"""What a controller may rely on, whoever suspends shares: the service of one machine, or the agents of a cluster.

The driver is in memory and outlives who uses it.
"""

import asyncio
from dataclasses import replace

import pytest
import pytest_asyncio

from jupyter_gq.agent.processes import Processes, find_pod_by_cgroup
from jupyter_gq.agent.shares import PodShares
from jupyter_gq.client.agents import AgentReport, AgentShare
from jupyter_gq.devices.checkpointer import CheckpointProblem, CheckpointState
from jupyter_gq.devices.suspension.journal import FileJournal
from jupyter_gq.devices.suspension.run_shares import RunShares
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.devices.suspension.share_suspender import ShareSuspender
from jupyter_gq.devices.suspension.tree_steps import SuspensionLimits, Waiting
from jupyter_gq.domain.states import State
from tests.builders import a_notebook, running
from tests.fakes import FixedClock
from tests.fakes.driver import FakeDriver
from tests.patience import eventually
from tests.unit.agent.proc import FakeProc
from tests.unit.backends.kubernetes.paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio

#: The notebook server, and a kernel.
SERVER, KERNEL = 1, 2
POD = "0f6f7c4e-8a41-4a1e-9d0e-3b1f4f6f7a10"


class Machine:
    """A driver, a journal, and processes of one notebook on the first device."""

    def __init__(self, folder):
        self.folder, self.clock, self.driver = folder, FixedClock(), FakeDriver()
        self.driver.start(SERVER, 0)
        self.driver.start(KERNEL, 1000)
        self.locks = 0
        self.driver.before = self.count

    def count(self, call, process):
        self.locks += call == "lock"

    def new_shares(self):
        suspender = ShareSuspender(
            checkpointer=self.driver,
            probe=self.driver,
            host=self.driver,
            journal=FileJournal(self.folder / "journal", boot="boot"),
            waiting=Waiting(monotonic=self.clock.now, sleep=self.clock.forward),
            limits=SuspensionLimits(),
        )
        return RunShares(
            suspender=suspender,
            now=self.clock.now,
            awake=self.clock.now,
            on_change=lambda: None,
            is_alive=self.driver_has,
        )

    def driver_has(self, process):
        return process in {each.id for each in self.driver.processes.values()}


class OneMachine(Machine):
    """The service suspends the shares of its own machine."""

    async def start(self, state=State.RUNNING):
        notebook = replace(running(a_notebook("ann", "1"), "GPU-0"), state=state)
        self.key, self.port = (notebook.id, notebook.run), self.new_shares()
        self.port.add(notebook, lambda: [process.id for process in self.driver.processes.values()])
        self.port.recover()

    def now(self):
        return self.clock.now()

    async def step(self):
        await asyncio.sleep(0)
        return self.port.state(*self.key)

    async def end(self):
        pass


class Cluster(Machine):
    """The backend orders it, and the agent of the node does it; both are started anew together."""

    paper = None

    async def start(self, state=State.RUNNING):
        await self.end()
        if self.paper is None:
            proc = FakeProc(self.folder / "proc")
            for pid, parent in ((SERVER, 99), (KERNEL, SERVER)):
                proc.add(pid, pod=POD, parent=parent, ticks=pid * 10)
        self.paper = PaperBackend("n1")
        self.port = self.paper.runs.capabilities.suspension
        processes = Processes(self.folder / "proc", find_pod_by_cgroup)
        self.agent = PodShares(shares=self.new_shares(), processes=processes, explain_missing=lambda devices: "")
        self.agent.recover()
        workload = await self.paper.launch("nb", "a", "n1/0", state=state)
        self.key = (workload.id, workload.run)
        self.paper.pod(workload.id, "n1/0", "GPU-0", uid=POD)

    def now(self):
        return self.paper.day.at

    async def step(self):
        await asyncio.sleep(0)
        self.agent.recover()
        seen = await self.paper.observed(self.key[0])
        report = self.agent.add_suspensions(AgentReport(probe="OK", shares=[AgentShare(pod_uid=POD)]))
        self.agent.follow(self.paper.runs.capabilities.agent_reports.accept_report("n1", report), 0.0)
        return seen.share

    async def end(self):
        if self.paper is not None:
            await self.paper.close()


@pytest_asyncio.fixture(params=[OneMachine, Cluster])
async def place(request, tmp_path):
    made = request.param(tmp_path)
    await made.start()
    yield made
    await made.end()


async def comes_to(place, phase, call=lambda *key: None):
    """The share, once it is in that phase; the controller calls that in each step, as it does."""

    async def there():
        call(*place.key)
        seen.append(await place.step())
        return seen[-1] if seen[-1] is not None and seen[-1].phase is phase else None

    seen: list = []
    return await eventually(there, lambda: f"{phase}, not {seen[-1]}")


async def is_suspended(place):
    await comes_to(place, SharePhase.IN_USE)
    return await comes_to(place, SharePhase.SUSPENDED, place.port.suspend)


async def fails(place, call):
    """The failure of the share, once there is one; the controller looks before it calls again, as it does.

    A call right after a failure begins anew, and hides the failure of the call before.
    """

    async def there():
        share = await place.step()
        if share is not None and share.failure:
            return share
        call(*place.key)
        return None

    return await eventually(there, "a failure")


async def test_unknown_run_is_left_alone(place):
    place.port.suspend("nb-nobody", 1)
    place.port.resume("nb-nobody", 1)
    assert (await comes_to(place, SharePhase.IN_USE)).failure == ""


async def test_suspended_share_has_left_its_device_and_tells_its_memory(place):
    share = await is_suspended(place)
    assert (share.memory, share.failure, share.ended) == (1000, "", False)
    assert place.driver.used("GPU-0") == 0


async def test_repeated_calls_change_nothing(place):
    await is_suspended(place)
    for _ in range(3):
        place.port.suspend(*place.key)
        assert (await place.step()).phase is SharePhase.SUSPENDED
    assert place.locks == 1
    await comes_to(place, SharePhase.IN_USE, place.port.resume)
    for _ in range(3):
        place.port.resume(*place.key)
        assert (await place.step()).phase is SharePhase.IN_USE
    assert place.driver.used("GPU-0") == 1000
    assert place.driver.states()[KERNEL] is CheckpointState.RUNNING


async def test_share_can_be_suspended_again_after_it_came_back(place):
    for times in (1, 2):
        await is_suspended(place)
        assert place.locks == times
        await comes_to(place, SharePhase.IN_USE, place.port.resume)


async def test_suspension_under_way_is_undone(place):
    await comes_to(place, SharePhase.IN_USE)
    may_go_on, locked = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def waits(call, process):
        if call == "lock":
            loop.call_soon_threadsafe(locked.set)
            asyncio.run_coroutine_threadsafe(may_go_on.wait(), loop).result()

    place.driver.before = waits
    await comes_to(place, SharePhase.SUSPENDING, place.port.suspend)
    await locked.wait()
    place.port.resume(*place.key)
    await place.step()
    may_go_on.set()
    share = await comes_to(place, SharePhase.IN_USE)
    assert share.failure == ""
    assert place.driver.states()[KERNEL] is CheckpointState.RUNNING
    assert place.driver.used("GPU-0") == 1000


async def test_failure_is_told_with_its_time_and_the_share_runs_on(place):
    await comes_to(place, SharePhase.IN_USE)
    place.driver.processes[KERNEL].fails = {"lock": CheckpointProblem.BUSY}
    asked_at = place.now()
    share = await fails(place, place.port.suspend)
    assert share.phase is SharePhase.IN_USE
    assert share.failed_at >= asked_at
    assert place.driver.states()[KERNEL] is CheckpointState.RUNNING
    place.driver.processes[KERNEL].fails = {}
    await comes_to(place, SharePhase.SUSPENDED, place.port.suspend)


async def test_share_that_the_driver_cannot_suspend_is_refused_from_then_on(place):
    await comes_to(place, SharePhase.IN_USE)
    assert place.port.describe_refusal(*place.key) == ""
    place.driver.processes[KERNEL].fails = {"checkpoint": CheckpointProblem.UNSUPPORTED}
    await fails(place, place.port.suspend)
    assert place.port.describe_refusal(*place.key) == "The driver refuses: UNSUPPORTED."


async def test_share_comes_back_once_its_device_has_room(place):
    await is_suspended(place)
    place.driver.start(50, 9500)
    share = await fails(place, place.port.resume)
    assert share.phase is SharePhase.SUSPENDED
    place.driver.end(50)
    await comes_to(place, SharePhase.IN_USE, place.port.resume)
    assert place.driver.states()[KERNEL] is CheckpointState.RUNNING


async def test_share_without_gpu_state_is_lent_all_the_same(place):
    place.driver.processes[KERNEL].memory = 0
    assert (await is_suspended(place)).memory == 0
    await place.start(State.SUSPENDED)
    await comes_to(place, SharePhase.SUSPENDED)
    await comes_to(place, SharePhase.IN_USE, place.port.resume)


async def test_after_a_restart_the_phase_is_that_of_the_journal(place):
    await is_suspended(place)
    await place.start(State.SUSPENDED)
    await comes_to(place, SharePhase.SUSPENDED)
    assert place.driver.used("GPU-0") == 0
    await comes_to(place, SharePhase.IN_USE, place.port.resume)
    assert place.driver.used("GPU-0") == 1000


async def test_programs_that_end_meanwhile_are_told(place):
    await is_suspended(place)
    place.driver.end(KERNEL)
    share = await comes_to(place, SharePhase.SUSPENDED)
    share = share if share.ended else await place.step()
    assert (share.ended, share.memory) == (True, 0)
