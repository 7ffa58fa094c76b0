"""Whatever people do and whenever the service is killed: a suspended job is at no device, and goes on with its run.

The state machine of the controller, on a machine whose driver suspends the runs of paused jobs.
"""

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from jupyter_gq.domain.states import State
from tests.fakes import SuspendsJobs
from tests.property.lives import lives
from tests.unit.controller.world import World

from .test_controller_machine import ControllerMachine


class SuspendedJobsMachine(ControllerMachine):
    """The rules of the controller's machine, and what the driver does."""

    def make_world(self) -> World:
        return World(self.folder, backend=SuspendsJobs)

    @rule(refuses=st.booleans())
    def the_driver_refuses(self, refuses):
        self.world.backend.refuses = "The kernel uses managed memory." if refuses else ""

    @rule(loses=st.booleans())
    def the_driver_loses_state(self, loses):
        self.world.backend.loses = "The GPU state is lost." if loses else ""

    @rule(moves=st.booleans())
    def the_driver_can_move(self, moves):
        self.world.backend.can_move = moves

    @rule(steps=st.integers(2, 6))
    def undisturbed(self, steps):
        self.runner.run(self.world.step(steps))

    @invariant()
    def a_run_without_devices_is_away(self):
        """Safety: the run of a job that waits has left its device, if its record names that run."""
        for record in self.world.sql.unfinished():
            workload, suspension = record.workload, record.detail.suspension
            if workload.state is State.PENDING and suspension is not None:
                assert suspension.since is not None, record
                key = (workload.id, workload.run)
                assert key not in self.world.backend.alive() or self.is_away(key), record

    @invariant()
    def a_share_is_suspended_for_its_record_only(self):
        """Safety: no job that runs or has ended has a suspension in its record."""
        for record in self.world.sql.unfinished():
            if record.workload.state is State.RUNNING:
                assert record.detail.suspension is None, record

    def is_away(self, key) -> bool:
        return key in self.world.backend.runs and self.world.backend.is_away(key[0])

    def everything_comes_to_its_end(self):
        self.world.backend.refuses = self.world.backend.loses = ""
        super().everything_comes_to_its_end()


TestSuspendedJobsMachine = lives(SuspendedJobsMachine, count=20, steps=40)
