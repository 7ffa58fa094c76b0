"""Notebook servers in control groups of their own, of the real kernel, with limits of a driver in memory."""

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from jupyter_gq.backends.control_groups import ParentGroup, add_process, find_own_group, pids_of
from jupyter_gq.backends.enforcers import Enforcers
from jupyter_gq.backends.memory_limits import DriverLimits
from jupyter_gq.backends.protocol import Launch
from jupyter_gq.backends.servers import ServerRuns
from jupyter_gq.devices.linux.control_group import find_group
from jupyter_gq.devices.linux.processes import identify
from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.workload_detail import WorkloadDetail
from tests.fakes.driver import DriverThatKeepsLimits
from tests.kubernetes.waiting import eventually
from tests.patience import scaled, until

from .worlds import ServersWorld, runs

pytestmark = pytest.mark.asyncio


class LimitedServersWorld(ServersWorld):
    """Notebook servers whose memory the driver limits; the service is in the group of the tests."""

    def __init__(self, folder, own):
        self.own, self.driver, self.workloads = own, DriverThatKeepsLimits(), []
        super().__init__(folder)

    def new_backend(self):
        parent = None if self.own is None else ParentGroup(folder=self.own)
        self.limits = DriverLimits(
            limiter=self.driver, devices=["a", "b"], parent=parent, awake=self.clock.awake, on_change=lambda: None
        )
        return ServerRuns(
            stopper=self.hub,
            clock=self.clock,
            hub_processes=lambda: {os.getpid()},
            enforcers=Enforcers(limits=self.limits),
        )

    def workload(self, id=None, run=1, **fields):
        self.workloads.append(super().workload(id, run, **fields))
        return self.workloads[-1]

    def group(self, workload):
        return self.own / f"jupyter-gq-server-{workload.id}-{workload.run}"

    async def limited(self, workload, trouble=""):
        """Want a limit of 1000 MiB until the driver keeps it, or until there is this trouble."""

        def found():
            self.limits.want(workload.id, workload.run, {"a": 1000})
            state = self.limits.state(workload.id, workload.run)
            return state if trouble in state.trouble and (trouble or state.confirmed) else None

        return await eventually(found, "the limit")


@pytest.fixture
def own():
    found = find_own_group()
    if found is None:
        pytest.skip("this process may not make control groups of version 2")
    return found


@pytest.fixture
def limited(tmp_path, own):
    world = LimitedServersWorld(tmp_path, own)
    yield world
    world.clean_up()
    for group in filter(Path.exists, map(world.group, world.workloads)):
        until(lambda group=group: not pids_of(str(group)), "the end of the programs")
        group.rmdir()


def group_of(pid):
    return find_group(Path(f"/proc/{pid}"))


async def test_server_and_all_that_it_has_started_get_a_group_with_a_limit(limited):
    workload = limited.workload()
    await limited.launch(workload, {"has kernel": True})
    kernel, leader = limited.kernel(workload), limited.leader(workload)
    assert {group_of(kernel), group_of(leader)} == {limited.group(workload)}
    await limited.limited(workload)
    assert limited.driver.limits == {("a", str(limited.group(workload))): 1000}


async def test_group_goes_with_its_limit_when_the_server_ends(limited):
    workload = limited.workload()
    await limited.launch(workload)
    await limited.limited(workload)
    os.kill(limited.leader(workload), signal.SIGKILL)
    await limited.end(workload)
    await eventually(lambda: not limited.group(workload).exists(), "the end of the group")
    assert limited.driver.calls[-1] == ("a", None)


async def test_program_that_systemd_has_moved_takes_the_level_away(limited, own):
    """As `systemd-run --scope` does: the program is below the kernel still, and in another group."""
    foreign = own / f"scope-{os.getpid()}"
    foreign.mkdir()
    try:
        workload = limited.workload()
        await limited.launch(workload, {"has kernel": True})
        await limited.limited(workload)
        users = [identify(limited.leader(workload)), kernel := identify(limited.kernel(workload))]
        limited.limits.note_users(workload.id, 1, users)
        assert limited.limits.state(workload.id, 1).confirmed == {"a"}
        add_process(str(foreign), kernel.pid)
        limited.limits.note_users(workload.id, 1, users)
        state = limited.limits.state(workload.id, 1)
        assert (state.confirmed, f"process {kernel.pid}" in state.trouble) == (frozenset(), True)
        (seen,) = await limited.backend.observe()
        assert kernel.pid in seen.pids, "the watchdog measures it"
    finally:
        limited.clean_up()
        until(lambda: not pids_of(str(foreign)), "the end of the program")
        foreign.rmdir()


@pytest.fixture
def daemon():
    """A program that is below no server."""
    made = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield made
    made.kill()
    made.wait()


async def test_program_that_left_its_parent_belongs_to_the_group_of_its_server(limited, daemon):
    workload = limited.workload()
    await limited.launch(workload)
    add_process(str(limited.group(workload)), daemon.pid)
    (seen,) = await limited.backend.observe()
    assert daemon.pid in seen.pids
    assert limited.backend.signal_process(workload.id, 1, identify(daemon.pid), signal.SIGTERM)
    assert daemon.wait(scaled(30)) == -signal.SIGTERM


async def test_server_of_an_earlier_service_keeps_its_group(limited):
    workload = limited.workload()
    await limited.launch(workload)
    (process,) = limited.processes
    limited.backend = limited.new_backend()
    await limited.launch(workload, detail=detail_of(process))
    assert (await limited.limited(workload)).confirmed == {"a"}
    limited.backend.attach(workload.id, workload.run, process.pid, detail_of(process).pid_started)
    assert group_of(process.pid) == limited.group(workload)


async def test_server_that_was_started_before_is_not_moved_and_says_so(limited):
    workload = limited.workload()
    await limited.launch(workload)
    (process,) = limited.processes
    add_process(str(limited.own), process.pid)
    limited.backend = limited.new_backend()
    await limited.launch(workload, detail=detail_of(process))
    limited.backend.attach(workload.id, workload.run, process.pid, detail_of(process).pid_started)
    assert (await limited.limited(workload, "start it again")).confirmed == frozenset()
    assert group_of(process.pid) == limited.own


async def test_server_in_a_group_of_its_spawner_stays_there(limited, own):
    foreign = own / f"foreign-{os.getpid()}"
    foreign.mkdir()
    try:
        workload = limited.workload()
        await limited.backend.launch(Launch(workload=workload))
        process = await limited.start(workload, None, "ann")
        add_process(str(foreign), process.pid)
        limited.backend.attach(workload.id, workload.run, process.pid, detail_of(process).pid_started)
        assert (await limited.limited(workload, "group of its spawner")).confirmed == frozenset()
        assert group_of(process.pid) == foreign
    finally:
        limited.clean_up()
        until(lambda: not pids_of(str(foreign)), "the end of the server")
        foreign.rmdir()


async def test_server_with_whole_devices_stays_in_the_group_of_the_hub(limited):
    workload = limited.workload()
    workload = replace(workload, request=replace(workload.request, milli_per_device=ONE_GPU))
    await limited.launch(workload)
    assert group_of(limited.leader(workload)) == limited.own


async def test_service_without_groups_says_so(tmp_path):
    world = LimitedServersWorld(tmp_path, None)
    workload = world.workload()
    await world.launch(workload)
    assert "Delegate=yes" in (await world.limited(workload, "no control group")).trouble
    world.clean_up()


async def test_groups_of_servers_that_ended_without_a_service_are_removed(limited):
    left = limited.own / f"jupyter-gq-server-nb-{os.getpid()}-1"
    left.mkdir()
    workload = limited.workload()
    await limited.launch(workload)
    limited.driver.limits["b", str(left)] = 1000
    limited.new_backend()
    await eventually(lambda: not left.exists(), "the end of the group")
    assert limited.driver.limits["b", str(left)] is None
    assert (runs(limited.leader(workload)), limited.group(workload).exists()) == (True, True)


def detail_of(process):
    """Return the record of a server with this process."""
    return WorkloadDetail(pid=process.pid, pid_started=psutil.Process(process.pid).create_time())
