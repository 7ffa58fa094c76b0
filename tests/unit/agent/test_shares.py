"""An agent suspends the shares of pods as the service orders, whatever fails, ends or restarts meanwhile."""

import asyncio

import pytest
import pytest_asyncio

from jupyter_gq.agent.processes import Processes, find_pod_by_cgroup
from jupyter_gq.agent.shares import PodShares
from jupyter_gq.client.agents import AgentOrders, AgentReport, AgentShare, ShareOrder
from jupyter_gq.devices.checkpointer import CheckpointProblem, CheckpointState
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.suspension.host_memory import HostRoom
from jupyter_gq.devices.suspension.journal import FileJournal
from jupyter_gq.devices.suspension.run_shares import RunShares
from jupyter_gq.devices.suspension.share_suspender import ShareSuspender
from jupyter_gq.devices.suspension.tree_steps import SuspensionLimits, Waiting
from jupyter_gq.domain.amount import MiB
from tests.fakes import FixedClock
from tests.fakes.driver import FakeDriver
from tests.patience import eventually

from .proc import OTHER, UID, FakeProc

pytestmark = pytest.mark.asyncio

#: The notebook server, and a kernel.
SERVER, KERNEL = 1, 2


class Node:
    """A node with the pod of a notebook; its agents come and go."""

    def __init__(self, folder, memory=1000):
        self.folder, self.clock, self.driver = folder, FixedClock(), FakeDriver()
        self.proc = FakeProc(folder / "proc")
        self.driver.start(SERVER, 0)
        self.add(KERNEL, memory, parent=SERVER)
        self.proc.add(SERVER, pod=UID, parent=99, ticks=SERVER * 10)
        self.start_agent()

    def add(self, pid, memory, **where):
        self.driver.start(pid, memory)
        self.proc.add(pid, pod=UID, ticks=pid * 10, **where)

    def end(self, pid):
        self.driver.end(pid)
        for file in ("stat", "cgroup", "environ"):
            (self.folder / "proc" / str(pid) / file).unlink()

    def start_agent(self, **more):
        suspender = ShareSuspender(
            checkpointer=self.driver,
            probe=self.driver,
            host=self.driver,
            journal=FileJournal(self.folder / "journal", boot="boot"),
            waiting=Waiting(monotonic=self.clock.now, sleep=self.clock.forward),
            limits=SuspensionLimits(most_suspended=lambda: self.shares.most_suspended),
        )
        shares = RunShares(
            suspender=suspender,
            now=self.clock.now,
            awake=self.clock.now,
            on_change=lambda: None,
            is_alive=self.is_alive,
        )
        processes = Processes(self.folder / "proc", find_pod_by_cgroup)
        self.shares = PodShares(shares=shares, processes=processes, explain_missing=lambda devices: "", **more)
        self.shares.recover()

    def is_alive(self, process: ProcessId):
        return process in {each.id for each in self.driver.processes.values()}

    def order(self, *, want=None, attempt="", known="IN_USE", age=0.0, uid=UID, most=None):
        order = ShareOrder(pod_uid=uid, device="GPU-0", known=known, want=want, attempt=attempt, valid_for=15.0)
        self.shares.follow(AgentOrders(shares=[order], suspended_memory_mib=most), age)

    def suspend(self, attempt="a1", **more):
        self.order(want="suspended", attempt=attempt, **more)

    def told(self):
        report = AgentReport(probe="OK", shares=[AgentShare(pod_uid=UID)])
        (share,) = self.shares.add_suspensions(report).shares
        return share.suspension

    async def comes_to(self, phase):
        async def there():
            told = self.told()
            return told if told is not None and told.phase == phase else None

        return await eventually(there, lambda: f"{phase}, not {self.told()}")

    async def is_in_use(self):
        """The agent has recovered and knows the pod."""
        self.order()
        await self.comes_to("IN_USE")


@pytest_asyncio.fixture
async def node(tmp_path):
    return Node(tmp_path)


async def test_share_is_suspended_and_comes_back_by_order(node):
    assert node.told() is None, "no order names it"
    await node.is_in_use()
    node.suspend()
    assert node.shares.are_moving
    told = await node.comes_to("SUSPENDED")
    assert (told.attempt, told.memory_mib, told.failure) == ("a1", 1000, "")
    assert node.driver.used("GPU-0") == 0
    assert not node.shares.are_moving
    node.order(want="in_use")
    told = await node.comes_to("IN_USE")
    assert (told.failure, node.driver.used("GPU-0")) == ("", 1000)


async def test_nothing_is_done_while_another_agent_acts_by_the_journal(node):
    others = ["Another agent acts."]
    node.start_agent(find_other_agent=lambda: "".join(others))
    node.suspend()
    assert (node.told(), node.shares.shares._recovery._busy) == (None, False)
    others.clear()
    node.shares.recover()
    await node.is_in_use()
    node.suspend()
    await node.comes_to("SUSPENDED")
    others.append("Another agent acts.")
    node.shares.follow(AgentOrders(shares=[]), 0.0)
    node.order(want="in_use")
    assert node.told().phase == "SUSPENDED"
    node.end(KERNEL)
    node.end(SERVER)
    node.order(uid=OTHER)
    assert list(node.shares._orders) == [UID], "nothing is forgotten"
    others.clear()
    node.order(uid=OTHER)
    await eventually(lambda: not node.shares.shares.suspender.suspensions(), "the journal forgets it")


async def test_failed_attempt_is_not_repeated_until_another_is_ordered(node):
    node.driver.processes[KERNEL].fails = {"lock": CheckpointProblem.BUSY}
    await node.is_in_use()
    node.suspend()
    told = await eventually(lambda: (found := node.told()).failure and found, "the failure")
    assert (told.phase, told.attempt) == ("IN_USE", "a1")
    node.driver.processes[KERNEL].fails = {}
    node.suspend()
    assert node.told().phase == "IN_USE", "the same attempt is over"
    node.suspend("a2")
    assert (await node.comes_to("SUSPENDED")).attempt == "a2"


async def test_order_in_an_old_answer_suspends_nothing(node):
    await node.is_in_use()
    node.suspend(age=15.1)
    assert node.told().phase == "IN_USE"
    assert node.told().attempt == ""
    node.suspend(age=14.9)
    await node.comes_to("SUSPENDED")


async def test_share_that_is_used_again_during_its_suspension_comes_back(node):
    await node.is_in_use()
    held = []

    def used_again(call, process):
        if call == "lock" and not held:
            held.append(process)
            loop.call_soon_threadsafe(lambda: node.order(want="in_use"))
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()

    loop = asyncio.get_running_loop()
    node.driver.before = used_again
    node.suspend()
    told = await node.comes_to("IN_USE")
    assert (told.failure, told.attempt) == ("", "a1")
    assert node.driver.states()[KERNEL] is CheckpointState.RUNNING


async def test_share_stays_suspended_when_the_service_names_it_no_more(node):
    await node.is_in_use()
    node.suspend()
    await node.comes_to("SUSPENDED")
    node.shares.follow(AgentOrders(), 0.0)  # of a service that has just started
    node.order()
    assert node.told().phase == "SUSPENDED"
    assert node.driver.used("GPU-0") == 0


async def test_next_agent_finds_the_share_suspended_and_brings_it_back(node):
    await node.is_in_use()
    node.suspend()
    await node.comes_to("SUSPENDED")
    node.start_agent()
    node.order(want="suspended", attempt="a1")
    assert node.told() is None, "it has not recovered yet, so it begins nothing"
    await node.comes_to("SUSPENDED")
    node.order(want="in_use")
    await node.comes_to("IN_USE")
    assert node.driver.used("GPU-0") == 1000


async def test_agent_that_dies_in_the_middle_leaves_no_locked_program(node):
    await node.is_in_use()

    class Killed(BaseException):
        """The agent is killed."""

    def dies(call, process):
        if call == "checkpoint":
            raise Killed

    node.driver.before = dies
    with pytest.raises(Killed):
        node.shares.shares.suspender.suspend(node.shares.shares._shares[(UID, 0)].target, lambda: False)
    assert node.driver.states()[KERNEL] is CheckpointState.LOCKED
    node.driver.before = lambda call, process: None
    node.start_agent()
    node.order()
    await node.comes_to("IN_USE")
    assert node.driver.states()[KERNEL] is CheckpointState.RUNNING


async def test_agent_tries_again_what_the_driver_refused_after_its_start(node):
    await node.is_in_use()
    node.suspend()
    await node.comes_to("SUSPENDED")
    node.driver.processes[KERNEL].fails = {"state": CheckpointProblem.BROKEN}
    node.start_agent()
    node.order()

    def missing():
        return node.shares.add_suspensions(AgentReport(probe="OK", missing={"signal": "No."})).missing

    def told_of(uids):
        report = AgentReport(probe="OK", shares=[AgentShare(pod_uid=uid) for uid in uids])
        return node.shares.add_suspensions(report).model_dump()["shares"]

    told = await eventually(lambda: missing().get("recovery"), "the failure of the recovery")
    assert told.startswith("The GPU driver has not brought the GPU memory of 1 pods to rest")
    assert node.told() is None, "a phase would be a guess"
    own, other = told_of([UID, "other"])
    assert own["trouble"].startswith("After a restart, the GPU driver has not brought")
    assert "trouble" not in other, "services of release 0.1.0 refuse the field"
    node.driver.processes[KERNEL].fails = {}
    node.shares.recover()
    assert missing().keys() == {"signal", "recovery"}, "it is not due"
    node.clock.forward(5)
    node.shares.recover()
    await node.comes_to("SUSPENDED")
    assert missing() == {"signal": "No."}
    node.order(want="in_use")
    await node.comes_to("IN_USE")


async def test_share_without_gpu_state_is_lent_by_its_order_alone(tmp_path):
    node = Node(tmp_path, memory=0)
    await node.is_in_use()
    node.suspend()
    assert (await node.comes_to("SUSPENDED")).memory_mib == 0
    node.start_agent()
    node.order(known="SUSPENDED")
    await node.comes_to("SUSPENDED")
    node.start_agent()
    node.order(known="IN_USE")
    await node.comes_to("IN_USE")


async def test_share_comes_back_once_its_borrower_has_left(node):
    await node.is_in_use()
    node.suspend()
    await node.comes_to("SUSPENDED")
    node.driver.start(50, 9500)
    node.order(want="in_use")
    told = await eventually(lambda: (found := node.told()).failure and found, "no room")
    assert told.phase == "SUSPENDED"
    assert node.shares.are_moving, "a cell waits"
    assert "cannot come back yet" in told.trouble
    node.driver.end(50)
    node.order(want="in_use")
    await node.comes_to("IN_USE")
    assert node.driver.states()[KERNEL] is CheckpointState.RUNNING


async def test_process_with_a_recycled_id_is_not_touched(node):
    await node.is_in_use()
    node.suspend()
    await node.comes_to("SUSPENDED")
    node.end(KERNEL)
    node.driver.processes[KERNEL] = other = type(node.driver.processes[SERVER])(id=ProcessId(KERNEL, 777), memory=50)
    node.order(want="in_use")
    await node.comes_to("IN_USE")
    assert (other.state, other.memory) == (CheckpointState.RUNNING, 50)


async def test_programs_that_end_while_they_are_suspended_are_told(node):
    await node.is_in_use()
    node.suspend()
    await node.comes_to("SUSPENDED")
    node.end(KERNEL)
    told = node.told()
    assert (told.phase, told.ended, told.memory_mib) == ("SUSPENDED", True, 0)


async def test_pod_that_would_exceed_its_memory_limit_is_refused_with_a_sentence(node):
    node.driver.host = HostRoom(memory=MiB(2000), place="the control group /kubepods/podA")
    await node.is_in_use()
    node.suspend()
    told = await eventually(lambda: (found := node.told()).failure and found, "the refusal")
    assert "3048 MiB of host memory must be free, but the control group /kubepods/podA has 2000 MiB" in told.failure
    assert node.driver.states()[KERNEL] is CheckpointState.RUNNING


async def test_node_suspends_no_more_than_the_service_allows(node):
    await node.is_in_use()
    node.suspend(most=999)
    told = await eventually(lambda: (found := node.told()).failure and found, "the refusal")
    assert "At most 999 MiB may be suspended" in told.failure


async def test_share_that_the_driver_refuses_says_so_from_then_on(node):
    node.driver.processes[KERNEL].fails = {"checkpoint": CheckpointProblem.UNSUPPORTED}
    await node.is_in_use()
    node.suspend()
    await eventually(lambda: node.told().refusal, "the refusal")
    told = await node.comes_to("IN_USE")
    assert told.refusal == "The driver refuses: UNSUPPORTED."
    assert node.driver.states()[KERNEL] is CheckpointState.RUNNING


@pytest.mark.parametrize("call", ["checkpoint", "restore"])
async def test_lost_state_is_told_until_the_kernel_is_gone_and_not_until_the_server_is(node, call):
    await node.is_in_use()
    node.driver.processes[KERNEL].fails = {call: CheckpointProblem.LOST}
    node.suspend()
    if call == "restore":
        await node.comes_to("SUSPENDED")
        node.order(want="in_use")
    await eventually(lambda: node.told().trouble, "the trouble")
    told = await node.comes_to("IN_USE")
    assert "Restart the kernel" in told.trouble
    node.end(KERNEL)
    assert node.told().trouble == ""


async def test_share_is_forgotten_once_its_pod_has_no_process(node):
    await node.is_in_use()
    node.suspend()
    await node.comes_to("SUSPENDED")
    node.end(KERNEL)
    node.end(SERVER)
    node.order(uid=OTHER)
    assert node.told() is None
    await eventually(lambda: not node.shares.shares.suspender.suspensions(), "the journal forgets it")


async def test_share_whose_programs_are_not_seen_is_not_taken_as_empty(node):
    await node.is_in_use()
    (node.folder / "proc").rename(node.folder / "away")
    node.suspend()
    told = await eventually(lambda: (found := node.told()).failure and found, "the failure")
    assert (told.phase, told.failure) == (
        "IN_USE",
        "The agent sees no process of the pod, so it is not known what uses the GPU.",
    )


async def test_share_is_kept_while_the_processes_of_the_node_cannot_be_listed(node):
    await node.is_in_use()
    (node.folder / "proc").rename(node.folder / "away")
    node.order(uid=OTHER)
    assert node.told() is not None


async def test_share_is_kept_while_a_suspended_program_of_it_lives_outside_of_its_pod(node):
    await node.is_in_use()
    node.suspend()
    await node.comes_to("SUSPENDED")
    for pid in (SERVER, KERNEL):
        (node.folder / "proc" / str(pid) / "cgroup").write_text("0::/system.slice\n")
    node.order(uid=OTHER)
    assert node.told().phase == "SUSPENDED"


async def test_process_that_gets_the_id_of_one_of_the_pod_is_not_taken_for_it(node):
    await node.is_in_use()
    list_pod = node.shares.processes.list_pod

    def kernel_ends_after(uid):
        found = list_pod(uid)
        (node.folder / "proc" / str(KERNEL) / "cgroup").write_text("0::/system.slice\n")
        return found

    node.shares.processes.list_pod = kernel_ends_after
    assert node.shares._find_processes(UID) == (ProcessId(SERVER, SERVER * 10),)
