"""The backend is told the limits of the shares that are parts of devices, and what the driver confirms is shown."""

from dataclasses import replace

import pytest

from jupyter_gq.backends.capabilities import LimitState
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.meter import ProbeMeter
from jupyter_gq.domain.share_level import ShareLevel

from .test_memory_watch import HoldsMemory, WatchedWorld
from .world import ANN

pytestmark = pytest.mark.asyncio

#: The memory of half a device.
HALF = 20_480


class Limits:
    """The limits that the driver was told, by workload, and what it answers."""

    def __init__(self):
        self.told, self.users, self.answer = {}, {}, LimitState()

    def want(self, workload, run, limits):
        self.told[workload, run] = dict(limits)

    def note_users(self, workload, run, users):
        self.users[workload, run] = {each.pid for each in users}

    def state(self, workload, run):
        return self.answer


class HasDriverLimits:
    """A world whose driver can limit memory."""

    def _service(self):
        self.limits = Limits()
        controller = super()._service()
        for backend in (self.servers, self.backend):
            backend.capabilities = replace(backend.capabilities, memory_limits=self.limits)
        return controller


class LimitedWorld(HasDriverLimits, WatchedWorld):
    """A machine whose driver can limit memory."""


@pytest.fixture
def world(tmp_path):
    made = LimitedWorld(tmp_path)
    yield made
    made.close()


async def test_parts_of_devices_get_their_limits(world):
    ticket = await world.start_server(ANN, "0.5")
    job = world.send(ANN, "vision", "0.25", tasks=2)
    await world.step(2)
    assert world.limits.told == {
        (ticket.id, 1): {"GPU-sim-box-0": HALF},
        (job, 1): {"GPU-sim-box-1": HALF},  # of two tasks with a quarter
    }


async def test_whole_devices_have_no_limits(world):
    job = world.send(ANN, "vision", "1")
    await world.step(2)
    assert world.limits.told == {(job, 1): {}}


async def test_devices_of_mps_have_no_limit_of_the_driver(world):
    """MPS may end the programs of others where there are such limits."""
    for backend in (world.servers, world.backend):
        backend.capabilities = replace(backend.capabilities, partitioning=SharedByMps())
    ticket = await world.start_server(ANN, "0.5")
    job = world.send(ANN, "vision", "0.5")
    await world.step(2)
    assert world.limits.told == {(ticket.id, 1): {}, (job, 1): {"GPU-sim-box-1": HALF}}


async def test_level_is_that_of_the_driver_only_once_it_has_confirmed_the_limit(world):
    await world.start_server(ANN, "0.5")
    await world.see(10)
    assert world.notebook(ANN).enforcement == "watched"

    world.limits.answer = LimitState(confirmed=frozenset({"GPU-sim-box-1"}))
    assert world.notebook(ANN).enforcement == "watched", "not on the device of the share"

    world.limits.answer = LimitState(confirmed=frozenset({"GPU-sim-box-0"}))
    found = world.notebook(ANN)
    assert (found.enforcement, found.enforcement_sentence) == ("driver", ShareLevel.DRIVER.meaning)


async def test_backend_is_told_at_each_sample_which_programs_use_the_devices(world):
    ticket = await world.start_server(ANN, "0.5")
    await world.see(10)
    assert world.limits.users == {(ticket.id, 1): set()}
    kernel, other = two_kernels(world)
    world.probe.held = {kernel: 10}
    await world.see(5)
    assert world.limits.users == {(ticket.id, 1): {kernel}}
    world.probe.blind = True
    await world.see(5)
    assert world.limits.users == {(ticket.id, 1): {kernel}}, "what cannot be measured says nothing new"
    world.probe.blind, world.probe.held = False, {kernel: 10, other: None}
    await world.see(5)
    assert world.limits.users == {(ticket.id, 1): {kernel, other}}


async def test_owner_is_told_why_the_driver_does_not_limit(world):
    await world.start_server(ANN, "0.5")
    await world.see(10)
    world.limits.answer = LimitState(trouble="Only root may.")
    found = world.notebook(ANN)
    assert found.enforcement_sentence == f"{ShareLevel.WATCHED.meaning} Only root may."


async def test_new_share_is_not_promised_what_the_driver_has_not_confirmed(world):
    world.limits.answer = LimitState(confirmed=frozenset({"GPU-sim-box-0"}))
    await world.step()
    assert "is watched." in world.controller.overview.describe_user(ANN).level_sentence


class SharedByMps:
    """MPS on the first device, with what is wrong with it."""

    def __init__(self):
        self.trouble, self.kept = "", 0

    def serves(self, devices):
        return "GPU-sim-box-0" in devices

    def describe_trouble(self, devices):
        return self.trouble

    def environment(self, devices, milli):
        return {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(milli // 10)}

    def keep_running(self):
        self.kept += 1


class SeesClients(HoldsMemory):
    """A probe that shows programs as clients of MPS, or outside of it."""

    def __init__(self):
        super().__init__()
        self.clients = set()

    def usage(self, device, pids):
        return tuple(replace(each, through_mps=each.pid in self.clients) for each in super().usage(device, pids) or ())


class MpsWorld(WatchedWorld):
    """A machine on which the first device is shared by MPS."""

    def _service(self):
        self.mps = SharedByMps()
        controller = super()._service()
        self.probe = SeesClients()
        controller._context.meter = ProbeMeter(self.probe, identify=lambda pid: ProcessId(pid, 1))
        for backend in (self.servers, self.backend):
            backend.capabilities = replace(backend.capabilities, partitioning=self.mps)
        return controller


@pytest.fixture
def mps_world(tmp_path):
    made = MpsWorld(tmp_path)
    yield made
    made.close()


def two_kernels(world):
    """Let the only server have two kernels; return the ids of their processes."""
    (run,) = world.servers.runs.values()
    server = run.pids[0]
    run.pids = (server, server + 1, server + 2)
    return run.pids[1:]


async def test_program_gets_the_variables_of_mps(mps_world):
    found = (await mps_world.start_server(ANN, "0.5")).environment
    assert found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-sim-box-0"


async def test_daemon_is_kept_running_once_in_each_step(mps_world):
    before = mps_world.mps.kept
    await mps_world.step(3)
    assert mps_world.mps.kept == before + 3


async def test_level_is_mps_only_while_all_programs_are_seen_as_its_clients(mps_world):
    """A program that does not find the daemon runs outside, without any limit and without an error."""
    await mps_world.start_server(ANN, "0.5")
    await mps_world.see(10)
    assert mps_world.notebook(ANN).enforcement == "watched", "nothing is seen yet"

    one, two = two_kernels(mps_world)
    mps_world.probe.held, mps_world.probe.clients = {one: 10, two: 10}, {one, two}
    await mps_world.see(5)
    found = mps_world.notebook(ANN)
    assert (found.enforcement, found.enforcement_sentence) == ("mps", ShareLevel.MPS.meaning)

    mps_world.probe.clients = {one}
    await mps_world.see(5)
    found = mps_world.notebook(ANN)
    assert (found.enforcement, "outside MPS" in found.enforcement_sentence) == ("watched", True)
    assert found.enforcement_sentence.endswith("Restart its kernel; if that does not help, restart the server.")


async def test_programs_under_mps_count_together_for_the_watchdog(mps_world):
    await mps_world.start_server(ANN, "0.5")
    await mps_world.see(10)
    one, two = two_kernels(mps_world)
    mps_world.probe.held, mps_world.probe.clients = {one: HALF, two: HALF}, {one, two}
    await mps_world.see(5)
    assert mps_world.notebook(ANN).over_limit.used_mib == 2 * HALF


async def test_owner_is_told_that_mps_does_not_run(mps_world):
    await mps_world.start_server(ANN, "0.5")
    await mps_world.see(10)
    mps_world.mps.trouble = "MPS cannot run."
    assert mps_world.notebook(ANN).enforcement_sentence.endswith("MPS cannot run.")
    assert "MPS cannot run." in mps_world.controller.status.check_health().warnings


async def test_owner_on_a_device_that_the_daemon_lacks_is_not_told_to_restart_the_kernel(mps_world):
    await mps_world.start_server(ANN, "0.5")
    mps_world.mps.serves = lambda devices: False
    mps_world.mps.trouble = "MPS does not share it yet."
    (kernel, _) = two_kernels(mps_world)
    mps_world.probe.held = {kernel: 10}
    await mps_world.see(10)
    found = mps_world.notebook(ANN)
    assert (found.enforcement, found.enforcement_sentence) == (
        "watched",
        f"{ShareLevel.WATCHED.meaning} MPS does not share it yet.",
    )


class BothWorld(HasDriverLimits, MpsWorld):
    """A machine whose driver can limit memory, and on which the first device is shared by MPS."""


@pytest.fixture
def both(tmp_path):
    made = BothWorld(tmp_path)
    yield made
    made.close()


async def test_share_that_was_started_before_mps_keeps_the_limit_of_the_driver(both):
    ticket = await both.start_server(ANN, "0.5")
    one, two = two_kernels(both)
    both.probe.held = {one: 10}
    both.limits.answer = LimitState(confirmed=frozenset({"GPU-sim-box-0"}))
    await both.see(10)
    assert both.limits.told == {(ticket.id, 1): {"GPU-sim-box-0": HALF}}
    found = both.notebook(ANN)
    assert found.enforcement == "driver"
    assert "the driver limits their memory, and nothing their part of the processors" in found.enforcement_sentence

    both.probe.held, both.probe.clients = {one: 10, two: 10}, {two}
    both.limits.answer = LimitState()
    await both.see(5)
    assert both.limits.told == {(ticket.id, 1): {}}, "MPS may end a client below such a limit"
    assert both.notebook(ANN).enforcement == "watched"

    both.probe.held = {two: 10}
    await both.see(5)
    assert both.notebook(ANN).enforcement == "mps"


async def test_owner_is_told_why_the_driver_does_not_limit_what_runs_outside_mps(both):
    await both.start_server(ANN, "0.5")
    both.probe.held = {two_kernels(both)[0]: 10}
    both.limits.answer = LimitState(trouble="Only root may.")
    await both.see(10)
    found = both.notebook(ANN)
    assert (found.enforcement, found.enforcement_sentence.endswith("Only root may.")) == ("watched", True)
    assert "neither its memory" in found.enforcement_sentence
