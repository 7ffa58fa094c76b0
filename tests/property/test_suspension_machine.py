"""Whatever notebooks do and whenever the service is killed: bytes are on a device once, and every share comes back.

The state machine of the controller, on a machine with few cores whose driver suspends shares, where notebooks soon
count as idle, and whose devices are drained and taken from their pool.
"""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.domain.errors import Conflict, NotFound
from jupyter_gq.domain.states import FINAL, State
from tests.fakes import SuspendsShares, a_node
from tests.property.lives import lives
from tests.unit.controller.world import ADMIN, World, story_settings

from .test_controller_machine import PEOPLE, ControllerMachine

#: Two devices; jobs may use three cores.
NODE = replace(a_node(2), cpu_milli=3000)
DEVICES = tuple(device.id for device in NODE.devices)
SOON_IDLE = {
    "Pools": {"pools": {"all": {"devices": [0, 1]}}},
    "FixedQuota": {"default": "1", "groups": {}},
    "TrainingQueues": {"queues": {"vision": {"quota": "1"}, "nlp": {"quota": "1"}}},
    "IdlePolicy": {"after": 20, "warning": 5, "grace": 0, "keep_step": 30},
}


class SuspensionMachine(ControllerMachine):
    """The rules of the controller's machine, and what kernels and drivers do."""

    def __init__(self):
        """Two notebooks hold both devices, and a job waits."""
        super().__init__()
        for who in ("ann", "bob"):
            ticket = self.runner.run(self.world.start_server(PEOPLE[who][0], "1"))
            self.asked.append(ticket.id)
        self.send("carol", "1")

    def make_world(self) -> World:
        settings = story_settings((NODE,), **SOON_IDLE)
        return World(self.folder, servers=SuspendsShares, settings=settings, nodes=(NODE,))

    @rule(device=st.sampled_from(DEVICES), drained=st.booleans())
    def somebody_drains_or_undrains(self, device, drained):
        drains = self.world.controller.drains
        try:
            self.runner.run(drains.begin(ADMIN, device) if drained else drains.end(ADMIN, device))
        except Conflict:
            return

    @rule(devices=st.sampled_from([DEVICES, DEVICES, DEVICES[:1], DEVICES[1:]]))
    def the_pool_is_changed(self, devices):
        self.world.settings.change(device_pool=dict.fromkeys(devices, "all"))

    @rule(who=st.sampled_from(sorted(PEOPLE)), gpus=st.sampled_from(["0", "0.5", "1"]), cores=st.integers(1, 3))
    def send_a_job_with_cores(self, who, gpus, cores):
        caller, queue = PEOPLE[who]
        self.sent.append(self.world.send(caller, queue, gpus, cpus=cores))

    @rule(who=st.sampled_from(sorted(PEOPLE)), busy=st.sampled_from([True, False, False, None]))
    def a_kernel_is(self, who, busy):
        try:
            self.world.report(PEOPLE[who][0], busy=busy)
        except NotFound:
            return

    @rule(steps=st.integers(1, 6))
    def nobody_uses_a_notebook(self, steps):
        """Time in which all kernels are idle, so that whoever waits gets a share."""
        for _ in range(steps):
            for who in PEOPLE:
                self.a_kernel_is(who, False)
            self.runner.run(self.world.step(seconds=8))

    @rule(refuses=st.booleans())
    def the_driver_refuses(self, refuses):
        self.world.servers.refuses = "The kernel uses managed memory." if refuses else ""

    @rule(loses=st.booleans())
    def the_driver_loses_state(self, loses):
        self.world.servers.loses = "The GPU state is lost." if loses else ""

    @invariant()
    def devices_are_lent_only_without_their_bytes(self):
        """Safety: a share whose record says SUSPENDED has no bytes on its device, or will be demanded back."""
        for record in self.world.sql.unfinished():
            share = self.world.servers.shares.get(record.workload.id)
            if record.workload.state is State.SUSPENDED and share is not None:
                assert share.phase is SharePhase.SUSPENDED, (record.workload, share)

    def is_away(self, key) -> bool:
        share = self.world.servers.shares.get(key[0])
        return share is not None and share.phase is SharePhase.SUSPENDED

    def everything_comes_to_its_end(self):
        """Liveness: a suspended notebook that is used comes back, whoever borrowed its device.

        Its device may take nothing new. Everything else needs devices that do.
        """
        self.world.servers.refuses = ""
        wanted = {
            ticket: who
            for ticket in self.asked
            for who in PEOPLE
            if (record := self._record(ticket)).workload.state in {State.SUSPENDED, State.RESUMING}
            and record.workload.stop is None
            and record.workload.owner == PEOPLE[who][0].user
            and record.detail.pid in self.world.servers.processes
        }
        for _ in range(40):
            for who in wanted.values():
                self.a_kernel_is(who, True)
            self.runner.run(self.world.step(seconds=2))
        for ticket in wanted:
            assert self._record(ticket).workload.state in {State.RUNNING, *FINAL}, self._record(ticket)
        self.the_pool_is_changed(DEVICES)
        for device in DEVICES:
            self.somebody_drains_or_undrains(device, False)
        super().everything_comes_to_its_end()


TestSuspensionMachine = lives(SuspensionMachine, count=15, steps=40)
