"""A share whose programs hold too much memory is told so, and then loses its largest program."""

import signal
from dataclasses import replace

import pytest

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.meter import ProbeMeter
from jupyter_gq.devices.probe import Usage
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.audit import Action, AuditFilter
from tests.fakes import FakeProbe, a_node

from .world import ADMIN, ANN, World, story_settings

pytestmark = pytest.mark.asyncio

#: The limit of half a device, and what a program holds that breaks it.
LIMIT, TOO_MUCH = 20_480, 22_528


class HoldsMemory(FakeProbe):
    """A probe with the memory that each process holds; None = the driver does not tell."""

    def __init__(self):
        super().__init__()
        self.held = {}

    def usage(self, device, pids):
        if self.blind:
            return None
        return tuple(Usage(pid=pid, memory=self.held[pid], utilisation=0) for pid in pids if pid in self.held)

    def free_memory(self, device):
        return None if self.blind else MiB(8000)


class Signals:
    """The signals that a backend was told to send; it refuses them if it may send none."""

    def __init__(self):
        self.sent, self.may_signal = [], True

    def signal_process(self, workload, run, process, number):
        if self.may_signal:
            self.sent.append((workload, process, number))
        return self.may_signal


class WatchedWorld(World):
    """A machine with a part of a GPU for a notebook and a part for a job, on which shares are watched."""

    def __init__(self, folder, nodes=None, **pools):
        super().__init__(folder, nodes=nodes, settings=story_settings(nodes, Pools=pools))

    def _service(self):
        self.probe, self.signals = HoldsMemory(), Signals()
        for backend in (self.servers, self.backend):
            backend.capabilities = replace(backend.capabilities, process_signals=self.signals)
        controller = super()._service()
        controller._context.meter = ProbeMeter(self.probe, identify=lambda pid: ProcessId(pid, 1))
        return controller

    async def see(self, seconds):
        """Go on for this time, with a sample every five seconds."""
        for _ in range(seconds // 5):
            await self.step(seconds=5)

    def acts(self):
        """The steps in the audit log, the first one first."""
        found = [entry for entry in self.sql.audit(AuditFilter()) if entry.action.value.startswith("memory.")]
        return [(entry.action, dict(entry.details)) for entry in reversed(found)]


@pytest.fixture
def world(tmp_path):
    made = WatchedWorld(tmp_path)
    yield made
    made.close()


async def a_notebook(world):
    """Start a notebook with half a GPU; return the id of its kernel's process."""
    await world.start_server(ANN, "0.5")
    await world.see(10)
    (pid,) = world.servers.processes
    return pid + 1


async def a_job(world):
    """Start a job with half a GPU; return its id and that of its kernel's process."""
    job = world.send(ANN, "vision", "0.5")
    await world.step(2)
    world.backend.runs[(job, 1)].pids = (70, 71)
    await world.see(5)
    return job, 71


async def test_notebook_is_warned_interrupted_and_ended(world):
    kernel = await a_notebook(world)
    assert (world.notebook(ANN).enforcement, world.notebook(ANN).over_limit) == ("watched", None)

    world.probe.held = {kernel: TOO_MUCH}
    await world.see(5)
    told = world.notebook(ANN).over_limit
    assert (told.used_mib, told.limit_mib, told.over_mib) == (TOO_MUCH, LIMIT, TOO_MUCH - LIMIT)
    assert (told.done, told.next) == ("warn", "interrupt")
    assert told.sentence == (
        "The programs of this share hold 22 GiB of GPU memory, 2 GiB more than the limit of 20 GiB. Free some memory: "
        f"in about 60 s, the largest program (process {kernel}, 22 GiB) is interrupted."
    )
    assert told.sentence in world.notebook(ANN).sentence
    assert world.signals.sent == []

    await world.see(60)
    await world.see(60)
    await world.see(10)
    ticket, process = world.notebook(ANN).id, ProcessId(kernel, 1)
    assert world.signals.sent == [
        (ticket, process, number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
    ]
    assert [action for action, _ in world.acts()] == [
        Action.MEMORY_WARN,
        Action.MEMORY_INTERRUPT,
        Action.MEMORY_TERMINATE,
        Action.MEMORY_KILL,
    ]
    details = world.acts()[-1][1]
    assert (details["used_mib"], details["limit_mib"], details["pid"]) == (TOO_MUCH, LIMIT, kernel)

    world.probe.held = {}
    await world.see(5)
    told = world.notebook(ANN).over_limit
    assert (told.done, told.next) == ("kill", None)
    assert "was killed, because the share held 22 GiB of GPU memory, 2 GiB more than its limit of 20 GiB" in (
        world.notebook(ANN).sentence
    )
    await world.see(600)
    assert world.notebook(ANN).over_limit is None


async def test_warning_goes_when_memory_is_freed(world):
    kernel = await a_notebook(world)
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(30)
    world.probe.held = {kernel: LIMIT}
    await world.see(300)
    assert (world.notebook(ANN).over_limit, world.notebook(ANN).trouble, world.signals.sent) == (None, "", [])


async def test_sentence_of_an_ended_job_says_what_happened(world):
    job, kernel = await a_job(world)
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(5)
    assert "2 GiB more than the limit of 20 GiB" in world.job(job).sentence
    await world.see(140)
    assert [process.pid for _, process, _ in world.signals.sent[:3]] == [kernel] * 3
    world.backend.end(job, Outcome.FAILED, "The kernel died.")
    await world.step()
    sentence = world.job(job).sentence
    assert "was killed, because the share held 22 GiB" in sentence
    assert sentence.endswith("The kernel died.")


async def test_sentence_of_a_job_that_was_only_warned_is_its_own(world):
    job, kernel = await a_job(world)
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(5)
    world.backend.end(job, Outcome.FAILED, "The code raised ValueError.")
    await world.step()
    assert world.job(job).sentence == "The code raised ValueError."


@pytest.mark.parametrize("lost", ["devices", "figure"])
async def test_lost_driver_never_acts_and_the_level_is_not_claimed(world, lost):
    kernel = await a_notebook(world)
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(5)
    if lost == "devices":
        world.probe.blind = True
    else:
        world.probe.held = {kernel: None}
    await world.see(600)
    assert world.signals.sent == []
    assert world.notebook(ANN).enforcement == "cooperative"


async def test_program_that_cannot_be_signalled_is_not_watched(world):
    kernel = await a_notebook(world)
    world.signals.may_signal = False
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(90)
    assert world.notebook(ANN).enforcement == "cooperative"
    assert world.notebook(ANN).over_limit.done == "warn"
    assert [action for action, _ in world.acts()] == [Action.MEMORY_WARN]


async def test_program_of_nobody_is_never_touched(world):
    kernel = await a_notebook(world)
    world.probe.held = {kernel: LIMIT, 4711: TOO_MUCH}
    await world.see(300)
    assert world.signals.sent == []


async def test_server_itself_is_never_acted_on(world):
    kernel = await a_notebook(world)
    world.probe.held = {kernel - 1: TOO_MUCH}
    await world.see(300)
    assert world.signals.sent == []


async def test_whole_device_is_not_watched(tmp_path):
    world = WatchedWorld(tmp_path)
    job = world.send(ADMIN, "vision", "1")
    await world.step(2)
    world.backend.runs[(job, 1)].pids = (70, 71)
    world.probe.held = {71: 50_000}
    await world.see(300)
    assert world.signals.sent == []
    world.close()


@pytest.mark.parametrize(
    ("device", "host_pids", "level"),
    [("GPU-5c1e", True, "watched"), ("GPU-5c1e", False, "cooperative"), ("GPU-sim-", False, "watched")],
)
async def test_driver_that_knows_processes_by_other_ids_is_not_believed(tmp_path, device, host_pids, level):
    """In a container with process ids of its own, the ids of NVIDIA's driver belong to other programs."""
    node = a_node(2)
    devices = tuple(replace(each, id=f"{device}{each.index}") for each in node.devices)
    world = WatchedWorld(tmp_path, nodes=(replace(node, devices=devices),))
    world.controller._context.host_pids = host_pids
    kernel = await a_notebook(world)
    assert world.notebook(ANN).enforcement == level
    assert level in world.controller.overview.describe_user(ANN).level_sentence
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(90)
    assert bool(world.signals.sent) == (level == "watched")
    world.close()


async def test_settings_decide_whether_and_when(tmp_path):
    world = WatchedWorld(tmp_path, interrupt_after=10, end_after=5)
    kernel = await a_notebook(world)
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(15)
    assert len(world.signals.sent) == 1
    await world.see(5)
    assert [number for _, _, number in world.signals.sent] == [signal.SIGINT, signal.SIGTERM]
    world.close()

    (tmp_path / "off").mkdir()
    world = WatchedWorld(tmp_path / "off", watch_memory=False)
    kernel = await a_notebook(world)
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(300)
    assert (world.signals.sent, world.notebook(ANN).over_limit) == ([], None)
    assert world.notebook(ANN).enforcement == "cooperative"
    assert "cooperative" in world.controller.overview.describe_user(ANN).level_sentence
    world.close()


async def test_share_that_does_not_run_yet_says_the_level_that_it_would_have(world):
    assert "that is watched" in world.controller.overview.describe_user(ANN).level_sentence
    world.controller._context.probe = None
    assert "that is cooperative" in world.controller.overview.describe_user(ANN).level_sentence
